/**
 * The modern endpoint: one handler for the POST of each route. It checks the request and hands it to the
 * rest of the gateway; what is legacy goes to the pass-through.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Clock } from '../lib/clock.ts';
import { callFailure } from '../model/failure-catalogue.ts';
import type { CallReply, EdgeRequest, Leg } from '../model/request.ts';
import type { Caller } from '../model/caller.ts';
import type { OpenResponses } from '../lib/responses.ts';
import type { Log } from '../ops/log.ts';
import type { ClientRequestId } from '../protocol/ids.ts';
import { ErrorCode } from '../protocol/json-rpc.ts';
import type { JsonObject } from '../protocol/json/json.ts';
import type { ListenLeg } from '../subscriptions/subscriptions.ts';
import { ResponseWriter, sendJson, type SentResponse } from './response-writer.ts';
import {
  readModernRequest,
  type RequestPolicy,
  type ModernRequest,
} from './request/modern-request.ts';
import { methodGate, serviceOf, type MethodName } from './request/methods.ts';
import { refusalBody, refuse, UNKNOWN_CALLER, type Refusal } from './http/refusal.ts';

/** What the edge needs from the rest of the gateway for one route. */
export interface EdgeRoute {
  readonly id: string;
  readonly path: string;
  /** Resolves to true if the server is modern itself, so that nothing is translated. Never rejects. */
  readonly isModern: (caller: Caller) => Promise<boolean>;
  /** Returns `null` if the identity source names no caller and must name one. */
  readonly identify: (request: FastifyRequest) => Caller | null;
  readonly capabilities: (request: EdgeRequest) => JsonObject | null;
  /** Finds what differs between `Mcp-Param-*` headers and the tool's arguments, or `null`. Never rejects. */
  readonly parameterHeaders: (
    request: EdgeRequest,
    rawHeaders: readonly string[],
  ) => Promise<string | null>;
  readonly discover: (request: EdgeRequest) => Promise<CallReply>;
  readonly forward: (request: EdgeRequest, closed: AbortSignal) => Promise<CallReply>;
  readonly call: (request: EdgeRequest, leg: Leg) => Promise<CallReply>;
  /** Serves a listener until it ends. */
  readonly listen: (
    request: EdgeRequest,
    id: ClientRequestId,
    leg: ListenLeg,
  ) => Promise<CallReply>;
  /** Passes a request through whose body was read. */
  readonly passThrough: (request: FastifyRequest, reply: FastifyReply) => Promise<void>;
}

export interface EdgeOptions {
  readonly policy: RequestPolicy;
  readonly commitAfterMs: number;
  readonly keepAliveMs: number;
  /** If more bytes wait, the client is behind. A listener that is behind is disconnected. */
  readonly maxBufferedBytes: number;
  readonly openResponses: OpenResponses;
  readonly clock: Clock;
  readonly log: Log;
  readonly observe: (route: string, method: string, sent: SentResponse, ms: number) => void;
}

/** Serves modern clients on the route's path. */
export function serveRoute(app: FastifyInstance, route: EdgeRoute, options: EdgeOptions): void {
  // Every body is read as bytes: legacy requests go upstream unchanged.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
  app.post(route.path, async (request, reply) => {
    // Identified before the body is read, so that an unknown caller learns nothing.
    const caller = route.identify(request);
    if (caller === null) return refuse(reply, 401, UNKNOWN_CALLER);
    if (await route.isModern(caller)) return route.passThrough(request, reply);
    const bytes = request.body instanceof Buffer ? request.body : Buffer.alloc(0);
    const read = readModernRequest(request.raw, bytes, options.policy);
    switch (read.type) {
      case 'legacy':
        return route.passThrough(request, reply);
      case 'refused':
        reply.hijack();
        return sendRefusal(reply, read.refusal);
      case 'notification':
        // This revision defines no client notification over HTTP. All are accepted and ignored.
        reply.hijack();
        reply.raw.writeHead(202).end();
        return;
      case 'request':
        reply.hijack();
        return serve(reply, read.request, caller, route, options);
    }
  });
}

async function serve(
  reply: FastifyReply,
  modern: ModernRequest,
  caller: Caller,
  route: EdgeRoute,
  options: EdgeOptions,
): Promise<void> {
  const startedAtMs = options.clock.now();
  const edgeRequest = toEdgeRequest(modern, caller);
  const gate = methodGate(modern.method, route.capabilities(edgeRequest));
  if (gate !== null) return sendRefusal(reply, { ...gate, id: modern.id });
  const mismatch = await route.parameterHeaders(edgeRequest, reply.request.raw.rawHeaders);
  if (mismatch !== null) {
    const error = { code: ErrorCode.headerMismatch, message: `Header mismatch: ${mismatch}` };
    return sendRefusal(reply, { httpStatus: 400, id: modern.id, error });
  }
  const isListener = serviceOf(modern.method) === 'listen';
  if (isListener && modern.accepts === 'json') {
    return sendRefusal(reply, { ...NO_STREAM, id: modern.id });
  }
  // The client may have left during the checks, and `close` is emitted only once.
  if (reply.raw.destroyed) return;
  options.openResponses.add(reply.raw);
  const writer = new ResponseWriter(reply.raw, {
    id: modern.id,
    commitAfterMs: options.commitAfterMs,
    keepAliveMs: options.keepAliveMs,
    jsonOnly: modern.accepts === 'json',
    maxBufferedBytes: options.maxBufferedBytes,
    cutWhenBehind: isListener,
    clock: options.clock,
  });
  const answer = await replyTo(edgeRequest, modern, writer, route, options);
  if (writer.closed.aborted) return;
  const sent = writer.finish(answer);
  options.observe(route.id, modern.method, sent, options.clock.now() - startedAtMs);
}

/** A subscription needs a stream. */
const NO_STREAM = {
  httpStatus: 406,
  error: { code: ErrorCode.invalidRequest, message: 'Accept must list text/event-stream' },
};

async function replyTo(
  request: EdgeRequest,
  { id, method }: { readonly id: ClientRequestId; readonly method: MethodName },
  leg: ListenLeg,
  route: EdgeRoute,
  { log }: EdgeOptions,
): Promise<CallReply> {
  try {
    switch (serviceOf(method)) {
      case 'discover':
        return await route.discover(request);
      case 'interactive':
        return await route.call(request, leg);
      case 'listen':
        return await route.listen(request, id, leg);
      case 'forward':
        return await route.forward(request, leg.closed);
    }
  } catch (error) {
    // A defect in the gateway: the client still gets a reply, and the operator a log line.
    const problem = error instanceof Error ? `${error.name}: ${error.message}` : 'not an Error';
    log.event('edge.failed', { route: route.id, problem });
    return {
      kind: 'failed',
      failure: callFailure('internal_error', 'unknown', 'Internal error'),
    };
  }
}

function toEdgeRequest(modern: ModernRequest, caller: Caller): EdgeRequest {
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
    requestState: modern.requestState,
    caller,
  };
}

function sendRefusal(reply: FastifyReply, refusal: Refusal): void {
  sendJson(reply.raw, refusal.httpStatus, refusalBody(refusal));
}
