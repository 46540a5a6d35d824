/**
 * Writes HTTP responses: refusals, and the response to a modern request. That is one JSON object if the reply comes soon,
 * else an event stream, from the first notification on or after `COMMIT_AFTER_MS`. Both end with the JSON-RPC reply.
 */
import type { ServerResponse } from 'node:http';
import { type Clock, type Timer, Closing } from '../lib/clock.ts';
import type { OpenResponses, WriteBurst } from '../lib/http.ts';
import type { CallReply, Waiter } from '../model/request.ts';
import type { ClientRequestId } from '../protocol/ids.ts';
import { isJsonObject, type JsonObject, objectMember } from '../protocol/json.ts';
import { loginChallenge } from '../protocol/protected-resource.ts';
import type { MayHaveActed } from '../model/failures.ts';
import { ErrorCode, type JsonRpcErrorObject } from '../protocol/json-rpc.ts';
import { MODERN_REVISION } from '../protocol/meta.ts';

/** A reply as a wire has it. */
export interface WireReply {
  /** The members of the JSON-RPC response besides `jsonrpc` and `id`. */
  readonly members: JsonObject;
  readonly httpStatus: number;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Writes a reply as the final revision has it. */
export function finalReply(reply: CallReply): WireReply {
  if (reply.kind === 'result') return { members: { result: reply.result }, httpStatus: 200 };
  const { error, httpStatus, headers = {} } = reply.failure;
  return { members: { error: { ...error } }, httpStatus, headers };
}

/** What all responses of an endpoint have in common. */
export interface ResponseSettings {
  /** If more bytes wait, the client is behind. */
  readonly maxBufferedBytes: number;
  readonly clock: Clock;
  /** Counts each response until it is over. */
  readonly openResponses: OpenResponses;
  /** Makes the writes of responses. */
  readonly writes: WriteBurst;
}

/** One response. */
export interface ResponseOptions {
  readonly id: ClientRequestId;
  readonly encode: (reply: CallReply) => WireReply;
  /** The client accepts JSON only, or reads nothing else in reply to this method: no stream, and so no notifications. */
  readonly jsonOnly: boolean;
  /** Disconnects a client that is behind. For streams whose source cannot be paused. */
  readonly cutWhenBehind: boolean;
}

/** The response that was sent, for logs and metrics. */
export interface SentResponse {
  readonly status: number;
  /** The JSON-RPC error code, or `null` for a result. */
  readonly code: number | null;
}

/** If more bytes wait for a client, it is behind. */
export const MAX_BUFFERED_BYTES = 256 * 1024;
/** When a response that waits for its reply becomes an event stream, in ms: heartbeats keep it open in proxies, most of which wait a minute. */
export const COMMIT_AFTER_MS = 5_000;

/** How often a comment is sent on a silent stream, in ms: proxies wait for 30 s or longer. */
export const KEEP_ALIVE_MS = 15_000;

export const STREAM_HEADERS = {
  'content-type': 'text/event-stream',
  'cache-control': 'no-cache, no-transform',
  // Asks proxies such as nginx not to buffer (streamable-http, "Receiving Messages").
  'x-accel-buffering': 'no',
};

export class ResponseWriter implements Waiter {
  readonly #response: ServerResponse;
  readonly #options: ResponseOptions;
  readonly #settings: ResponseSettings;
  readonly closed = new Closing();
  #timer: Timer | null = null;
  #streaming = false;
  #finished = false;
  #backlog: PromiseWithResolvers<void> | null = null;
  #over: PromiseWithResolvers<void> | null = null;

  constructor(response: ServerResponse, options: ResponseOptions, settings: ResponseSettings) {
    this.#response = response;
    this.#options = options;
    this.#settings = settings;
    // A client that closes the connection before the response is complete cancels (streamable-http, "Cancellation").
    const countedUntil = settings.openResponses.open();
    response.on('close', () => {
      countedUntil();
      this.#stopTimer();
      if (!response.writableFinished) this.closed.abort();
      this.#releaseBacklog();
      this.#over?.resolve();
    });
    if (!options.jsonOnly) this.#wait(COMMIT_AFTER_MS, () => this.#commit());
  }

  get backlog(): Promise<void> | null {
    return this.#backlog?.promise ?? null;
  }

  /** Resolves when the client has the whole response, or has left. */
  get over(): Promise<void> {
    this.#over ??= Promise.withResolvers();
    if (this.#response.closed) this.#over.resolve();
    return this.#over.promise;
  }

  notify(method: string, params: JsonObject): void {
    if (this.#options.jsonOnly || this.#finished || this.closed.aborted) return;
    this.#commit();
    this.#send({ jsonrpc: '2.0', method, params });
  }

  /**
   * Gives the response up, so that another writer can begin it.
   * @returns false if it has begun
   */
  withdraw(): boolean {
    if (this.#streaming) return false;
    this.#finished = true;
    this.#stopTimer();
    return true;
  }

  /** Sends the reply and ends the response. */
  finish(reply: CallReply): SentResponse {
    this.#finished = true;
    this.#stopTimer();
    // Nothing follows that could be held back.
    this.#releaseBacklog();
    const { id, encode } = this.#options;
    const { members, httpStatus: status, headers } = encode(reply);
    const body = { jsonrpc: '2.0', id, ...members };
    const code = reply.kind === 'result' ? null : reply.failure.error.code;
    if (this.#streaming) {
      this.#send({ ...body, ...withChallenge(members, headers?.['www-authenticate']) });
      this.#response.end();
      return { status: 200, code };
    }
    sendJson(this.#response, status, body, headers, this.#settings.writes);
    return { status, code };
  }

  #commit(): void {
    if (this.#streaming) return;
    this.#streaming = true;
    this.#response.writeHead(200, STREAM_HEADERS);
    this.#response.flushHeaders();
    this.#keepAlive();
  }

  #keepAlive(): void {
    this.#wait(KEEP_ALIVE_MS, () => {
      this.#write(': keep-alive\n\n');
      this.#keepAlive();
    });
  }

  #send(message: object): void {
    this.#write(`event: message\ndata: ${JSON.stringify(message)}\n\n`);
  }

  #write(text: string): void {
    if (this.closed.aborted) return;
    const { maxBufferedBytes } = this.#settings;
    // `write` returns true if all bytes are out: then no `drain` follows.
    const isWritten = this.#response.write(text);
    if (this.#finished || isWritten || this.#response.writableLength <= maxBufferedBytes) return;
    if (this.#options.cutWhenBehind) this.#response.destroy();
    else this.#holdBack();
  }

  #holdBack(): void {
    if (this.#backlog !== null) return;
    this.#backlog = Promise.withResolvers();
    this.#response.once('drain', () => this.#releaseBacklog());
  }

  #releaseBacklog(): void {
    this.#backlog?.resolve();
    this.#backlog = null;
  }

  #wait(afterMs: number, then: () => void): void {
    this.#stopTimer();
    this.#timer = this.#settings.clock.setTimer(afterMs, then);
  }

  #stopTimer(): void {
    this.#timer?.cancel();
    this.#timer = null;
  }
}

/** Puts a challenge into an error whose response has no header for it any more. */
function withChallenge(
  { error }: WireReply['members'],
  challenge: string | undefined,
): { readonly error?: JsonObject } {
  if (challenge === undefined || !isJsonObject(error)) return {};
  const data = objectMember(error, 'data');
  return { error: { ...error, data: { ...data, wwwAuthenticate: loginChallenge(challenge) } } };
}

/**
 * Sends one JSON object as the whole response.
 * @param writes makes the write; without it, and with further headers, it is made at once
 */
export function sendJson(
  response: ServerResponse,
  status: number,
  body: object,
  headers: Readonly<Record<string, string>> = {},
  writes: WriteBurst | null = null,
): void {
  if (response.destroyed) return;
  const text = JSON.stringify(body);
  const bytes = Buffer.byteLength(text);
  const content = { 'content-type': 'application/json', 'content-length': bytes };
  if (Object.keys(headers).length === 0 && response.getHeaderNames().length === 0) {
    const write = () => {
      // What failed meanwhile can have been refused already.
      if (response.destroyed || response.headersSent) return;
      // Node.js writes head and body as one text, which is quicker than two buffers. Pure ASCII is the same in both encodings.
      response.writeHead(status, content).end(text, bytes === text.length ? 'latin1' : 'utf8');
    };
    if (writes === null) write();
    else writes.add(write);
    return;
  }
  // As bytes: with a text Node.js encodes the headers like the body, and changes those beyond ASCII.
  response.writeHead(status, { ...headers, ...content }).end(Buffer.from(text));
}

/** A refusal before it is known which request it is for. */
export interface UnnamedRefusal {
  readonly httpStatus: number;
  readonly error: JsonRpcErrorObject;
  readonly headers?: Readonly<Record<string, string>>;
  /** `unknown` if it is absent: nothing was sent, but the request can be the retry of a call that has begun. */
  readonly mayHaveActed?: MayHaveActed;
}

export interface Refusal extends UnnamedRefusal {
  /** `null` if the id of the request could not be read. The reply then has no `id`. */
  readonly id: ClientRequestId | null;
}

/** Builds the JSON-RPC error reply for a refusal (basic/index, "Error Responses"). */
export function refusalBody({
  id,
  error,
  mayHaveActed = 'unknown',
}: Omit<Refusal, 'httpStatus'>): JsonObject {
  const data = { ...objectMember({ ...error }, 'data'), mayHaveActed };
  return { jsonrpc: '2.0', ...(id === null ? {} : { id }), error: { ...error, data } };
}

/** Refuses a request, with its id where that is known. */
export function sendRefusal(
  response: ServerResponse,
  refusal: Refusal,
  headers: Readonly<Record<string, string>> = {},
): void {
  noteRefusal(response, refusal.error.message);
  sendJson(response, refusal.httpStatus, refusalBody(refusal), { ...refusal.headers, ...headers });
}

const refusals = new WeakMap<ServerResponse, string>();

/** Has the log tell why a request was refused. */
export function noteRefusal(response: ServerResponse, problem: string): void {
  refusals.set(response, problem);
}

/** Tells why a request was refused, for the log. @returns `undefined` if it was not */
export function refusalReason(response: ServerResponse): string | undefined {
  return refusals.get(response);
}

export const BODY_TOO_LARGE = 'Request body too large (limits.maxBody)';
/** What a legacy client can do that is not served: its user may see nothing else. */
export const LEGACY_ADVICE = `pin ${MODERN_REVISION} in the client, or use a client that speaks it`;
export const NO_ROOM_FOR_BODY =
  'The gateway has no memory left for large request bodies now (limits.maxMemoryPercent)';
export const NO_SUCH_PATH = 'No route of the gateway has this path';

/** Says that a method of HTTP is not that of modern clients (streamable-http, "Earlier Streamable HTTP Revisions"). */
export function removedMethod(method: string): string {
  return `${method} is not part of protocol revision ${MODERN_REVISION}`;
}

/**
 * Refuses a request whose JSON-RPC message was not read. Does not read the rest of the body.
 * @param mayHaveActed what is known of the effects of the request; of one that was not sent, that a retry is a POST
 */
export function refuse(
  response: ServerResponse,
  httpStatus: number,
  message: string,
  headers: Readonly<Record<string, string>> = {},
  mayHaveActed: MayHaveActed = response.req.method === 'POST' ? 'unknown' : 'no',
): void {
  const code = httpStatus >= 500 ? ErrorCode.internalError : ErrorCode.invalidRequest;
  sendRefusal(response, { httpStatus, id: null, error: { code, message }, mayHaveActed }, headers);
}
