/**
 * The response to a request that is passed through: counted while it is open, streamed, or the gateway's own. The `endpoint`
 * event at the beginning of a stream is read on its way (2024-11-05 transports, "HTTP with SSE").
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { pipeline, type Readable, Transform } from 'node:stream';
import type { FastifyReply } from 'fastify';
import { createParser } from 'eventsource-parser';
import { BODY_TOO_LARGE, refuse } from '../../edge/response-writer.ts';
import type { OpenResponses } from '../../lib/http.ts';
import type { CallerRefusal } from '../../model/request.ts';
import { EFFECTS_IN_WORDS, type MayHaveActed } from '../../model/failures.ts';
import { BodyTooLarge } from './request.ts';

/**
 * Counts a response while a drain must wait for it. A drain does not wait for the streams on which clients listen, since they
 * would never end. Until the head of the response arrives, `Accept` tells whether the client listens.
 * @returns a function to call with the head: whether the client listens
 */
export function countOpen(
  openResponses: OpenResponses,
  { method, headers }: IncomingMessage,
  response: ServerResponse,
): (isListening: boolean) => void {
  let release: (() => void) | null = null;
  const count = (isListening: boolean) => {
    if (isListening) release?.();
    else if (!response.destroyed) release ??= openResponses.open();
  };
  response.once('close', () => release?.());
  count(method === 'GET' && (headers.accept ?? '').includes('text/event-stream'));
  return count;
}

/** Tells whether the response, whose headers the reply already has, is a stream to listen on. */
export function isListening(reply: FastifyReply): boolean {
  if (reply.request.method !== 'GET') return false;
  return /^\s*text\/event-stream\s*(;|$)/i.test(String(reply.getHeader('content-type') ?? ''));
}

/** Sends the head at once, since an event stream can stay empty for long, and then the body. */
export function pipe(stream: Readable, reply: FastifyReply, through: readonly Transform[]): void {
  const { raw, statusCode } = reply;
  const headers = reply.getHeaders();
  reply.hijack();
  raw.statusCode = statusCode;
  for (const [name, value] of Object.entries(headers)) {
    const isOfOtherLength = through.length > 0 && name === 'content-length';
    if (value !== undefined && !isOfOtherLength) raw.setHeader(name, value);
  }
  // An empty write, since `flushHeaders` would encode bytes beyond ASCII as UTF-8.
  if (!raw.hasHeader('content-length')) raw.write(Buffer.alloc(0));
  // The end of each side ends the other; a broken one is broken there, too.
  pipeline([stream, ...through, raw], () => {});
}

export type FailureStatus = 413 | 502 | 504;

const MESSAGES: Readonly<Record<FailureStatus, string>> = {
  413: BODY_TOO_LARGE,
  502: 'The connection to the upstream server broke',
  504: 'The upstream server did not respond in time',
};
const UNREACHABLE = 'The upstream server cannot be reached';

/** Responds with this status. The rest of the body is read and discarded, so that the response arrives. */
export function refusePassThrough(
  response: ServerResponse,
  httpStatus: number,
  message: string,
  mayHaveActed?: MayHaveActed,
  headers: CallerRefusal['headers'] = {},
): void {
  refuse(response, httpStatus, message, headers, mayHaveActed);
  response.req.resume();
}

/**
 * Responds to a request that failed.
 * @param error of the forwarding library
 * @param cause of that error
 * @param written whether any part of the request was sent, so that the server may have acted
 * @returns the status of the response
 */
export function refuseFailed(
  response: ServerResponse,
  error: Error,
  cause: Error,
  written: boolean,
): FailureStatus {
  const httpStatus = statusOf(error, cause);
  const message = httpStatus === 502 && !written ? UNREACHABLE : MESSAGES[httpStatus];
  const mayHaveActed = written ? 'unknown' : 'no';
  const effects = EFFECTS_IN_WORDS[mayHaveActed];
  refusePassThrough(response, httpStatus, `${message}. ${effects}`, mayHaveActed);
  return httpStatus;
}

function statusOf(error: Error, cause: Error): FailureStatus {
  if (cause instanceof BodyTooLarge) return 413;
  return 'statusCode' in error && error.statusCode === 504 ? 504 : 502;
}

/** An `endpoint` event is much shorter. A longer first event is of another kind of stream. */
const MAX_EVENT_BYTES = 16 * 1024;
/** The end of a line and an empty line. */
export const END_OF_EVENT = /(?:\r\n|(?<!\r)\n|\r(?!\n))(?:\r\n|\n|\r(?!\n))/g;
const LINE_END = /\r\n|\r|\n/;

/**
 * Reads the first event without consuming or delaying the stream. Must be called before the stream flows.
 * @param onEndpoint called with the data of the first event if it is `endpoint` (2024-11-05 transports, "HTTP with
 *   SSE"). The function that it returns is called when the stream ends.
 */
export function watchEndpoint(
  stream: Readable,
  onEndpoint: (endpoint: string) => () => void,
): void {
  const decoder = new TextDecoder('utf-8');
  let leftBytes = MAX_EVENT_BYTES;
  let isOver = false;
  const parser = createParser({
    onEvent: ({ event, data }) => {
      if (isOver) return;
      isOver = true;
      if (event === 'endpoint') stream.once('close', onEndpoint(data));
    },
  });
  const read = (chunk: Uint8Array) => {
    const part = chunk.subarray(0, leftBytes);
    leftBytes -= part.byteLength;
    parser.feed(decoder.decode(part, { stream: true }));
    if (isOver || leftBytes === 0) stream.off('data', read);
  };
  stream.on('data', read);
}

/**
 * Passes on a stream. Comments are passed on at once; at most the beginning of one event is held back.
 * @param rewrite returns the new data of the `endpoint` event (2024-11-05 transports, "HTTP with SSE"). If it returns
 *   `null`, the stream ends with an error.
 */
export function rewritingEndpoint(rewrite: (endpoint: string) => string | null): Transform {
  let held = Buffer.alloc(0);
  let isOver = false;
  const take = (chunk: Buffer): Buffer | null => {
    held = Buffer.concat([held, chunk]);
    const passed: Buffer[] = [];
    let from = 0;
    // Latin-1 keeps every byte as it is.
    for (const { index, 0: end } of held.toString('latin1').matchAll(END_OF_EVENT)) {
      const block = held.subarray(from, index + end.length);
      from += block.length;
      const event = firstEvent(block);
      isOver = event !== null;
      if (event?.event === 'endpoint') {
        const data = rewrite(event.data);
        if (data === null) return null;
        passed.push(withData(block, data));
      } else passed.push(block);
      if (isOver) break;
    }
    held = held.subarray(from);
    if (held.byteLength > MAX_EVENT_BYTES) isOver = true;
    if (isOver) {
      passed.push(held);
      held = Buffer.alloc(0);
    }
    return Buffer.concat(passed);
  };
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      if (isOver) return done(null, chunk);
      const passed = take(chunk);
      if (passed === null) done(new Error('the endpoint of the session cannot be sealed'));
      else done(null, passed.byteLength === 0 ? undefined : passed);
    },
    flush(done) {
      done(null, held.byteLength === 0 ? undefined : held);
    },
  });
}

export function firstEvent(
  block: Buffer,
): { readonly event: string; readonly data: string } | null {
  let first: { event: string; data: string } | null = null;
  const parser = createParser({
    onEvent: ({ event = 'message', data }) => (first ??= { event, data }),
  });
  parser.feed(block.toString('utf8'));
  return first;
}

/** Replaces the data of an event. */
export function withData(block: Buffer, data: string): Buffer {
  const others = block
    .toString('utf8')
    .split(LINE_END)
    .filter((line) => line !== '' && !/^data(:|$)/.test(line));
  return Buffer.from([...others, `data: ${data}`, '', ''].join('\n'));
}
