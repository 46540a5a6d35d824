/**
 * Everything that is not a modern request of ours to translate goes to the legacy server as it came:
 * bodies, queries and event streams byte by byte. What a proxy must change, and nothing else, changes.
 */
import { pipeline, Readable, type Transform } from 'node:stream';
import httpProxy from '@fastify/http-proxy';
import type replyFrom from '@fastify/reply-from';
import fastifyPlugin from 'fastify-plugin';
import type { FastifyInstance, FastifyReply, FastifyRequest, HTTPMethods } from 'fastify';
import type { OpenResponses } from '../lib/open-responses.ts';
import { watchEndpoint } from './announced-endpoint.ts';
import { boundedBody } from './bounded-body.ts';
import {
  downstreamHeaders,
  removesEndToEndHeaders,
  upstreamHeaders,
  type RequestHeaderRules,
} from './forwarded-headers.ts';
import { isListening, OpenAnswer } from './open-answer.ts';
import { BODY_TOO_LARGE } from '../edge/http/refusal.ts';
import { refuse, refuseFailed, refuseUnknown, type FailureStatus } from './refusals.ts';
import { rewritingEndpoint } from './rewritten-endpoint.ts';
import {
  openSession,
  sealedEndpoint,
  withSealedSession,
  withSession,
  type OpenedSession,
  type SessionSealing,
} from './sealed-sessions.ts';
import { joinedQuery, plainPath, readsMetadata } from './target.ts';
import { UpstreamAgent } from './upstream-agent.ts';

export interface PassThroughOptions {
  /** The MCP endpoint of the legacy server. */
  readonly upstream: URL;
  /** The public path that stands for that endpoint, such as `/mcp`. */
  readonly path: string;
  /** Further paths that go to the upstream's origin under the same name, such as `/*` for every other. */
  readonly others: readonly string[];
  /** Headers that the operator sets on every request to the endpoint; they win over the client's. */
  readonly headers: Readonly<Record<string, string>>;
  /** What becomes of the client's `Authorization` header. */
  readonly authorization: 'forward' | 'strip';
  /** What becomes of headers on the way to a path beside the endpoint; never rejects. */
  readonly headerRulesBeside: (
    request: FastifyRequest,
    path: string,
  ) => Promise<RequestHeaderRules>;
  /**
   * Told where messages are to be posted, when a stream that a GET opened at the endpoint begins with
   * that; what it gives back is called when the stream is over.
   */
  readonly endpointTold?: (endpoint: string) => () => void;
  /** Left out: sessions are told as the server names them. */
  readonly sessions?: SessionSealing;
  /** Whether it is known who asks. Strangers may read metadata, and nothing else. */
  readonly isKnown: (request: FastifyRequest) => boolean;
  readonly connectTimeoutMs: number;
  /** How long the head of an answer may take. The body may take for ever. */
  readonly headersTimeoutMs: number;
  /** For bodies that are streamed; one that was read before was measured by who read it. */
  readonly maxBodyBytes: number;
  /** Where answers are counted that the process must not leave before. */
  readonly openResponses: OpenResponses;
  /** Told of every request that the upstream did not answer. */
  readonly onFailure?: (failure: PassThroughFailure) => void;
  /** Told of every request with a session that was not sealed for its caller. */
  readonly onForeignSession?: () => void;
}

export interface PassThroughFailure {
  readonly httpStatus: FailureStatus;
  /** For the operator; it may name the upstream. */
  readonly problem: string;
}

export interface PassThrough {
  /**
   * Passes on a request for the public path, of somebody who is known. A body that was read must be a
   * `Buffer` and is sent as it is. Resolves when the answer has begun or the client has gone; never rejects.
   */
  forward(request: FastifyRequest, reply: FastifyReply): Promise<void>;
}

type LibraryRequest = Extract<
  NonNullable<replyFrom.FastifyReplyFromOptions['undici']>,
  { request: unknown }
>['request'];

/** The library keeps `reply.from` to a scope of its own; the edge needs it for what it hands over. */
const shared = fastifyPlugin<Parameters<typeof httpProxy>[1]>((scope, options, done) =>
  httpProxy(scope, options, done),
);

/** A POST to the public path belongs to the edge, which calls `forward` with what is not its own. */
const METHODS_OF_PATH: HTTPMethods[] = ['GET', 'HEAD', 'DELETE', 'PUT', 'PATCH', 'OPTIONS'];

/**
 * Registers the routes of one upstream. Each upstream needs a Fastify scope of its own
 * (`app.register`), whose bodies stay streams; who reads bodies does so in a scope within it.
 */
export async function registerPassThrough(
  scope: FastifyInstance,
  options: PassThroughOptions,
): Promise<PassThrough> {
  const agent = new UpstreamAgent(options);
  const forwarder = new Forwarder(agent, options);
  const endpoint = (request: FastifyRequest, reply: FastifyReply) =>
    forwarder.forward(request, reply, options.upstream.pathname);
  const proxy = {
    upstream: options.upstream.origin,
    // The library's types know only its own undici; it calls with a callback and nothing else.
    undici: { request: agent.request as unknown as LibraryRequest },
    disableRequestLogging: true,
  };
  scope.removeAllContentTypeParsers();
  await scope.register(shared, {
    ...proxy,
    routes: [options.path],
    httpMethods: METHODS_OF_PATH,
    handler: (request, reply) =>
      options.isKnown(request) ? endpoint(request, reply) : refuseUnknown(reply),
  });
  if (options.others.length > 0) {
    await scope.register(httpProxy, {
      ...proxy,
      routes: [...options.others],
      httpMethods: [...METHODS_OF_PATH, 'POST'],
      // The scope streams its bodies already.
      proxyPayloads: false,
      handler: (request, reply) =>
        options.isKnown(request) || readsMetadata(request.method, request.raw.url ?? '')
          ? forwarder.forward(request, reply, null)
          : refuseUnknown(reply),
    });
  }
  scope.addHook('onClose', () => agent.close());
  return { forward: endpoint };
}

/** Where a request goes upstream, and with which headers. */
interface Target {
  readonly isEndpoint: boolean;
  readonly path: string;
  /** Without `?`, or `null` for the client's own. */
  readonly query: string | null;
  readonly rules: RequestHeaderRules;
  /** What the request said of its session; `null` where sessions are not sealed. */
  readonly session: OpenedSession | null;
}

class Forwarder {
  readonly #agent: UpstreamAgent;
  readonly #options: PassThroughOptions;
  readonly #endpointRules: RequestHeaderRules;

  constructor(agent: UpstreamAgent, options: PassThroughOptions) {
    this.#agent = agent;
    this.#options = options;
    const headers = Object.fromEntries(
      Object.entries(options.headers).map(([name, value]) => [name.toLowerCase(), value]),
    );
    this.#endpointRules = { headers, authorization: options.authorization };
  }

  /** @param endpoint the path of the endpoint upstream, or `null` for the path that was asked for */
  async forward(
    request: FastifyRequest,
    reply: FastifyReply,
    endpoint: string | null,
  ): Promise<void> {
    const asked = plainPath(request.raw.url ?? '');
    if (asked === null)
      return refuse(
        reply,
        400,
        'Invalid request target: expected a path without dot segments or encoded slashes',
      );
    if (removesEndToEndHeaders(request.headers)) {
      return refuse(reply, 400, 'The Connection header must not name an end-to-end header');
    }
    if (!(request.body instanceof Buffer) && this.#declaresTooMuch(request)) {
      return refuse(reply, 413, BODY_TOO_LARGE);
    }
    const { sessions } = this.#options;
    const session = sessions === undefined ? null : openSession(request, sessions);
    if (sessions !== undefined && session === null) return this.#refuseForeign(reply);
    const path = session?.endpoint?.path ?? endpoint ?? asked;
    const rules = await this.#rulesFor(request, endpoint !== null, path);
    const isPlainMessage = session?.endpoint === null && request.method === 'POST';
    if (isPlainMessage && sessions?.isMessagePath(path) === true) return this.#refuseForeign(reply);
    await this.#exchange(request, reply, {
      isEndpoint: endpoint !== null,
      path,
      query: this.#queryOf(request, endpoint !== null, session),
      rules,
      session,
    });
  }

  /** As the specification has it for a session that the server does not know (2025-11-25 transports, "Session Management"). */
  #refuseForeign(reply: FastifyReply): void {
    this.#options.onForeignSession?.();
    refuse(reply, 404, 'Session not found');
  }

  #queryOf(
    { raw }: FastifyRequest,
    isEndpoint: boolean,
    session: OpenedSession | null,
  ): string | null {
    if (session !== null && session.endpoint !== null) return session.endpoint.query;
    const { upstream } = this.#options;
    return isEndpoint && upstream.search !== '' ? joinedQuery(upstream, raw.url ?? '') : null;
  }

  /** Beside the endpoint nothing goes along of what the operator configured for it. */
  async #rulesFor(
    request: FastifyRequest,
    isEndpoint: boolean,
    path: string,
  ): Promise<RequestHeaderRules> {
    return isEndpoint ? this.#endpointRules : this.#options.headerRulesBeside(request, path);
  }

  #declaresTooMuch(request: FastifyRequest): boolean {
    return Number(request.headers['content-length'] ?? 0) > this.#options.maxBodyBytes;
  }

  /** Resolves when the framework has nothing left to do with the reply. */
  #exchange(request: FastifyRequest, reply: FastifyReply, target: Target): Promise<void> {
    return new Promise((resolve) => {
      const clientGone = new AbortController();
      const leave = () => {
        if (!reply.raw.writableFinished) clientGone.abort();
        reply.hijack();
        resolve();
      };
      if (reply.raw.destroyed) return leave();
      const open = new OpenAnswer(this.#options.openResponses, request, reply);
      reply.raw.once('close', leave);
      const hooks = this.#hooks(request, reply, target, () => {
        open.begun({ listens: isListening(request, reply) });
        resolve();
      });
      try {
        this.#agent.during(clientGone.signal, () => void reply.from(target.path, hooks));
      } catch {
        // The library has a rule of its own: no segment may so much as begin with two dots.
        refuse(
          reply,
          400,
          'Invalid request target: expected a path without dot segments or encoded slashes',
        );
        resolve();
      }
    });
  }

  #hooks(
    request: FastifyRequest,
    reply: FastifyReply,
    { isEndpoint, path: asked, query, rules, session }: Target,
    begun: () => void,
  ): replyFrom.FastifyReplyFromHooks {
    const { upstream, path, sessions } = this.#options;
    const body = this.#bodyOf(request);
    const sealing = session === null ? undefined : sessions;
    let isTold = true;
    return {
      ...body,
      // The library would repeat a GET that is answered with 503.
      retryDelay: () => null,
      ...(query === null ? {} : { queryString: () => query }),
      rewriteRequestHeaders: (_request, headers) => {
        const passed = upstreamHeaders(request, headers, rules, hasBody(request));
        return session === null ? passed : withSession(passed, request, session);
      },
      rewriteHeaders: (headers) => {
        const passed = downstreamHeaders(headers, { upstream, path, set: reply.raw.getHeaders() });
        if (session === null || sealing === undefined) return passed;
        const sealed = withSealedSession(passed, request, session, sealing);
        isTold = sealed !== null;
        return sealed ?? {};
      },
      onResponse: (_request, _reply, answer) => {
        if (isTold) {
          const listens = isListening(request, reply);
          if (isEndpoint && listens) this.#watch(answer.stream, reply);
          const through = listens && isPlain(reply) ? this.#through(request, asked, sealing) : null;
          relay(answer.stream, reply, through);
        } else {
          answer.stream.on('error', () => {}).destroy();
          this.#fail(reply, new Error('the session id of the server cannot be sealed'));
        }
        begun();
      },
      onError: (_reply, { error }) => {
        this.#fail(reply, error);
        begun();
      },
    };
  }

  #watch(stream: Readable, reply: FastifyReply): void {
    const { endpointTold } = this.#options;
    if (endpointTold !== undefined && isPlain(reply)) watchEndpoint(stream, endpointTold);
  }

  /** What a stream goes through whose client is told another endpoint than the server names. */
  #through(
    request: FastifyRequest,
    asked: string,
    sealing: SessionSealing | undefined,
  ): Transform | null {
    if (sealing === undefined) return null;
    const stream = new URL(asked, this.#options.upstream);
    return rewritingEndpoint((endpoint) => sealedEndpoint(endpoint, stream, request, sealing));
  }

  #bodyOf(request: FastifyRequest): replyFrom.FastifyReplyFromHooks {
    if (request.body instanceof Buffer) {
      // Naming the type keeps the library from writing the body anew.
      const contentType = request.headers['content-type'] ?? 'application/octet-stream';
      return { body: request.body, contentType };
    }
    if (request.body instanceof Readable) {
      request.body = boundedBody(request.body, this.#options.maxBodyBytes);
    }
    return {};
  }

  #fail(reply: FastifyReply, error: Error): void {
    const cause = error.cause instanceof Error ? error.cause : error;
    const httpStatus = refuseFailed(reply, error, cause, !this.#agent.isUnsent(cause));
    this.#options.onFailure?.({ httpStatus, problem: cause.message });
  }
}

function hasBody({ body }: FastifyRequest): boolean {
  return body !== undefined && body !== null;
}

/** Compressed streams are for the client alone to read. */
function isPlain(reply: FastifyReply): boolean {
  return (reply.getHeader('content-encoding') ?? 'identity') === 'identity';
}

/** Sends the head at once, as an event stream may stay empty for long, and then what comes. */
function relay(stream: Readable, reply: FastifyReply, through: Transform | null): void {
  const { raw, statusCode } = reply;
  const headers = reply.getHeaders();
  reply.hijack();
  raw.statusCode = statusCode;
  for (const [name, value] of Object.entries(headers)) {
    const isOfOtherLength = through !== null && name === 'content-length';
    if (value !== undefined && !isOfOtherLength) raw.setHeader(name, value);
  }
  // An empty write, since `flushHeaders` would spell bytes beyond ASCII anew, as UTF-8.
  if (!raw.hasHeader('content-length')) raw.write(Buffer.alloc(0));
  // Each side's end ends the other; a cut one is cut there too.
  if (through === null) pipeline(stream, raw, () => {});
  else pipeline(stream, through, raw, () => {});
}
