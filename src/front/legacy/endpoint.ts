/**
 * The path of a route whose server is reached over stdio, for legacy clients: Streamable HTTP as the revisions up to 2025-11-25
 * describe it (2025-11-25 transports, "Streamable HTTP").
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { OpenResponses } from '../../lib/http.ts';
import { readAccept } from '../../edge/http/header-fields.ts';
import { readJsonBody } from '../../edge/request/body.ts';
import { refuse, sendRefusal } from '../../edge/response-writer.ts';
import { STOPPING, STOPPING_WAIT_MS } from '../../model/failures.ts';
import type { ChannelOwner, ChannelServer } from '../../model/channel.ts';
import { secondsOf } from '../../model/limited.ts';
import { asUpstreamFailure } from '../../model/upstream-failure.ts';
import { clientRequestId } from '../../protocol/ids.ts';
import type { JsonValue } from '../../protocol/json.ts';
import { ErrorCode } from '../../protocol/json-rpc.ts';
import { isLegacyRevision } from '../../protocol/meta.ts';
import { asLine, readClientMessage, type ClientMessage } from './envelope.ts';
import type { Accepts, StreamResponse } from './event-stream.ts';
import type { LegacySession } from './session.ts';
import type { LegacySessions } from './sessions.ts';

/** Seals the ids of sessions for the principals whose they are. */
export interface SessionIds {
  /** @returns what the client gets as the id of a session of this process */
  seal(key: string): string;
  /** Opens what a client sent. @returns `null` if it was not sealed for it */
  open(id: string): string | null;
}

/** A request of a legacy client that may pass. */
export interface LegacyExchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly owner: ChannelOwner;
  readonly ids: SessionIds;
}

export interface LegacyEndpointOptions {
  readonly server: ChannelServer;
  readonly sessions: LegacySessions;
  readonly openResponses: OpenResponses;
  /** Whether no session is opened any more. */
  readonly isStopping: () => boolean;
}

/** If more bytes wait for a client, it is behind. */
const MAX_BUFFERED_BYTES = 256 * 1024;
/** The one revision that has batches. */
const BATCH_REVISION = '2025-03-26';
const NO_SESSION =
  'Mcp-Session-Id names no session, or one that is over: send initialize without it';

export class LegacyEndpoint {
  readonly #options: LegacyEndpointOptions;

  constructor(options: LegacyEndpointOptions) {
    this.#options = options;
  }

  /** Serves a POST. Resolves when its response has begun, or when nothing is left to do before. Never rejects. */
  async post(exchange: LegacyExchange, body: Buffer): Promise<void> {
    const { request, response } = exchange;
    const read = readJsonBody(body);
    if (read.type !== 'json') return refuse(response, 400, read.problem);
    const { value } = read;
    const message = readClientMessage(value);
    if (message?.type === 'request' && message.method === 'initialize') {
      return this.#initialize(exchange, body.toString('utf8'), message);
    }
    const session = this.#sessionOf(exchange);
    if (session === null) return;
    const lines = messagesIn(value, message, body, session);
    if (typeof lines === 'string') return refuse(response, 400, lines);
    const requests = lines.flatMap(({ message }) => (message.type === 'request' ? message : []));
    const repeated = requests.find(({ id }) => session.has(id));
    if (repeated !== undefined) {
      const error = { code: ErrorCode.invalidRequest, message: IN_USE };
      const refusal = { httpStatus: 400, id: clientRequestId(repeated.id), error } as const;
      return sendRefusal(response, { ...refusal, mayHaveActed: 'no' });
    }
    if (requests.length > 0) {
      response.once('close', this.#options.openResponses.open());
      return session.request(lines, new HttpStream(response), acceptsOf(request));
    }
    try {
      for (const { line, message: each } of lines) await session.send(line, each);
      response.writeHead(202).end();
    } catch (error) {
      refuse(response, 503, asUpstreamFailure(error, false).message);
    }
  }

  /** Serves a GET, which opens the standalone stream or resumes a stream. */
  get(exchange: LegacyExchange): void {
    const { request, response } = exchange;
    if (readAccept(request.headers.accept) !== 'both') {
      return refuse(response, 406, 'Accept must list text/event-stream');
    }
    const session = this.#sessionOf(exchange);
    if (session === null) return;
    const stream = new HttpStream(response);
    const lastEventId = request.headers['last-event-id'];
    if (typeof lastEventId !== 'string' || lastEventId === '') {
      if (!session.listen(stream)) refuse(response, 409, 'This session has a stream already');
    } else if (!session.resume(stream, lastEventId)) {
      refuse(
        response,
        400,
        'Last-Event-ID is no event of this session, or one that is no longer kept',
      );
    }
  }

  /** Serves a DELETE, which ends the session. */
  delete(exchange: LegacyExchange): void {
    const { response } = exchange;
    const key = this.#keyOf(exchange);
    if (key === null) return;
    const { sessions, server } = this.#options;
    if (!sessions.endOf(key, server.route)) return refuse(response, 404, NO_SESSION);
    response.writeHead(200).end();
  }

  /**
   * Opens a session, whatever id the request has. Some clients take a status of 400 to 499 for a server of HTTP+SSE, so that their users
   * would not see why it failed: that is a JSON-RPC error with status 200.
   */
  async #initialize(
    { request, response, owner, ids }: LegacyExchange,
    json: string,
    message: ClientMessage & { readonly type: 'request' },
  ): Promise<void> {
    const { server, sessions, openResponses, isStopping } = this.#options;
    if (isStopping()) {
      const { error } = STOPPING;
      const refusal = { httpStatus: 503, id: clientRequestId(message.id), error } as const;
      const headers = { 'retry-after': String(secondsOf(STOPPING_WAIT_MS)) };
      return sendRefusal(response, { ...refusal, mayHaveActed: 'no' }, headers);
    }
    response.once('close', openResponses.open());
    const left = new AbortController();
    response.once('close', () => {
      if (!response.writableFinished) left.abort();
    });
    const earlier = request.headers['mcp-session-id'];
    const { line, key } = await sessions.open(server, owner, asLine(json), message, left.signal);
    if (response.destroyed) return;
    const headers = key === null ? {} : { 'mcp-session-id': ids.seal(key) };
    response.writeHead(200, { 'content-type': 'application/json', ...headers }).end(line);
    const former = key === null || typeof earlier !== 'string' ? null : ids.open(earlier);
    if (former !== null) sessions.endOf(former, server.route);
  }

  /** Finds the session of a request. @returns `null` if it is refused */
  #sessionOf(exchange: LegacyExchange): LegacySession | null {
    const { request, response } = exchange;
    const version = request.headers['mcp-protocol-version'];
    if (version !== undefined && !isLegacyRevision(version)) {
      refuse(response, 400, `Unsupported MCP-Protocol-Version: ${String(version).slice(0, 40)}`);
      return null;
    }
    const key = this.#keyOf(exchange);
    if (key === null) return null;
    const { sessions, server } = this.#options;
    const session = sessions.find(key, server.route);
    if (session === null) refuse(response, 404, NO_SESSION);
    return session;
  }

  #keyOf({ request, response, ids }: LegacyExchange): string | null {
    const id = request.headers['mcp-session-id'];
    if (typeof id !== 'string') {
      refuse(response, 400, 'Mcp-Session-Id is missing: a session begins with initialize');
      return null;
    }
    const key = ids.open(id);
    // Another principal learns nothing of it.
    if (key === null) refuse(response, 404, NO_SESSION);
    return key;
  }
}

const IN_USE = 'A request with this id is open';

/** Returns the messages of a body with their JSON, or why they are not served. */
function messagesIn(
  value: JsonValue,
  message: ClientMessage | null,
  body: Buffer,
  { revision }: LegacySession,
): string | readonly { readonly line: string; readonly message: ClientMessage }[] {
  if (message !== null) return [{ line: body.toString('utf8'), message }];
  if (!Array.isArray(value) || value.length === 0) return 'The body is not a JSON-RPC message';
  if (revision !== BATCH_REVISION) return `Batches are part of ${BATCH_REVISION} only`;
  const messages = value.map((each) => ({
    line: JSON.stringify(each),
    message: readClientMessage(each),
  }));
  const ids = messages.flatMap(({ message: one }) => (one?.type === 'request' ? one.id : []));
  if (new Set(ids).size < ids.length) return 'Two requests of the batch have the same id';
  const read = messages.flatMap(({ line, message: one }) =>
    one === null || (one.type === 'request' && one.method === 'initialize')
      ? []
      : { line, message: one },
  );
  return read.length < messages.length
    ? 'The batch has something that is no message of a session'
    : read;
}

/** What the client takes in response. One that says nothing takes both. */
function acceptsOf({ headers: { accept } }: IncomingMessage): Accepts {
  if (readAccept(accept) === 'json') return 'json';
  const takesJson =
    accept === undefined || accept.trim() === '' || /application\/(?:json|\*)|\*\/\*/i.test(accept);
  return takesJson ? 'both' : 'stream';
}

/** A response of Node.js as one of a stream. */
class HttpStream implements StreamResponse {
  readonly #response: ServerResponse;

  constructor(response: ServerResponse) {
    this.#response = response;
  }

  get isOpen(): boolean {
    return !this.#response.destroyed;
  }

  head(status: number, headers: Readonly<Record<string, string>>): void {
    if (this.#response.headersSent) return;
    this.#response.writeHead(status, headers);
    if (status === 200 && headers['content-type'] === 'text/event-stream') {
      this.#response.flushHeaders();
    }
  }

  write(text: string): boolean {
    return this.#response.write(text) || this.#response.writableLength <= MAX_BUFFERED_BYTES;
  }

  end(text?: string): void {
    if (text === undefined) this.#response.end();
    else this.#response.end(text);
  }

  watch(listener: { caughtUp(): void; closed(): void }): void {
    this.#response.on('drain', () => listener.caughtUp());
    this.#response.on('close', () => listener.closed());
  }
}
