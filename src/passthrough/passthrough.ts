/**
 * Everything that is not a modern request of ours to translate goes to the legacy server as it came:
 * bodies, queries and event streams byte by byte. What a proxy must change, and nothing else, changes.
 */
import { pipeline, Readable } from 'node:stream';
import httpProxy from '@fastify/http-proxy';
import type replyFrom from '@fastify/reply-from';
import fastifyPlugin from 'fastify-plugin';
import type { FastifyInstance, FastifyReply, FastifyRequest, HTTPMethods } from 'fastify';
import { sendJson } from '../edge/answer.ts';
import { rejectionBody } from '../edge/rejection.ts';
import type { OpenAnswers } from '../open-answers.ts';
import { ErrorCode } from '../protocol/json-rpc.ts';
import { boundedBody, BodyTooLarge } from './bounded-body.ts';
import { downstreamHeaders, removesEndToEndHeaders, upstreamHeaders } from './forwarded-headers.ts';
import { joinedQuery, plainPath } from './target.ts';
import { UpstreamAgent } from './upstream-agent.ts';

export interface PassThroughOptions {
  /** The MCP endpoint of the legacy server. */
  readonly upstream: URL;
  /** The public path that stands for that endpoint, such as `/mcp`. */
  readonly path: string;
  /** Further paths that go to the upstream's origin under the same name, such as `/*` for every other. */
  readonly others: readonly string[];
  /** Headers that the operator sets on every request upstream; they win over the client's. */
  readonly headers: Readonly<Record<string, string>>;
  /** What becomes of the client's `Authorization` header. */
  readonly authorization: 'forward' | 'strip';
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
  readonly httpStatus: 413 | 502 | 504;
  /** For the operator; it may name the upstream. */
  readonly problem: string;
}

export interface PassThrough {
  /**
   * Passes on a request for the public path. A body that was read must be a `Buffer` and is sent as it
   * is. Resolves when the answer has begun or the client has gone; never rejects.
   */
  forward(request: FastifyRequest, reply: FastifyReply): Promise<void>;
  /** Ends everything that is being passed on. */
  close(): Promise<void>;
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
    handler: endpoint,
  });
  if (options.others.length > 0) {
    await scope.register(httpProxy, {
      ...proxy,
      routes: [...options.others],
      httpMethods: [...METHODS_OF_PATH, 'POST'],
      // The scope streams its bodies already.
      proxyPayloads: false,
      handler: (request, reply) => forwarder.forward(request, reply, null),
    });
  }
  scope.addHook('onClose', () => agent.close());
  return { forward: endpoint, close: () => agent.close() };
}

class Forwarder {
  readonly #agent: UpstreamAgent;
  readonly #options: PassThroughOptions;
  readonly #headers: Readonly<Record<string, string>>;

  constructor(agent: UpstreamAgent, options: PassThroughOptions) {
    this.#agent = agent;
    this.#options = options;
    this.#headers = Object.fromEntries(
      Object.entries(options.headers).map(([name, value]) => [name.toLowerCase(), value]),
    );
  }

  /** @param fixedPath the path upstream, or `null` for the one that was asked for */
  async forward(
    request: FastifyRequest,
    reply: FastifyReply,
    fixedPath: string | null,
  ): Promise<void> {
    const requestTarget = request.raw.url ?? '';
    const asked = plainPath(requestTarget);
    if (asked === null) return refuse(reply, 400, 'The request target is not plain');
    if (removesEndToEndHeaders(request.headers)) {
      return refuse(reply, 400, 'The Connection header names a header that is not its to name');
    }
    if (!(request.body instanceof Buffer) && this.#declaresTooMuch(request)) {
      return refuse(reply, 413, MESSAGES[413]);
    }
    await this.#exchange(request, reply, fixedPath ?? asked, requestTarget);
  }

  #declaresTooMuch(request: FastifyRequest): boolean {
    return Number(request.headers['content-length'] ?? 0) > this.#options.maxBodyBytes;
  }

  /** Resolves when the framework has nothing left to do with the reply. */
  #exchange(
    request: FastifyRequest,
    reply: FastifyReply,
    path: string,
    requestTarget: string,
  ): Promise<void> {
    return new Promise((resolve) => {
      const clientGone = new AbortController();
      const leave = () => {
        if (!reply.raw.writableFinished) clientGone.abort();
        reply.hijack();
        resolve();
      };
      if (reply.raw.destroyed) return leave();
      if (!isListening(request)) this.#options.openAnswers.add(reply.raw);
      reply.raw.once('close', leave);
      const hooks = this.#hooks(request, reply, requestTarget, resolve);
      try {
        this.#agent.during(clientGone.signal, () => void reply.from(path, hooks));
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
    requestTarget: string,
    resolve: () => void,
  ): replyFrom.FastifyReplyFromHooks {
    const { upstream, path } = this.#options;
    const rules = { headers: this.#headers, authorization: this.#options.authorization };
    const body = this.#bodyOf(request);
    return {
      ...body,
      // The library would repeat a GET that is answered with 503.
      retryDelay: () => null,
      ...(upstream.search === ''
        ? {}
        : { queryString: () => joinedQuery(upstream, requestTarget) }),
      rewriteRequestHeaders: (_request, headers) =>
        upstreamHeaders(request, headers, rules, hasBody(request)),
      rewriteHeaders: (headers) =>
        downstreamHeaders(headers, { upstream, path, set: reply.raw.getHeaders() }),
      onResponse: (_request, _reply, answer) => {
        relay(answer.stream, reply);
        resolve();
      },
      onError: (_reply, { error }) => {
        this.#fail(reply, error);
        resolve();
      },
    };
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
    const httpStatus = statusOf(error, cause);
    refuse(reply, httpStatus, MESSAGES[httpStatus]);
    this.#options.onFailure?.({ httpStatus, problem: cause.message });
  }
}

const MESSAGES = {
  413: 'The body is larger than this gateway takes',
  502: 'The server behind this gateway cannot be reached',
  504: 'The server behind this gateway did not answer in time',
} as const;

function statusOf(error: Error, cause: Error): 413 | 502 | 504 {
  if (cause instanceof BodyTooLarge) return 413;
  return 'statusCode' in error && error.statusCode === 504 ? 504 : 502;
}

/** A client that listens for what may come waits for no answer; its stream would never end by itself. */
function isListening({ method, headers }: FastifyRequest): boolean {
  return method === 'GET' && (headers.accept ?? '').includes('text/event-stream');
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

/** Answers in our own name. What is left of the body is read and dropped, so that the answer arrives. */
function refuse(reply: FastifyReply, httpStatus: number, message: string): void {
  const code = httpStatus >= 500 ? ErrorCode.internalError : ErrorCode.invalidRequest;
  reply.hijack();
  sendJson(
    reply.raw,
    httpStatus,
    rejectionBody({ httpStatus, id: null, error: { code, message } }),
  );
  reply.request.raw.resume();
}
