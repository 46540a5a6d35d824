/** Forwards one request to the legacy server, with the headers and session that go there, and passes the response back. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable, type Transform } from 'node:stream';
import type replyFrom from '@fastify/reply-from';
import type { FastifyReply } from 'fastify';
import { inBackground } from '../../lib/background.ts';
import { BODY_TOO_LARGE } from '../../edge/response-writer.ts';
import type { OnRefused, PassedRequest } from '../../edge/options.ts';
import type { PassThroughOptions } from './options.ts';
import {
  boundedBody,
  downstreamHeaders,
  INVALID_TARGET,
  joinedQuery,
  plainPath,
  removesKnownHeaders,
  upstreamHeaders,
  type RequestHeaderRules,
} from './request.ts';
import {
  countOpen,
  isListening,
  pipe,
  refusePassThrough,
  refuseFailed,
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
import { rewritingMessages, type RewriteMessage } from './rewriting.ts';
import type { UpstreamAgent } from './upstream-agent.ts';

/** The target of a request upstream, and its headers. */
interface Target {
  readonly isEndpoint: boolean;
  readonly path: string;
  /** Without `?`; `null` for that of the client. */
  readonly query: string | null;
  readonly rules: RequestHeaderRules;
  /** `null` if sessions are not sealed. */
  readonly session: OpenedSession | null;
  readonly onRefused: OnRefused | undefined;
}

export class PassThroughForwarder {
  readonly #agent: UpstreamAgent;
  readonly #options: PassThroughOptions;
  readonly #known: KnownHeaders;

  constructor(agent: UpstreamAgent, options: PassThroughOptions) {
    this.#agent = agent;
    this.#options = options;
    this.#known = new KnownHeaders(options.callerHeaders);
  }

  /**
   * @param reply of the application that has the library
   * @param endpoint the path of the endpoint upstream; `null` for the path of the request
   */
  async forward(
    request: PassedRequest,
    reply: FastifyReply,
    endpoint: string | null,
    onRefused?: OnRefused,
  ): Promise<void> {
    const { raw, response } = request;
    const requested = plainPath(raw.url ?? '');
    if (requested === null) return refusePassThrough(response, 400, INVALID_TARGET);
    const problem = this.#problemOf(request);
    if (problem !== null) return refusePassThrough(response, ...problem);
    const { sessions, endpointHeaderRules, otherPathHeaderRules } = this.#options;
    const session = sessions && openSession(request, sessions);
    if (sessions !== null && session === null) return refuseForeign(response, sessions);
    const path = session?.endpoint?.path ?? endpoint ?? requested;
    const isEndpoint = endpoint !== null;
    // The operator's headers for the endpoint are not sent to other paths.
    const rules = isEndpoint ? endpointHeaderRules(raw) : await otherPathHeaderRules(raw, path);
    // Known only now: to find the rules, the gateway may first have found out what the server speaks.
    const isUnsealed = raw.method === 'POST' && session?.endpoint === null;
    if (isUnsealed && sessions?.isMessagePath(path)) return refuseForeign(response, sessions);
    const query = session?.endpoint?.query ?? this.#queryOf(raw, isEndpoint);
    await this.#exchange(request, reply, { isEndpoint, path, query, rules, session, onRefused });
  }

  /** @returns how a request is refused whose headers must not be passed on, or whose body is too large; `null` if it is not */
  #problemOf({ raw: { headers }, body }: PassedRequest): readonly [number, string] | null {
    if (removesKnownHeaders(headers, this.#known)) {
      return [400, 'The Connection header must not name an end-to-end header'];
    }
    // A body that is here was bounded as it was read.
    const declaredBytes = body === null ? Number(headers['content-length'] ?? 0) : 0;
    return declaredBytes > this.#options.maxBodyBytes ? [413, BODY_TOO_LARGE] : null;
  }

  /** Returns the query of a request to the endpoint, whose URL can have one of its own; `null` if that changes nothing. */
  #queryOf({ url = '' }: IncomingMessage, isEndpoint: boolean): string | null {
    const { upstream } = this.#options;
    return !isEndpoint || upstream.search === '' ? null : joinedQuery(upstream, url);
  }

  /** Resolves when the framework must no longer touch the reply. */
  #exchange(request: PassedRequest, reply: FastifyReply, target: Target): Promise<void> {
    const { raw, response } = request;
    return new Promise((resolve) => {
      const clientLeft = new AbortController();
      const leave = () => {
        if (!response.writableFinished) clientLeft.abort();
        reply.hijack();
        resolve();
      };
      if (response.destroyed) return leave();
      const count = countOpen(this.#options.openResponses, raw, response);
      response.once('close', leave);
      const hooks = this.#hooks(request, reply, target, () => {
        count(isListening(reply));
        if (goesOn(response)) this.#cutWhenRefused(raw, response);
        resolve();
      });
      this.#options.onPassed(target.isEndpoint);
      try {
        this.#agent.during(clientLeft.signal, () => void reply.from(target.path, hooks));
      } catch {
        // The library refuses any segment that begins with two dots.
        refusePassThrough(response, 400, INVALID_TARGET);
        resolve();
      }
    });
  }

  #hooks(
    request: PassedRequest,
    reply: FastifyReply,
    target: Target,
    onBegin: () => void,
  ): replyFrom.FastifyReplyFromHooks {
    const { raw, response, body } = request;
    const { isEndpoint, query, rules, session, onRefused } = target;
    const { upstream, path, sessions, hostHeader, challenge, onToken, onLoopback } = this.#options;
    const rewrite = isEndpoint ? this.#options.rewriteOf(request) : null;
    let isSealed = true;
    const passOn = (stream: Readable) => {
      if (isSealed) {
        this.#passBody(stream, request, reply, target, rewrite);
      } else {
        drop(stream);
        this.#fail(response, new Error('the session id of the server cannot be sealed'));
      }
      onBegin();
    };
    return {
      ...this.#bodyOf(request, reply),
      // The library would repeat a GET after a 503.
      retryDelay: () => null,
      ...(query === null ? {} : { queryString: () => query }),
      rewriteRequestHeaders: (_request, headers) => {
        const passed = upstreamHeaders(
          reply.request,
          headers,
          { ...rules, onLoopback, known: this.#known },
          body !== null || isReadable(reply.request),
        );
        if (hostHeader !== null) passed.host = hostHeader;
        // What is compressed cannot be read.
        if (rewrite !== null) passed['accept-encoding'] = 'identity';
        return session === null ? passed : withSession(passed, request, session);
      },
      rewriteHeaders: (headers) => {
        const set = response.getHeaders();
        const passed = downstreamHeaders(headers, { upstream, path, challenge, set, onLoopback });
        if (session === null || sessions === null) return passed;
        const sealed = withSealedSession(passed, request, session, sessions);
        isSealed = sealed !== null;
        return sealed ?? {};
      },
      onResponse: (_request, _reply, { stream }) => {
        if (isEndpoint && raw.headers.authorization !== undefined) {
          const given = reply.getHeader('www-authenticate');
          onToken(reply.statusCode, given === undefined ? null : String(given));
        }
        if (onRefused === undefined || !isRefusal(reply.statusCode)) return passOn(stream);
        inBackground(
          onRefused().then((serveInstead) => {
            if (serveInstead === null) return passOn(stream);
            drop(stream);
            reply.hijack();
            onBegin();
            serveInstead();
          }),
          () => {
            drop(stream);
            response.destroy();
          },
        );
      },
      onError: (_reply, { error }) => {
        this.#fail(response, error);
        onBegin();
      },
    };
  }

  /** Passes on the body of a response. Where it names the endpoint of a session, that is noted, and sealed. */
  #passBody(
    stream: Readable,
    request: PassedRequest,
    reply: FastifyReply,
    { isEndpoint, path, session }: Target,
    rewrite: RewriteMessage | null,
  ): void {
    const { upstream, sessions, onEndpoint } = this.#options;
    const lists = this.#rewritingLists(reply, rewrite);
    if (!isListening(reply) || !isPlain(reply)) return pipe(stream, reply, lists);
    if (isEndpoint) watchEndpoint(stream, onEndpoint);
    if (session === null || sessions === null) return pipe(stream, reply, lists);
    const url = new URL(path, upstream);
    const rewriting = rewritingEndpoint((endpoint) =>
      sealedEndpoint(endpoint, url, request, sessions),
    );
    pipe(stream, reply, [rewriting, ...lists]);
  }

  #rewritingLists(reply: FastifyReply, rewrite: RewriteMessage | null): readonly Transform[] {
    if (rewrite === null || !isPlain(reply)) return [];
    const type = String(reply.getHeader('content-type') ?? '');
    const rewriting = rewritingMessages(type, rewrite, this.#options.maxBodyBytes);
    return rewriting === null ? [] : [rewriting];
  }

  #bodyOf(
    { raw, body }: PassedRequest,
    { request }: FastifyReply,
  ): replyFrom.FastifyReplyFromHooks {
    if (body !== null) {
      // With a type, the library does not serialize the body.
      return { body, contentType: raw.headers['content-type'] ?? 'application/octet-stream' };
    }
    if (request.body instanceof Readable) {
      request.body = boundedBody(request.body, this.#options.maxBodyBytes);
    }
    return {};
  }

  /** Cuts a response once its caller would be refused, so that nobody takes what came for the whole. */
  #cutWhenRefused(raw: IncomingMessage, response: ServerResponse): void {
    response.once(
      'close',
      this.#options.untilRefused(raw, () => response.destroy()),
    );
  }

  #fail(response: ServerResponse, error: Error): void {
    const cause = error.cause instanceof Error ? error.cause : error;
    const httpStatus = refuseFailed(response, error, cause, !this.#agent.isUnsent(cause));
    this.#options.onFailure({ httpStatus, problem: cause.message });
  }
}

/** Responds as for a session that the server does not know (2025-11-25 transports, "Session Management"). */
function refuseForeign(response: ServerResponse, sessions: SessionSealing): void {
  sessions.onForeign();
  refusePassThrough(response, 404, 'Session not found');
}

/** True if the server has not carried the request out, and not for its credentials or its load. */
function isRefusal(status: number): boolean {
  return status >= 400 && status < 500 && ![401, 403, 429].includes(status);
}

/** Tells whether a response could go on forever. That to a POST is a reply: its request was let in. */
function goesOn(response: ServerResponse): boolean {
  const isOpen = response.req.method === 'GET' && !response.destroyed;
  return isOpen && !response.hasHeader('content-length');
}

/** Reads no more of a response. */
function drop(stream: Readable): void {
  stream.on('error', () => {}).destroy();
}

/** Tells whether the library passes on a body: it does not with GET and HEAD. */
function isReadable({ body }: FastifyReply['request']): boolean {
  return body !== undefined && body !== null;
}

/** Tells whether the body is not compressed, so that the gateway can read it. */
function isPlain(reply: FastifyReply): boolean {
  return (reply.getHeader('content-encoding') ?? 'identity') === 'identity';
}
