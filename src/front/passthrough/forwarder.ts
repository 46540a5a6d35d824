/** Forwards one request to the legacy server, with the headers and session that go there, and passes the response back. */
import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import { Readable, type Transform } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Agent, type Dispatcher } from 'undici';
import { BODY_TOO_LARGE } from '../../edge/response-writer.ts';
import type { OnRefused, PassThroughOptions } from './options.ts';
import {
  boundedBody,
  downstreamHeaders,
  INVALID_TARGET,
  joinedQuery,
  plainPath,
  queryOf,
  removesKnownHeaders,
  upstreamHeaders,
  type RequestHeaderRules,
} from './request.ts';
import {
  countOpen,
  isListening,
  pipe,
  refuseFailed,
  refusePassThrough,
  rewritingEndpoint,
  watchEndpoint,
} from './response.ts';
import {
  openSession,
  sealedEndpoint,
  withSealedSession,
  withSession,
  type OpenedSession,
  type SessionSealing,
} from './sealed-sessions.ts';
import { KnownHeaders } from './known-headers.ts';

/** As for requests that are translated, in ms. */
const CONNECT_TIMEOUT_MS = 5_000;

/** The target of a request upstream, and its headers. */
interface Target {
  readonly isEndpoint: boolean;
  readonly path: string;
  /** With its `?`, if there is one. */
  readonly query: string;
  readonly rules: RequestHeaderRules;
  /** `null` if sessions are not sealed. */
  readonly session: OpenedSession | null;
  readonly onRefused: OnRefused | undefined;
}

export class PassThroughForwarder {
  readonly #agent: Agent;
  readonly #options: PassThroughOptions;
  readonly #endpointRules: RequestHeaderRules;
  readonly #known: KnownHeaders;

  constructor(options: PassThroughOptions) {
    this.#options = options;
    this.#agent = new Agent({
      connect: { timeout: CONNECT_TIMEOUT_MS, keepAlive: true },
      headersTimeout: options.headersTimeoutMs,
      // An event stream can be idle for longer than any timeout.
      bodyTimeout: 0,
      pipelining: 1,
      maxHeaderSize: 64 * 1024,
      allowH2: false,
    });
    const headers = Object.fromEntries(
      Object.entries(options.headers).map(([name, value]) => [name.toLowerCase(), value]),
    );
    this.#endpointRules = { headers, authorization: options.authorization };
    this.#known = new KnownHeaders([...Object.keys(headers), ...options.callerHeaders]);
  }

  /** Closes all connections, with the requests on them. */
  async close(): Promise<void> {
    await this.#agent.destroy();
  }

  /**
   * Resolves when the response has begun, or the client has left.
   * @param endpoint the path of the endpoint upstream; `null` for the path of the request
   */
  async forward(
    request: FastifyRequest,
    reply: FastifyReply,
    endpoint: string | null,
    onRefused?: OnRefused,
  ): Promise<void> {
    const requested = plainPath(request.raw.url ?? '');
    if (requested === null) return refusePassThrough(reply, 400, INVALID_TARGET);
    if (this.#refuses(request, reply)) return;
    const { sessions } = this.#options;
    const session = sessions && openSession(request, sessions);
    if (sessions !== null && session === null) return refuseForeign(reply, sessions);
    const path = session?.endpoint?.path ?? endpoint ?? requested;
    const isEndpoint = endpoint !== null;
    // The operator's headers for the endpoint are not sent to other paths.
    const rules = isEndpoint
      ? this.#rulesFor(request)
      : await this.#options.otherPathHeaderRules(request, path);
    // Known only now: to find the rules, the gateway may first have found out what the server speaks.
    const isUnsealed = request.method === 'POST' && session?.endpoint === null;
    if (isUnsealed && sessions?.isMessagePath(path)) return refuseForeign(reply, sessions);
    const query = session?.endpoint?.query ?? this.#queryOf(request, isEndpoint);
    await this.#exchange(request, reply, { isEndpoint, path, query, rules, session, onRefused });
  }

  /** Refuses headers that must not be passed on, and a body that is too large. @returns whether it did */
  #refuses(request: FastifyRequest, reply: FastifyReply): boolean {
    if (removesKnownHeaders(request.headers, this.#known)) {
      const problem = 'The Connection header must not name an end-to-end header';
      refusePassThrough(reply, 400, problem);
      return true;
    }
    if (this.#isTooLarge(request)) {
      refusePassThrough(reply, 413, BODY_TOO_LARGE);
      return true;
    }
    return false;
  }

  /** Tells whether the size that the client declares is too large. A body that is here was bounded as it was read. */
  #isTooLarge({ body, headers }: FastifyRequest): boolean {
    const declaredBytes = Number(headers['content-length'] ?? 0);
    return !(body instanceof Buffer) && declaredBytes > this.#options.maxBodyBytes;
  }

  /** Returns the query for the server. The URL of the endpoint can have one of its own. */
  #queryOf({ raw }: FastifyRequest, isEndpoint: boolean): string {
    const { upstream } = this.#options;
    const hasOwn = isEndpoint && upstream.search !== '';
    return hasOwn ? joinedQuery(upstream, raw.url) : queryOf(raw.url);
  }

  #rulesFor(request: FastifyRequest): RequestHeaderRules {
    const { headers, authorization } = this.#endpointRules;
    return { headers: { ...headers, ...this.#options.headersOf(request) }, authorization };
  }

  async #exchange(request: FastifyRequest, reply: FastifyReply, target: Target): Promise<void> {
    const { raw } = reply.hijack();
    if (raw.destroyed) return;
    const clientLeft = new AbortController();
    raw.once('close', () => {
      if (!raw.writableFinished) clientLeft.abort();
    });
    const count = countOpen(this.#options.openResponses, raw);
    this.#options.onPassed(target.isEndpoint);
    let isWritten = false;
    let response: Dispatcher.ResponseData | null = null;
    try {
      response = await this.#send(request, target, clientLeft.signal, () => (isWritten = true));
      const headers = this.#headersFrom(response, request, raw, target);
      const isStream = isListening(raw, headers);
      const serveInstead = isRefusal(response.statusCode) ? await target.onRefused?.() : null;
      if (clientLeft.signal.aborted) return;
      if (serveInstead) drop(response.body);
      else {
        // A compressed body cannot be read.
        const isPlain = (headers['content-encoding'] ?? 'identity') === 'identity';
        const through =
          isStream && isPlain ? this.#endpointSeal(response.body, request, target) : null;
        pipe(response, headers, raw, through);
      }
      count(isStream);
      if (goesOn(raw)) this.#cutWhenRefused(request, raw);
      serveInstead?.();
    } catch (error) {
      if (response !== null) drop(response.body);
      if (clientLeft.signal.aborted) return;
      const httpStatus = refuseFailed(reply, error, isWritten);
      count(false);
      const problem = error instanceof Error ? error.message : String(error);
      this.#options.onFailure({ httpStatus, problem });
    }
  }

  /**
   * @param onWritten called before anything of the request is written: until then, the server cannot have acted. No error code
   *   says so: a connection that stood may break with `EHOSTUNREACH` or `ECONNREFUSED`, too
   * @throws Error if there is no response, or none of HTTP
   */
  async #send(
    request: FastifyRequest,
    { path, query, rules, session }: Target,
    signal: AbortSignal,
    onWritten: () => void,
  ): Promise<Dispatcher.ResponseData> {
    const { upstream, hostHeader, onLoopback, onOutcome } = this.#options;
    const host = hostHeader ?? upstream.host;
    const headers = upstreamHeaders(request, { ...rules, host, onLoopback, known: this.#known });
    const body = this.#bodyOf(request);
    const dispatcher = this.#agent.compose((dispatch) => (options, handler) => {
      const start = handler.onRequestStart?.bind(handler);
      handler.onRequestStart = (...told) => {
        onWritten();
        start?.(...told);
      };
      return dispatch(options, handler);
    });
    const sent = dispatcher.request({
      origin: upstream.origin,
      path: `${path}${query}`,
      method: request.method,
      headers: session === null ? headers : withSession(headers, request, session),
      body,
      signal,
    });
    const response = await sent.catch((error: unknown) => {
      // A body that is streamed can also break on the side of the client.
      if (!signal.aborted && !(body instanceof Readable)) onOutcome(error as Error);
      throw error;
    });
    const { statusCode } = response;
    onOutcome(statusCode);
    if (statusCode >= 200 && statusCode <= 599) return response;
    drop(response.body);
    throw new Error('the upstream responded with an invalid HTTP status');
  }

  /** Returns the body for the server: one that was read, or one that is bounded on its way. */
  #bodyOf({ body }: FastifyRequest): Buffer | Readable | null {
    if (body instanceof Readable) return boundedBody(body, this.#options.maxBodyBytes);
    return body instanceof Buffer ? body : null;
  }

  /** Returns the headers of a response for the client. @throws Error if the session cannot be sealed */
  #headersFrom(
    { statusCode, headers }: Dispatcher.ResponseData,
    request: FastifyRequest,
    raw: ServerResponse,
    { isEndpoint, session }: Target,
  ): IncomingHttpHeaders {
    const { upstream, path, sessions, challenge, onToken, onLoopback } = this.#options;
    const set = raw.getHeaders();
    const passed = downstreamHeaders(headers, { upstream, path, challenge, set, onLoopback });
    if (isEndpoint && request.headers.authorization !== undefined) {
      onToken(statusCode, passed['www-authenticate'] ?? null);
    }
    if (session === null || sessions === null) return passed;
    const sealed = withSealedSession(passed, request, session, sessions);
    if (sealed === null) throw new Error('the session id of the server cannot be sealed');
    return sealed;
  }

  /** Notes the endpoint of a session that a stream begins with. @returns what seals it on its way; `null` if nothing does */
  #endpointSeal(
    stream: Readable,
    request: FastifyRequest,
    { isEndpoint, path, session }: Target,
  ): Transform | null {
    const { upstream, sessions, onEndpoint } = this.#options;
    if (isEndpoint) watchEndpoint(stream, onEndpoint);
    if (session === null || sessions === null) return null;
    const url = new URL(path, upstream);
    return rewritingEndpoint((endpoint) => sealedEndpoint(endpoint, url, request, sessions));
  }

  /** Cuts a response once its caller would be refused, so that nobody takes what came for the whole. */
  #cutWhenRefused(request: FastifyRequest, raw: ServerResponse): void {
    raw.once(
      'close',
      this.#options.untilRefused(request, () => raw.destroy()),
    );
  }
}

/** Responds as for a session that the server does not know (2025-11-25 transports, "Session Management"). */
function refuseForeign(reply: FastifyReply, sessions: SessionSealing): void {
  sessions.onForeign();
  refusePassThrough(reply, 404, 'Session not found');
}

/** True if the server has not carried the request out, and not for its credentials or its load. */
function isRefusal(status: number): boolean {
  return status >= 400 && status < 500 && ![401, 403, 429].includes(status);
}

/** Tells whether a response could go on forever. That to a POST is a reply: its request was let in. */
function goesOn(response: ServerResponse): boolean {
  const { req, destroyed } = response;
  return req.method === 'GET' && !destroyed && !response.hasHeader('content-length');
}

/** Reads no more of a response. */
function drop(stream: Readable): void {
  stream.on('error', () => {}).destroy();
}
