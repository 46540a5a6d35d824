/**
 * Serves what legacy clients send to a server that is not legacy over HTTP itself: Streamable HTTP as the revisions up to 2025-11-25 describe it (2025-11-25
 * transports, "Streamable HTTP"). A request can come from a client here, or from the process that its client is connected to.
 */
import { readAccept } from '../../edge/http/header-fields.ts';
import { refusalBody, type Refusal } from '../../edge/response-writer.ts';
import { callLost } from '../../model/failures.ts';
import type { Failure } from '../../model/request.ts';
import { secondsOf } from '../../model/limited.ts';
import { asUpstreamFailure } from '../../model/upstream-failure.ts';
import { clientRequestId } from '../../protocol/ids.ts';
import { parseMessage, type JsonValue } from '../../protocol/json.ts';
import { ErrorCode } from '../../protocol/json-rpc.ts';
import { isLegacyRevision } from '../../protocol/meta.ts';
import { asLine, readClientMessage, type ClientMessage, type ClientRequest } from './envelope.ts';
import type { Accepts, StreamResponse } from './event-stream.ts';
import type { LegacySession } from './session.ts';
import type { LegacySessions, SessionOpening } from './sessions.ts';

/** A request for a session, without its HTTP. */
export interface LegacyRequest {
  readonly verb: 'POST' | 'GET' | 'DELETE';
  readonly route: string;
  /** The key of the session. */
  readonly key: string;
  readonly accept: string | null;
  readonly version: string | null;
  readonly lastEventId: string | null;
  /** JSON. */
  readonly body: string;
  /** Of the caller, for the server. */
  readonly headers: Readonly<Record<string, string>>;
}

/** Who opens a session, and where. */
export interface Opening extends SessionOpening {
  /** Why no session can be opened now; `null` if one can. */
  readonly refusal: OpeningRefusal | null;
  /** Called with the key of the session. @returns headers that name it */
  readonly headersOf: (key: string) => Readonly<Record<string, string>>;
}

export interface OpeningRefusal {
  readonly httpStatus: 200 | 503;
  readonly failure: Failure;
  readonly retryAfterMs: number;
}

/** The one revision that has batches. */
const BATCH_REVISION = '2025-03-26';
/** The most requests of one session without a response. */
const MAX_REQUESTS = 1_000;

/**
 * Opens a session. Some clients take a status of 400 to 499 for a server of HTTP+SSE, and their users would not see why it failed:
 * so that is a JSON-RPC error with status 200.
 * @returns whether it was opened
 */
export async function openSession(
  sessions: LegacySessions,
  opening: Opening,
  initialize: { readonly json: string; readonly message: ClientRequest },
  response: StreamResponse,
): Promise<boolean> {
  const { json, message } = initialize;
  if (opening.refusal !== null) {
    const { httpStatus, failure, retryAfterMs } = opening.refusal;
    const wait = { 'retry-after': String(secondsOf(retryAfterMs)) };
    const refused = { httpStatus, id: clientRequestId(message.id), error: failure.error };
    refuseWith(response, { ...refused, mayHaveActed: 'no' }, wait);
    return false;
  }
  const opened = await sessions.open(opening, asLine(json), message, response);
  const { line, key, httpStatus } = opened;
  const named = key === null ? opened.headers : opening.headersOf(key);
  response.head(httpStatus, { ...named, 'content-type': 'application/json' });
  response.end(line);
  return key !== null;
}

/** Reads the `initialize` of a client. @returns `null` for anything else */
export function readInitialize(value: JsonValue): ClientRequest | null {
  const message = readClientMessage(value);
  return message?.type === 'request' && message.method === 'initialize' ? message : null;
}

/**
 * Serves a request for a session of this process. Resolves when its response has begun. Never rejects.
 * @param value of the body, if that was parsed before
 */
export async function serveInSession(
  sessions: LegacySessions,
  request: LegacyRequest,
  response: StreamResponse,
  value?: JsonValue,
): Promise<void> {
  const { verb, key, route, version, lastEventId } = request;
  const session = sessions.find(key, route);
  if (session === null) return refuse(response, 404, NO_SESSION);
  if (version !== null && !isLegacyRevision(version)) {
    const text = `Unsupported MCP-Protocol-Version: ${version.slice(0, 40)}`;
    return refuse(response, 400, text);
  }
  if (verb === 'POST') {
    return post(session, request, value ?? parseMessage(request.body), response);
  }
  if (verb === 'DELETE') {
    sessions.end(key);
    response.head(200, {});
    return response.end();
  }
  if (readAccept(request.accept ?? undefined) !== 'both') {
    return refuse(response, 406, 'Accept must list text/event-stream');
  }
  session.renew(request.headers);
  if (lastEventId === null) {
    if (!session.listen(response)) refuse(response, 409, 'This session has a stream already');
    return;
  }
  const resumed = session.resume(response, lastEventId);
  if (resumed === 'unknown') {
    const text = 'Last-Event-ID is no event of this session, or one that is no longer kept';
    refuse(response, 400, text);
  } else if (resumed === 'over') {
    // Clients come back to a stream that ends (HTML, "Server-sent events"), unless they get this.
    response.head(204, {});
    response.end();
  }
}

export const NO_SESSION =
  'Mcp-Session-Id names no session, or one that is over: send initialize without it';

async function post(
  session: LegacySession,
  { body, accept, headers }: LegacyRequest,
  value: JsonValue,
  response: StreamResponse,
): Promise<void> {
  const lines = messagesIn(value, body, session);
  if (typeof lines === 'string') return refuse(response, 400, lines);
  const requests = lines.flatMap(({ message }) => (message.type === 'request' ? message : []));
  const repeated = requests.find(({ id }) => session.has(id));
  if (repeated !== undefined) {
    const error = { code: ErrorCode.invalidRequest, message: 'A request with this id is open' };
    const refused = { httpStatus: 400, id: clientRequestId(repeated.id), error };
    return refuseWith(response, { ...refused, mayHaveActed: 'no' });
  }
  if (session.openRequests + requests.length > MAX_REQUESTS) {
    return refuse(response, 429, `The session has ${MAX_REQUESTS} requests without a response`);
  }
  if (requests.length > 0) return session.request(lines, response, acceptsOf(accept), headers);
  try {
    for (const { line, message } of lines) await session.send(line, message, headers);
    response.head(202, {});
    response.end();
  } catch (error) {
    refuse(response, 503, asUpstreamFailure(error, false).message);
  }
}

/** Returns the messages of a body with their JSON, or why they are not served. */
function messagesIn(
  value: JsonValue,
  json: string,
  { revision }: LegacySession,
): string | readonly { readonly line: string; readonly message: ClientMessage }[] {
  const message = readClientMessage(value);
  if (message !== null) return [{ line: json, message }];
  if (!Array.isArray(value) || value.length === 0) return 'The body is not a JSON-RPC message';
  if (revision !== BATCH_REVISION) return `Batches are part of ${BATCH_REVISION} only`;
  const messages = value.flatMap((each) => {
    const read = readClientMessage(each);
    const isMessage = read !== null && (read.type !== 'request' || read.method !== 'initialize');
    return isMessage ? { line: JSON.stringify(each), message: read } : [];
  });
  if (messages.length < value.length) return 'The batch has something that no session takes';
  const ids = messages.flatMap(({ message: one }) => (one.type === 'request' ? one.id : []));
  const isUnique = new Set(ids).size === ids.length;
  return isUnique ? messages : 'Two requests of the batch have the same id';
}

/** What the client takes in response. One that says nothing takes both. */
function acceptsOf(accept: string | null): Accepts {
  if (readAccept(accept ?? undefined) === 'json') return 'json';
  const isSilent = accept === null || accept.trim() === '';
  return isSilent || /application\/(?:json|\*)|\*\/\*/i.test(accept) ? 'both' : 'stream';
}

/** Refuses a request that was not sent to the server. */
export function refuse(response: StreamResponse, httpStatus: number, message: string): void {
  const error = { code: ErrorCode.invalidRequest, message };
  refuseWith(response, { httpStatus, id: null, error, mayHaveActed: 'no' });
}

/** Says that a request was sent to the process that has its session, and nobody knows what became of it. */
export function refuseLost(response: StreamResponse): void {
  const { error } = callLost(false);
  refuseWith(response, { httpStatus: 502, id: null, error, mayHaveActed: 'unknown' });
}

function refuseWith(
  response: StreamResponse,
  refusal: Refusal,
  headers: Readonly<Record<string, string>> = {},
): void {
  response.head(refusal.httpStatus, { 'content-type': 'application/json', ...headers });
  response.end(JSON.stringify(refusalBody(refusal)));
}
