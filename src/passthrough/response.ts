/** The response to a request that is passed through: counted while it is open, streamed, or the gateway's own. */
import { pipeline, type Readable, type Transform } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { BODY_TOO_LARGE, refuse as sendRefusal, UNKNOWN_CALLER } from '../edge/http/refusal.ts';
import type { OpenResponses } from '../lib/responses.ts';
import { EFFECTS_IN_WORDS, type MayHaveActed } from '../model/failure-catalogue.ts';
import { BodyTooLarge } from './request.ts';

/**
 * One response, counted while a drain must wait for it. A drain does not wait for the streams on which clients listen,
 * since they would never end.
 */
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

/** Sends the head at once, since an event stream can stay empty for long, and then the body. */
export function pipe(stream: Readable, reply: FastifyReply, through: Transform | null): void {
  const { raw, statusCode } = reply;
  const headers = reply.getHeaders();
  reply.hijack();
  raw.statusCode = statusCode;
  for (const [name, value] of Object.entries(headers)) {
    const isOfOtherLength = through !== null && name === 'content-length';
    if (value !== undefined && !isOfOtherLength) raw.setHeader(name, value);
  }
  // An empty write, since `flushHeaders` would encode bytes beyond ASCII as UTF-8.
  if (!raw.hasHeader('content-length')) raw.write(Buffer.alloc(0));
  // The end of each side ends the other; a broken one is broken there, too.
  if (through === null) pipeline(stream, raw, () => {});
  else pipeline(stream, through, raw, () => {});
}

export type FailureStatus = 413 | 502 | 504;

const MESSAGES: Readonly<Record<FailureStatus, string>> = {
  413: BODY_TOO_LARGE,
  502: 'The connection to the upstream server broke',
  504: 'The upstream server did not respond in time',
};
const UNREACHABLE = 'The upstream server cannot be reached';

/** Responds with this status. The rest of the body is read and discarded, so that the response arrives. */
export function refuse(
  reply: FastifyReply,
  httpStatus: number,
  message: string,
  mayHaveActed: MayHaveActed = 'no',
): void {
  sendRefusal(reply.hijack().raw, httpStatus, message, {}, mayHaveActed);
  reply.request.raw.resume();
}

/** Responds to a caller whom the configured identity source does not name. */
export async function refuseUnknown(reply: FastifyReply): Promise<void> {
  refuse(reply, 401, UNKNOWN_CALLER);
}

/**
 * Responds to a request that failed.
 * @param error of the forwarding library
 * @param cause of that error
 * @param written whether any part of the request was sent, so that the server may have acted
 * @returns the status of the response
 */
export function refuseFailed(
  reply: FastifyReply,
  error: Error,
  cause: Error,
  written: boolean,
): FailureStatus {
  const httpStatus = statusOf(error, cause);
  const message = httpStatus === 502 && !written ? UNREACHABLE : MESSAGES[httpStatus];
  if (written) refuse(reply, httpStatus, `${message}. ${EFFECTS_IN_WORDS.unknown}`, 'unknown');
  else refuse(reply, httpStatus, `${message}. ${EFFECTS_IN_WORDS.no}`);
  return httpStatus;
}

function statusOf(error: Error, cause: Error): FailureStatus {
  if (cause instanceof BodyTooLarge) return 413;
  return 'statusCode' in error && error.statusCode === 504 ? 504 : 502;
}
