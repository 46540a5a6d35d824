/**
 * Whether the process has to wait for an answer that is passed on. It waits for every answer but the
 * streams on which clients listen for what may come: these would never end by themselves.
 */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { OpenResponses } from '../lib/open-responses.ts';

/** One answer, counted in `OpenResponses` for as long as the process has to wait for it. */
export class OpenAnswer {
  readonly #openResponses: OpenResponses;
  readonly #reply: FastifyReply;
  #release: (() => void) | null = null;

  /** Before the server has said what it answers, what the client asks for has to do. */
  constructor(openResponses: OpenResponses, request: FastifyRequest, reply: FastifyReply) {
    this.#openResponses = openResponses;
    this.#reply = reply;
    reply.raw.once('close', () => this.#leaveOut());
    const { method, headers } = request;
    if (method !== 'GET' || !(headers.accept ?? '').includes('text/event-stream')) this.#count();
  }

  /** The head of the answer has come. */
  begun({ listens }: { readonly listens: boolean }): void {
    if (listens) this.#leaveOut();
    else if (!this.#reply.raw.destroyed) this.#count();
  }

  #count(): void {
    this.#release ??= this.#openResponses.open();
  }

  #leaveOut(): void {
    this.#release?.();
    this.#release = null;
  }
}

/** Whether the answer, whose headers the reply has already, is a stream to listen on. */
export function isListening({ method }: FastifyRequest, reply: FastifyReply): boolean {
  if (method !== 'GET') return false;
  return /^\s*text\/event-stream\s*(;|$)/i.test(String(reply.getHeader('content-type') ?? ''));
}
