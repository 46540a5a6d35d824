/**
 * Passes requests that are not for the modern edge through to the legacy server: bodies, queries and event streams
 * byte by byte. Only what a proxy must change is changed.
 */
import { Readable } from 'node:stream';
import httpProxy from '@fastify/http-proxy';
import type replyFrom from '@fastify/reply-from';
import fastifyPlugin from 'fastify-plugin';
import type { FastifyInstance, FastifyReply, FastifyRequest, HTTPMethods } from 'fastify';
import type { OpenResponses } from '../lib/responses.ts';
import type { CallerRefusal } from '../model/request.ts';
import {
  rewritingEndpoint,
  watchEndpoint,
  isListening,
  OpenResponse,
  pipe,
  refuse,
  refuseCaller,
  refuseFailed,
  type FailureStatus,
} from './response.ts';
import {
  downstreamHeaders,
  removesEndToEndHeaders,
  upstreamHeaders,
  type RequestHeaderRules,
  boundedBody,
  joinedQuery,
  plainPath,
  readsMetadata,
} from './request.ts';
import { BODY_TOO_LARGE } from '../edge/response-writer.ts';
import {
  openSession,
  sealedEndpoint,
  withSealedSession,
  withSession,
  type OpenedSession,
  type SessionSealing,
} from './sealed-sessions.ts';
import { UpstreamAgent } from './upstream-agent.ts';

export interface PassThroughOptions {
  /** The MCP endpoint of the legacy server. */
  readonly upstream: URL;
  /** The public path of that endpoint, such as `/mcp`. */
  readonly path: string;
  /** Patterns of other paths, which keep their names at the upstream's origin; `/*` for all of them. */
  readonly others: readonly string[];
  /** Headers that the operator sets on every request to the endpoint, in place of the client's. */
  readonly headers: Readonly<Record<string, string>>;
  /** Whether the client's `Authorization` header is forwarded. */
  readonly authorization: RequestHeaderRules['authorization'];
  /** Returns headers for the endpoint that belong to a request, in place of the client's. */
  readonly headersOf?: (request: FastifyRequest) => Readonly<Record<string, string>>;
  /** Returns the rules for the headers of a request for another path. Never rejects. */
  readonly otherPathHeaderRules: (
    request: FastifyRequest,
    path: string,
  ) => Promise<RequestHeaderRules>;
  /**
   * Called with the URL for messages if a stream of the endpoint begins with it. The function that it returns is
   * called when the stream ends.
   */
  readonly onEndpoint?: (endpoint: string) => () => void;
  /** The `Host` for the upstream; `null` for that of its URL. */
  readonly hostHeader?: string | null;
  /** Rewrites a challenge of the server. */
  readonly challenge?: (challenge: string) => string;
  /** Called with the status and the challenge of the response to a request with `Authorization`. */
  readonly onToken?: (status: number, challenge: string | null) => void;
  /** If it is left out, session ids are forwarded as the server sends them. */
  readonly sessions?: SessionSealing;
  /** Identifies the caller. One that is refused can read metadata, and nothing else. Never rejects. */
  readonly refusalOf: (request: FastifyRequest) => Promise<CallerRefusal | null>;
  readonly connectTimeoutMs: number;
  /** How long the head of a response can take. The body has no limit. */
  readonly headersTimeoutMs: number;
  /** Called with the status of each response, and with `null` for a request that got none. */
  readonly onOutcome?: (status: number | null) => void;
  /** Of a body that is streamed. A body that the edge has read is within its limit. */
  readonly maxBodyBytes: number;
  /** Counts the responses that a drain waits for. */
  readonly openResponses: OpenResponses;
  /** Called for each request that is sent to the upstream. */
  readonly onPassed?: () => void;
  /** Called for each request that the upstream does not respond to. */
  readonly onFailure?: (failure: PassThroughFailure) => void;
  /** Called for each request with a session that was not sealed for its caller. */
  readonly onForeignSession?: () => void;
}

export interface PassThroughFailure {
  readonly httpStatus: FailureStatus;
  /** For the operator. It can contain the address of the upstream. */
  readonly problem: string;
}

/**
 * Called if the server refuses a request (4xx). Never rejects.
 * @returns what serves the request in place of that; `null` if the response is passed on
 */
export type OnRefused = () => Promise<(() => void) | null>;

export interface PassThrough {
  /**
   * Passes on a request of a known caller for the public path. A body that was read must be a `Buffer`, and is sent as
   * it is. Resolves when the response has begun or the client has left. Never rejects.
   */
  forward(request: FastifyRequest, reply: FastifyReply, onRefused?: OnRefused): Promise<void>;
}

type LibraryRequest = Extract<
  NonNullable<replyFrom.FastifyReplyFromOptions['undici']>,
  { request: unknown }
>['request'];

/** Makes `reply.from` of the library available to the edge, which the library limits to a scope of its own. */
const shared = fastifyPlugin<Parameters<typeof httpProxy>[1]>((scope, options, done) =>
  httpProxy(scope, options, done),
);

/** A POST to the public path goes to the edge, which calls `forward` for legacy requests. */
const METHODS_OF_PATH: HTTPMethods[] = ['GET', 'HEAD', 'DELETE', 'PUT', 'PATCH', 'OPTIONS'];

/**
 * Registers the routes of one upstream. Each upstream needs a Fastify scope of its own (`app.register`), whose bodies
 * stay streams. Code that reads bodies needs a scope within it.
 */
export async function registerPassThrough(
  scope: FastifyInstance,
  options: PassThroughOptions,
): Promise<PassThrough> {
  const agent = new UpstreamAgent(options);
  const forwarder = new Forwarder(agent, options);
  const endpoint: PassThrough['forward'] = (request, reply, onRefused) =>
    forwarder.forward(request, reply, options.upstream.pathname, onRefused);
  const proxy = {
    upstream: options.upstream.origin,
    // The library's types are those of its own undici. It only calls this function with a callback.
    undici: { request: agent.request as unknown as LibraryRequest },
    disableRequestLogging: true,
  };
  scope.removeAllContentTypeParsers();
  await scope.register(shared, {
    ...proxy,
    routes: [options.path],
    httpMethods: METHODS_OF_PATH,
    handler: async (request, reply) => {
      const refusal = await options.refusalOf(request);
      return refusal === null ? endpoint(request, reply) : refuseCaller(reply, refusal);
    },
  });
  if (options.others.length > 0) {
    await scope.register(httpProxy, {
      ...proxy,
      routes: [...options.others],
      httpMethods: [...METHODS_OF_PATH, 'POST'],
      // The scope already streams its bodies.
      proxyPayloads: false,
      handler: async (request, reply) => {
        const isOpen = readsMetadata(request.method, request.raw.url ?? '');
        const refusal = isOpen ? null : await options.refusalOf(request);
        return refusal === null
          ? forwarder.forward(request, reply, null)
          : refuseCaller(reply, refusal);
      },
    });
  }
  scope.addHook('onClose', () => agent.close());
  return { forward: endpoint };
}

/** Registers the path of a server over stdio: there is no HTTP behind it. */
export async function registerNoPassThrough(
  scope: FastifyInstance,
  path: string,
): Promise<PassThrough> {
  const refuseMethod = async (request: FastifyRequest, reply: FastifyReply) => {
    // streamable-http, "Earlier Streamable HTTP Revisions"
    reply.raw.setHeader('allow', 'POST');
    refuse(reply, 405, `${request.method} is not part of this protocol revision`);
  };
  scope.route({ method: METHODS_OF_PATH, url: path, handler: refuseMethod });
  return { forward: refuseMethod };
}

const INVALID_TARGET =
  'Invalid request target: expected a path without dot segments or encoded slashes';

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

  /** @param endpoint the path of the endpoint upstream; `null` for the path of the request */
  async forward(
    request: FastifyRequest,
    reply: FastifyReply,
    endpoint: string | null,
    onRefused?: OnRefused,
  ): Promise<void> {
    const requested = plainPath(request.raw.url ?? '');
    if (requested === null) return refuse(reply, 400, INVALID_TARGET);
    if (removesEndToEndHeaders(request.headers)) {
      return refuse(reply, 400, 'The Connection header must not name an end-to-end header');
    }
    const { upstream, sessions, maxBodyBytes } = this.#options;
    const declaredBytes = Number(request.headers['content-length'] ?? 0);
    if (!(request.body instanceof Buffer) && declaredBytes > maxBodyBytes) {
      return refuse(reply, 413, BODY_TOO_LARGE);
    }
    const session = sessions === undefined ? null : openSession(request, sessions);
    if (sessions !== undefined && session === null) return this.#refuseForeign(reply);
    const path = session?.endpoint?.path ?? endpoint ?? requested;
    const isEndpoint = endpoint !== null;
    // The operator's headers for the endpoint are not sent to other paths.
    const rules = isEndpoint
      ? this.#rulesFor(request)
      : await this.#options.otherPathHeaderRules(request, path);
    const isPlainMessage = session?.endpoint === null && request.method === 'POST';
    if (isPlainMessage && sessions?.isMessagePath(path) === true) return this.#refuseForeign(reply);
    const addsQuery = isEndpoint && upstream.search !== '';
    const query = addsQuery ? joinedQuery(upstream, request.raw.url ?? '') : null;
    await this.#exchange(request, reply, {
      ...{ isEndpoint, path, rules, session, onRefused },
      query: session?.endpoint?.query ?? query,
    });
  }

  #rulesFor(request: FastifyRequest): RequestHeaderRules {
    const { headersOf } = this.#options;
    if (headersOf === undefined) return this.#endpointRules;
    const { headers, authorization } = this.#endpointRules;
    return { headers: { ...headers, ...headersOf(request) }, authorization };
  }

  /** Responds as for a session that the server does not know (2025-11-25 transports, "Session Management"). */
  #refuseForeign(reply: FastifyReply): void {
    this.#options.onForeignSession?.();
    refuse(reply, 404, 'Session not found');
  }

  /** Resolves when the framework must no longer touch the reply. */
  #exchange(request: FastifyRequest, reply: FastifyReply, target: Target): Promise<void> {
    return new Promise((resolve) => {
      const clientLeft = new AbortController();
      const leave = () => {
        if (!reply.raw.writableFinished) clientLeft.abort();
        reply.hijack();
        resolve();
      };
      if (reply.raw.destroyed) return leave();
      const open = new OpenResponse(this.#options.openResponses, request, reply);
      reply.raw.once('close', leave);
      const hooks = this.#hooks(request, reply, target, () => {
        open.begin({ isListening: isListening(request, reply) });
        resolve();
      });
      this.#options.onPassed?.();
      try {
        this.#agent.during(clientLeft.signal, () => void reply.from(target.path, hooks));
      } catch {
        // The library refuses any segment that begins with two dots.
        refuse(reply, 400, INVALID_TARGET);
        resolve();
      }
    });
  }

  #hooks(
    request: FastifyRequest,
    reply: FastifyReply,
    { isEndpoint, path: requested, query, rules, session, onRefused }: Target,
    onBegin: () => void,
  ): replyFrom.FastifyReplyFromHooks {
    const { upstream, path, sessions, onEndpoint, hostHeader, challenge, onToken } = this.#options;
    const body = this.#bodyOf(request);
    const sealing = session === null ? undefined : sessions;
    let isSealed = true;
    const passOn = (stream: Readable) => {
      if (isSealed) {
        const isReadable = isListening(request, reply) && isPlain(reply);
        if (isEndpoint && isReadable && onEndpoint) watchEndpoint(stream, onEndpoint);
        const url = new URL(requested, upstream);
        const rewrites = isReadable && sealing !== undefined;
        const through = rewrites
          ? rewritingEndpoint((endpoint) => sealedEndpoint(endpoint, url, request, sealing))
          : null;
        pipe(stream, reply, through);
      } else {
        stream.on('error', () => {}).destroy();
        this.#fail(reply, new Error('the session id of the server cannot be sealed'));
      }
      onBegin();
    };
    return {
      ...body,
      // The library would repeat a GET after a 503.
      retryDelay: () => null,
      ...(query === null ? {} : { queryString: () => query }),
      rewriteRequestHeaders: (_request, headers) => {
        const passed = upstreamHeaders(request, headers, rules, hasBody(request));
        if (typeof hostHeader === 'string') passed.host = hostHeader;
        return session === null ? passed : withSession(passed, request, session);
      },
      rewriteHeaders: (headers) => {
        const passed = downstreamHeaders(headers, {
          upstream,
          path,
          challenge,
          set: reply.raw.getHeaders(),
        });
        if (session === null || sealing === undefined) return passed;
        const sealed = withSealedSession(passed, request, session, sealing);
        isSealed = sealed !== null;
        return sealed ?? {};
      },
      onResponse: (_request, _reply, { stream }) => {
        if (isEndpoint && request.headers.authorization !== undefined) {
          const given = reply.getHeader('www-authenticate');
          onToken?.(reply.statusCode, given === undefined ? null : String(given));
        }
        if (onRefused === undefined || !isRefusal(reply.statusCode)) return passOn(stream);
        void onRefused().then((serveInstead) => {
          if (serveInstead === null) return passOn(stream);
          stream.on('error', () => {}).destroy();
          reply.hijack();
          onBegin();
          serveInstead();
        });
      },
      onError: (_reply, { error }) => {
        this.#fail(reply, error);
        onBegin();
      },
    };
  }

  #bodyOf(request: FastifyRequest): replyFrom.FastifyReplyFromHooks {
    if (request.body instanceof Buffer) {
      // With a type, the library does not serialize the body.
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

/** True if the server has not carried the request out, and not for its credentials or its load. */
function isRefusal(status: number): boolean {
  return status >= 400 && status < 500 && ![401, 403, 429].includes(status);
}

function hasBody({ body }: FastifyRequest): boolean {
  return body !== undefined && body !== null;
}

/** Tells whether the body is not compressed, so that the gateway can read it. */
function isPlain(reply: FastifyReply): boolean {
  return (reply.getHeader('content-encoding') ?? 'identity') === 'identity';
}
