/**
 * The modern endpoint of a route: checks each POST, and hands it to the rest of the gateway. What is legacy goes to
 * the pass-through.
 */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Clock } from '../lib/clock.ts';
import type { Closed } from '../lib/closing.ts';
import { callFailure, reasonOf } from '../model/failures.ts';
import {
  traceOf,
  type Caller,
  type CallerRefusal,
  type CallReply,
  type EdgeRequest,
  type Leg,
} from '../model/request.ts';
import type { OpenResponses } from '../lib/responses.ts';
import type { Log } from '../ops/log.ts';
import { traceIdOf, type Span, type TraceContext, type Tracer } from '../ops/tracing.ts';
import type { ClientRequestId } from '../protocol/ids.ts';
import { ErrorCode } from '../protocol/json-rpc.ts';
import type { JsonObject } from '../protocol/json.ts';
import type { ListenLeg } from '../subscriptions/subscriptions.ts';
import {
  ResponseWriter,
  sendJson,
  type SentResponse,
  BODY_TOO_LARGE,
  sendRefusal,
  refuse,
  type Refusal,
} from './response-writer.ts';
import type { ModernRequest, ReadRequest } from './request/message.ts';
import { METHOD_NOT_FOUND, methodGate, serviceOf } from './request/methods.ts';
import { readBody } from './request/body.ts';
import { endSpan, originOf, startSpan } from './request-span.ts';

/** What the edge needs from the rest of the gateway for one route. */
export interface EdgeRoute {
  readonly id: string;
  readonly path: string;
  /** Tells whether the server is modern itself, so that nothing is translated. Never rejects. */
  readonly isModern: (caller: Caller) => boolean | Promise<boolean>;
  /** Never rejects. */
  readonly identify: (
    request: IncomingMessage,
  ) => Caller | CallerRefusal | Promise<Caller | CallerRefusal>;
  readonly capabilities: (request: EdgeRequest) => JsonObject | null;
  /** Finds what differs between `Mcp-Param-*` headers and the tool's arguments, or `null`. Never rejects. */
  readonly parameterHeaders: (
    request: EdgeRequest,
    rawHeaders: readonly string[],
  ) => string | null | Promise<string | null>;
  readonly discover: (request: EdgeRequest) => Promise<CallReply>;
  readonly forward: (request: EdgeRequest, closed: Closed) => Promise<CallReply>;
  readonly call: (request: EdgeRequest, leg: Leg) => Promise<CallReply>;
  /** Serves a request about a task; `null` if the gateway offers no tasks. */
  readonly task: ((request: EdgeRequest, leg: Leg) => Promise<CallReply>) | null;
  /** Serves a listener until it ends. */
  readonly listen: (
    request: EdgeRequest,
    id: ClientRequestId,
    leg: ListenLeg,
  ) => Promise<CallReply>;
  /** Rewrites what a reply says of the server's URL. */
  readonly published: (reply: CallReply, caller: Caller) => CallReply;
  /**
   * Passes a request through whose body was read.
   * @param onRefused called if the server refuses it (4xx); returns what serves it in place of that, or `null`
   */
  readonly passThrough: (
    request: FastifyRequest,
    reply: FastifyReply,
    onRefused?: () => Promise<(() => void) | null>,
  ) => Promise<void>;
  /** Tells, after it refused a modern request, whether the server is not modern any more. Never rejects. */
  readonly isLegacyNow: (caller: Caller) => Promise<boolean>;
}

export interface EdgeOptions {
  /** Reads a request of the wire that is spoken on this path. Never throws. */
  readonly read: (request: IncomingMessage, body: Uint8Array, caller: Caller) => ReadRequest;
  readonly maxBodyBytes: number;
  /** Called before a body is read. */
  readonly beforeBody: (response: ServerResponse) => void;
  readonly commitAfterMs: number;
  readonly keepAliveMs: number;
  /** If more bytes wait, the client is behind. A listener that is behind is disconnected. */
  readonly maxBufferedBytes: number;
  readonly openResponses: OpenResponses;
  readonly clock: Clock;
  readonly log: Log;
  /** `null` if no traces are exported. */
  readonly tracer: Tracer | null;
  readonly observe: (
    route: string,
    request: EdgeRequest,
    reply: CallReply,
    sent: SentResponse,
    ms: number,
  ) => void;
}

export class ModernEndpoint {
  readonly #route: EdgeRoute;
  readonly #options: EdgeOptions;
  /** The bodies of requests that are not for the edge, until the HTTP framework has them. */
  readonly #bodiesToPass = new WeakMap<IncomingMessage, Buffer>();

  constructor(route: EdgeRoute, options: EdgeOptions) {
    this.#route = route;
    this.#options = options;
  }

  /** Serves what `post` leaves to the framework, and requests that spell the path in another way. */
  install(app: FastifyInstance): void {
    const route = this.#route;
    // Every body is read as bytes: legacy requests go upstream unchanged.
    app.removeAllContentTypeParsers();
    app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) =>
      done(null, body),
    );
    app.addHook('preParsing', (request, _reply, payload, next) => {
      const body = this.#bodiesToPass.get(request.raw);
      next(null, body === undefined ? payload : Readable.from([body], { objectMode: false }));
    });
    app.post(route.path, async (request, reply) => {
      const { raw, body } = request;
      if (this.#bodiesToPass.delete(raw)) return route.passThrough(request, reply);
      const caller = await this.#identify(raw, reply.raw);
      if (caller === null) return void reply.hijack();
      const bytes = body instanceof Buffer ? body : Buffer.alloc(0);
      const serve = () => this.#serve(raw, reply.raw, bytes, caller, null);
      if (await route.isModern(caller)) {
        return route.passThrough(request, reply, async () => {
          const { type } = this.#options.read(raw, bytes, caller);
          return type === 'request' && (await route.isLegacyNow(caller)) ? serve : null;
        });
      }
      if (!serve()) return route.passThrough(request, reply);
      reply.hijack();
    });
  }

  /**
   * Serves a POST on the route's path, which the HTTP framework has not seen.
   * @param framework called if the framework has to serve the request
   */
  async post(
    request: IncomingMessage,
    response: ServerResponse,
    framework: RequestListener,
  ): Promise<void> {
    // Identified before the body is read, so that an unknown caller learns nothing.
    const caller = await this.#identify(request, response);
    if (caller === null) return;
    if (await this.#route.isModern(caller)) return framework(request, response);
    this.#options.beforeBody(response);
    readBody(request, this.#options.maxBodyBytes, (body) => {
      if (body === null) return refuse(response, 413, BODY_TOO_LARGE);
      const passThrough = () => {
        this.#bodiesToPass.set(request, body);
        framework(request, response);
      };
      try {
        if (!this.#serve(request, response, body, caller, passThrough)) passThrough();
      } catch (error) {
        // Nobody catches what a listener throws: the process would end.
        this.#fail(response, error);
      }
    });
  }

  /** Returns the caller, or `null` after a refusal. */
  async #identify(request: IncomingMessage, response: ServerResponse): Promise<Caller | null> {
    const found = await this.#route.identify(request);
    if (!('httpStatus' in found)) return found;
    refuse(response, found.httpStatus, found.message, found.headers);
    return null;
  }

  /**
   * @param passThrough called if the server turns out to be modern by now; `null` if that is a failure
   * @returns false if the request is legacy, and was not served
   */
  #serve(
    request: IncomingMessage,
    response: ServerResponse,
    body: Uint8Array,
    caller: Caller,
    passThrough: (() => void) | null,
  ): boolean {
    const { read: readRequest, tracer } = this.#options;
    const route = this.#route;
    const read = readRequest(request, body, caller);
    switch (read.type) {
      case 'legacy':
        return false;
      case 'refused':
        sendRefusal(response, read.refusal);
        return true;
      case 'known':
        sendJson(response, 200, { jsonrpc: '2.0', id: read.id, result: read.result });
        return true;
      case 'notification':
        // This revision defines no client notification over HTTP. All are accepted and ignored.
        response.writeHead(202).end();
        return true;
      case 'request': {
        const origin = originOf(read.request, caller);
        const span = tracer === null ? null : startSpan(tracer, route.id, read.request, origin);
        const served = toEdgeRequest(read.request, caller, span?.context ?? origin.parent, span);
        const { rawHeaders } = request;
        const answered = this.#answer(rawHeaders, response, read.request, served, passThrough);
        const over = answered.catch((error: unknown) => this.#fail(response, error, served));
        // Without a reply, the client has left.
        if (span !== null) void over.finally(() => span.end(null));
        return true;
      }
    }
  }

  async #answer(
    rawHeaders: readonly string[],
    response: ServerResponse,
    modern: ModernRequest,
    request: EdgeRequest,
    passThrough: (() => void) | null,
  ): Promise<void> {
    const { clock, openResponses, observe } = this.#options;
    const route = this.#route;
    const { id, method, accepts } = modern;
    const startedAtMs = clock.now();
    const { caller, span } = request;
    const refuseRead = (refusal: Refusal) => {
      const { error, httpStatus } = refusal;
      if (span !== undefined) endSpan(span, { kind: 'failed', failure: { error, httpStatus } });
      sendRefusal(response, refusal);
    };
    const gate = methodGate(method, route.capabilities(request));
    if (gate !== null) {
      const { httpStatus } = modern.encode({ kind: 'failed', failure: gate });
      return refuseRead({ ...gate, httpStatus, id });
    }
    const mismatch = await route.parameterHeaders(request, rawHeaders);
    if (mismatch !== null) {
      const error = { code: ErrorCode.headerMismatch, message: `Header mismatch: ${mismatch}` };
      return refuseRead({ httpStatus: 400, id, error });
    }
    const isListener = serviceOf(method) === 'listen';
    if (isListener && accepts === 'json') return refuseRead({ ...NO_STREAM, id });
    // The client may have left during the checks, and `close` is emitted only once.
    if (response.destroyed) return;
    const { commitAfterMs, keepAliveMs, maxBufferedBytes } = this.#options;
    const writer = new ResponseWriter(response, {
      id,
      encode: modern.encode,
      commitAfterMs,
      keepAliveMs,
      jsonOnly: accepts === 'json',
      maxBufferedBytes,
      cutWhenBehind: isListener,
      clock,
      openResponses,
    });
    const reply = await this.#replyTo(request, modern, writer).catch((error: unknown) => {
      // The client still gets a reply.
      this.#logDefect(error, request);
      const failure = callFailure('internal_error', 'unknown', 'Internal error');
      return { kind: 'failed', failure } as const;
    });
    if (span !== undefined) endSpan(span, reply);
    if (writer.closed.aborted) return;
    const isChanged = reply.kind === 'failed' && reasonOf(reply.failure) === 'upstream_changed';
    if (isChanged && passThrough !== null && writer.withdraw()) return passThrough();
    observe(
      route.id,
      request,
      reply,
      writer.finish(route.published(reply, caller)),
      clock.now() - startedAtMs,
    );
  }

  #replyTo(
    request: EdgeRequest,
    { id, method }: ModernRequest,
    leg: ListenLeg,
  ): Promise<CallReply> {
    const route = this.#route;
    switch (serviceOf(method)) {
      case 'discover':
        return route.discover(request);
      case 'interactive':
        return route.call(request, leg);
      case 'listen':
        return route.listen(request, id, leg);
      case 'task':
        return route.task?.(request, leg) ?? Promise.resolve(NO_TASKS);
      case 'forward':
        return route.forward(request, leg.closed);
    }
  }

  #fail(response: ServerResponse, error: unknown, request?: EdgeRequest): void {
    this.#logDefect(error, request);
    refuse(response, 500, 'Internal error', {}, 'unknown');
  }

  #logDefect(error: unknown, request?: EdgeRequest): void {
    const problem = error instanceof Error ? `${error.name}: ${error.message}` : 'not an Error';
    const trace = request === undefined ? {} : traceOf(request);
    this.#options.log.event('edge.failed', { route: this.#route.id, ...trace, problem });
  }
}

const NO_TASKS: CallReply = { kind: 'failed', failure: METHOD_NOT_FOUND };

/** A subscription needs a stream. */
const NO_STREAM = {
  httpStatus: 406,
  error: { code: ErrorCode.invalidRequest, message: 'Accept must list text/event-stream' },
};

function toEdgeRequest(
  modern: ModernRequest,
  caller: Caller,
  context: TraceContext | null,
  span: Span | null,
): EdgeRequest {
  const { clientInfo } = modern.meta;
  return {
    method: modern.method,
    params: modern.params,
    forwardedMeta: modern.meta.forwarded,
    profile: modern.meta.profile,
    clientInfo: clientInfo === null ? null : { ...clientInfo },
    logLevel: modern.meta.logLevel,
    progressToken: modern.meta.progressToken,
    inputResponses: modern.inputResponses,
    ...modern.beyond,
    requestState: modern.requestState,
    caller,
    ...(context !== null && { trace: traceIdOf(context) }),
    ...(span !== null && { span }),
  };
}
