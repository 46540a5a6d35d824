/**
 * Everything that is not a modern request of ours to translate goes to the legacy server as it came:
 * bodies, queries and event streams byte by byte. What a proxy must change, and nothing else, changes.
 */
import { pipeline, Readable } from 'node:stream';
import httpProxy from '@fastify/http-proxy';
import type replyFrom from '@fastify/reply-from';
import fastifyPlugin from 'fastify-plugin';
import type { FastifyInstance, FastifyReply, FastifyRequest, HTTPMethods } from 'fastify';
import type { OpenAnswers } from '../lib/open-responses.ts';
import { watchEndpoint } from './announced-endpoint.ts';
import { boundedBody } from './bounded-body.ts';
import {
  downstreamHeaders,
  removesEndToEndHeaders,
  upstreamHeaders,
  type RequestHeaderRules,
} from './forwarded-headers.ts';
import { isListening, OpenAnswer } from './open-answer.ts';
import { BODY_TOO_LARGE } from '../edge/http/refuse.ts';
import { refuse, refuseFailed, refuseUnknown, type FailureStatus } from './refusals.ts';
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
  /** Whether it is known who asks. Strangers may read metadata, and nothing else. */
  readonly isKnown: (request: FastifyRequest) => boolean;
  readonly connectTimeoutMs: number;
  /** How long the head of an answer may take. The body may take for ever. */
  readonly headersTimeoutMs: number;
  /** For bodies that are streamed; one that was read before was measured by who read it. */
  readonly maxBodyBytes: number;
  /** Where answers are counted that the process must not leave before. */
  readonly openAnswers: OpenAnswers;
  /** Told of every request that the upstream did not answer. */
  readonly onFailure?: (failure: PassThroughFailure) => void;
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
    if (asked === null) return refuse(reply, 400, 'The request target is not plain');
    if (removesEndToEndHeaders(request.headers)) {
      return refuse(reply, 400, 'The Connection header names a header that is not its to name');
    }
    if (!(request.body instanceof Buffer) && this.#declaresTooMuch(request)) {
      return refuse(reply, 413, BODY_TOO_LARGE);
    }
    const target =
      endpoint === null ? await this.#beside(request, asked) : this.#at(request, endpoint);
    await this.#exchange(request, reply, target);
  }

  #at({ raw }: FastifyRequest, path: string): Target {
    const { upstream } = this.#options;
    const query = upstream.search === '' ? null : joinedQuery(upstream, raw.url ?? '');
    return { isEndpoint: true, path, query, rules: this.#endpointRules };
  }

  /** Without what the operator configured for the endpoint: the query of its URL, and the headers. */
  async #beside(request: FastifyRequest, path: string): Promise<Target> {
    const rules = await this.#options.headerRulesBeside(request, path);
    return { isEndpoint: false, path, query: null, rules };
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
      const open = new OpenAnswer(this.#options.openAnswers, request, reply);
      reply.raw.once('close', leave);
      const hooks = this.#hooks(request, reply, target, () => {
        open.begun({ listens: isListening(request, reply) });
        resolve();
      });
      try {
        this.#agent.during(clientGone.signal, () => void reply.from(target.path, hooks));
      } catch {
        // The library has a rule of its own: no segment may so much as begin with two dots.
        refuse(reply, 400, 'The request target is not plain');
        resolve();
      }
    });
  }

  #hooks(
    request: FastifyRequest,
    reply: FastifyReply,
    { isEndpoint, query, rules }: Target,
    begun: () => void,
  ): replyFrom.FastifyReplyFromHooks {
    const { upstream, path } = this.#options;
    const body = this.#bodyOf(request);
    return {
      ...body,
      // The library would repeat a GET that is answered with 503.
      retryDelay: () => null,
      ...(query === null ? {} : { queryString: () => query }),
      rewriteRequestHeaders: (_request, headers) =>
        upstreamHeaders(request, headers, rules, hasBody(request)),
      rewriteHeaders: (headers) =>
        downstreamHeaders(headers, { upstream, path, set: reply.raw.getHeaders() }),
      onResponse: (_request, _reply, answer) => {
        if (isEndpoint && isListening(request, reply)) this.#watch(answer.stream, reply);
        relay(answer.stream, reply);
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
    // Compressed streams are for the client alone to read.
    const isPlain = (reply.getHeader('content-encoding') ?? 'identity') === 'identity';
    if (endpointTold !== undefined && isPlain) watchEndpoint(stream, endpointTold);
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
    const httpStatus = refuseFailed(reply, error, cause);
    this.#options.onFailure?.({ httpStatus, problem: cause.message });
  }
}

function hasBody({ body }: FastifyRequest): boolean {
  return body !== undefined && body !== null;
}

/** Sends the head at once, as an event stream may stay empty for long, and then what comes. */
function relay(stream: Readable, reply: FastifyReply): void {
  const { raw, statusCode } = reply;
  const headers = reply.getHeaders();
  reply.hijack();
  raw.statusCode = statusCode;
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined) raw.setHeader(name, value);
  }
  // An empty write, since `flushHeaders` would spell bytes beyond ASCII anew, as UTF-8.
  if (!raw.hasHeader('content-length')) raw.write(Buffer.alloc(0));
  // Each side's end ends the other; a cut one is cut there too.
  pipeline(stream, raw, () => {});
}
