/**
 * The modern endpoint of a route: checks each POST, and hands it to the rest of the gateway. What is legacy goes to
 * the pass-through.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { inBackground } from '../lib/background.ts';
import { callFailure, reasonOf } from '../model/failures.ts';
import {
  traceOf,
  type Caller,
  type CallerRefusal,
  type CallReply,
  type EdgeRequest,
} from '../model/request.ts';
import { originOf, traceIdOf, type Span, type TraceContext } from '../ops/tracing.ts';
import { ErrorCode } from '../protocol/json-rpc.ts';
import { MODERN_REVISION } from '../protocol/meta.ts';
import type { ListenWaiter } from '../subscriptions/subscriptions.ts';
import {
  ResponseWriter,
  refuse,
  sendJson,
  sendRefusal,
  type UnnamedRefusal,
} from './response-writer.ts';
import type { EdgeOptions, EdgeRoute, OnRefused, PassedRequest } from './options.ts';
import { headerMismatch, refused, type ModernRequest } from './request/message.ts';
import { METHOD_NOT_FOUND, methodGate, serviceOf } from './request/methods.ts';
import { readBody, refuseBody } from './request/body.ts';
import { endSpan, startSpan } from './request-span.ts';

export class ModernEndpoint {
  readonly #route: EdgeRoute;
  readonly #options: EdgeOptions;

  constructor(route: EdgeRoute, options: EdgeOptions) {
    this.#route = route;
    this.#options = options;
  }

  /** Serves a POST on the route's path. Never throws. */
  post(request: IncomingMessage, response: ServerResponse): void {
    this.#post(request, response).catch((error: unknown) => this.#fail(response, error));
  }

  async #post(raw: IncomingMessage, response: ServerResponse): Promise<void> {
    // Identified before the body is read, so that an unknown caller learns nothing. What is known is not waited for: then
    // the body, which mostly comes with the head, is not buffered.
    const found = this.#route.identify(raw);
    const caller = callerOrRefuse(found instanceof Promise ? await found : found, response);
    if (caller === null) return;
    const era = this.#route.isModern(caller, raw.headers['mcp-method']);
    const isModern = era instanceof Promise ? await era : era;
    this.#options.beforeBody(response);
    const { maxBodyBytes, holdBytes } = this.#options;
    readBody(raw, maxBodyBytes, holdBytes(caller.principalKey), (body) => {
      if (typeof body === 'string') return refuseBody(response, body);
      const request = { raw, response, caller, body };
      try {
        if (isModern) this.#passToModern(request);
        else if (!this.#serve(request, () => this.#pass(request))) this.#pass(request);
      } catch (error) {
        // Nobody catches what a listener throws: the process would end.
        this.#fail(response, error);
      }
    });
  }

  #pass(request: PassedRequest, onRefused?: OnRefused): void {
    const passed = this.#route.passThrough(request, onRefused);
    passed.catch((error: unknown) => this.#fail(request.response, error));
  }

  /** Passes a request on to a modern server, and serves it here if that turns out to be none any more. */
  #passToModern(request: ReadPost): void {
    const { raw, caller, body } = request;
    this.#pass(request, async () => {
      const { type } = this.#options.read(raw, body, caller);
      const isServed = type === 'request' && (await this.#route.isLegacyNow(caller));
      return isServed ? () => void this.#serve(request, null) : null;
    });
  }

  /**
   * @param passThrough called if the server turns out to be modern by now; `null` if that is a failure
   * @returns false if the request is legacy, and was not served
   */
  #serve({ raw, response, caller, body }: ReadPost, passThrough: (() => void) | null): boolean {
    const { read: readRequest, tracer } = this.#options;
    const route = this.#route;
    const read = readRequest(raw, body, caller);
    switch (read.type) {
      case 'legacy':
        return false;
      case 'refused':
        if (read.isLegacy === true) this.#options.legacyRefused(caller);
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
        const origin = originOf(read.request.forwardedMeta, caller.headers);
        const span =
          tracer === null
            ? null
            : startSpan(tracer, route.id, read.request, MODERN_REVISION, origin);
        const served = toEdgeRequest(read.request, caller, span?.context ?? origin.parent, span);
        const { rawHeaders } = raw;
        const responded = this.#respond(rawHeaders, response, read.request, served, passThrough);
        const over = responded.catch((error: unknown) => this.#fail(response, error, served));
        // Without a reply, the client has left.
        if (span !== null) inBackground(over.finally(() => span.end(null)));
        return true;
      }
    }
  }

  async #respond(
    rawHeaders: readonly string[],
    response: ServerResponse,
    modern: ModernRequest,
    request: EdgeRequest,
    passThrough: (() => void) | null,
  ): Promise<void> {
    const { clock, observe } = this.#options;
    const route = this.#route;
    const { id, method, accepts, encode } = modern;
    const startedAtMs = clock.now();
    const { caller, span } = request;
    const checked = this.#check(rawHeaders, modern, request);
    const refusal = checked instanceof Promise ? await checked : checked;
    if (refusal !== null) {
      if (span !== undefined) endSpan(span, { kind: 'failed', failure: refusal });
      const mayHaveActed = modern.requestState === null ? 'no' : 'unknown';
      return sendRefusal(response, { mayHaveActed, ...refusal, id });
    }
    // The client may have left during the checks, and `close` is emitted only once.
    if (response.destroyed) return;
    const service = serviceOf(method);
    const writer = new ResponseWriter(
      response,
      {
        id,
        encode,
        jsonOnly: accepts === 'json' || service === 'discover',
        cutWhenBehind: service === 'listen',
      },
      this.#options,
    );
    const reply = await this.#replyTo(request, modern, writer, response.req).catch(
      (error: unknown) => {
        // The client still gets a reply.
        this.#logDefect(error, request);
        const failure = callFailure('internal_error', 'unknown', 'Internal error');
        return { kind: 'failed', failure } as const;
      },
    );
    if (span !== undefined) endSpan(span, reply);
    if (writer.closed.aborted) return;
    const isChanged = reply.kind === 'failed' && reasonOf(reply.failure) === 'upstream_changed';
    if (isChanged && passThrough !== null && writer.withdraw()) return passThrough();
    const sent = writer.finish(route.published(reply, caller));
    observe(request, reply, sent, clock.now() - startedAtMs);
  }

  /** Checks what the caller may do, and what the route, the tool and the response require. @returns why the request is refused, or `null` */
  #check(
    rawHeaders: readonly string[],
    { method, accepts, encode }: ModernRequest,
    request: EdgeRequest,
  ): UnnamedRefusal | null | Promise<UnnamedRefusal | null> {
    const route = this.#route;
    // Before anything reaches the server: the other checks can ask it.
    const refusal = route.refusalOf(request);
    if (refusal !== null) return refusal;
    const gate = methodGate(method, route.capabilities(request));
    if (gate !== null) {
      return { ...gate, httpStatus: encode({ kind: 'failed', failure: gate }).httpStatus };
    }
    if (serviceOf(method) === 'listen' && accepts === 'json') return NO_STREAM;
    const mismatch = route.parameterHeaders(request, rawHeaders);
    return mismatch instanceof Promise ? mismatch.then(mismatchRefusal) : mismatchRefusal(mismatch);
  }

  #replyTo(
    request: EdgeRequest,
    { id, method }: ModernRequest,
    waiter: ListenWaiter,
    http: IncomingMessage,
  ): Promise<CallReply> {
    const route = this.#route;
    switch (serviceOf(method)) {
      case 'discover':
        return route.discover(request);
      case 'interactive':
        return route.call(request, waiter);
      case 'listen':
        return route.listen(request, id, waiter, http);
      case 'task':
        return route.task(request, waiter);
      case 'forward':
        return route.forward(request, waiter.closed);
    }
  }

  #fail(response: ServerResponse, error: unknown, request?: EdgeRequest): void {
    this.#logDefect(error, request);
    // What has begun cannot become a refusal. A client takes a response that is cut for a failure.
    if (response.headersSent) response.destroy();
    else refuse(response, 500, 'Internal error', {}, 'unknown');
  }

  #logDefect(error: unknown, request?: EdgeRequest): void {
    const problem = error instanceof Error ? `${error.name}: ${error.message}` : 'not an Error';
    const trace = request === undefined ? {} : traceOf(request);
    this.#options.log.event('edge.failed', { route: this.#route.id, ...trace, problem });
  }
}

/** A POST that was read. */
type ReadPost = PassedRequest & { readonly body: Buffer };

/** The reply to a request about a task where none are offered. */
export const NO_TASKS: CallReply = { kind: 'failed', failure: METHOD_NOT_FOUND };

/** A subscription needs a stream. */
const NO_STREAM = refused(
  406,
  ErrorCode.invalidRequest,
  'Accept must list text/event-stream',
).refusal;

/** @param mismatch what is wrong with the headers; `null` if nothing is */
function mismatchRefusal(mismatch: string | null): UnnamedRefusal | null {
  return mismatch === null ? null : headerMismatch(`Header mismatch: ${mismatch}`).refusal;
}

/** @returns the caller, or `null` after a refusal */
function callerOrRefuse(found: Caller | CallerRefusal, response: ServerResponse): Caller | null {
  if (!('httpStatus' in found)) return found;
  refuse(response, found.httpStatus, found.message, found.headers);
  return null;
}

function toEdgeRequest(
  modern: ModernRequest,
  caller: Caller,
  context: TraceContext | null,
  span: Span | null,
): EdgeRequest {
  const { id: _id, accepts: _accepts, encode: _encode, ...content } = modern;
  return {
    ...content,
    caller,
    ...(context !== null && { trace: traceIdOf(context) }),
    ...(span !== null && { span }),
  };
}
