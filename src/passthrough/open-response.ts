/**
 * Counts responses that are passed through, so that a drain waits for them. It does not wait for the streams on which
 * clients listen, since they would never end.
 */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { OpenResponses } from '../lib/responses.ts';

/** One response, counted while a drain must wait for it. */
export class OpenResponse {
  readonly #openResponses: OpenResponses;
  readonly #reply: FastifyReply;
  #release: (() => void) | null = null;

  /** Until the head of the response arrives, `Accept` tells whether the client listens. */
  constructor(openResponses: OpenResponses, request: FastifyRequest, reply: FastifyReply) {
    this.#openResponses = openResponses;
    this.#reply = reply;
    reply.raw.once('close', () => this.#uncount());
    const { method, headers } = request;
    if (method !== 'GET' || !(headers.accept ?? '').includes('text/event-stream')) this.#count();
  }

  /** Handles the head of the response. */
  begin({ isListening }: { readonly isListening: boolean }): void {
    if (isListening) this.#uncount();
    else if (!this.#reply.raw.destroyed) this.#count();
  }

  #count(): void {
    this.#release ??= this.#openResponses.open();
  }

  #uncount(): void {
    this.#release?.();
    this.#release = null;
  }
}

/** Tells whether the response, whose headers the reply already has, is a stream to listen on. */
export function isListening({ method }: FastifyRequest, reply: FastifyReply): boolean {
  if (method !== 'GET') return false;
  return /^\s*text\/event-stream\s*(;|$)/i.test(String(reply.getHeader('content-type') ?? ''));
}
