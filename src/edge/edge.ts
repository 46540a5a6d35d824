/**
 * The modern side over HTTP: one handler for each route's POST. It checks the request and hands calls to
 * the bridge, and everything legacy to the pass-through.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Clock } from '../lib/clock.ts';
import { callFailure } from '../model/call-failure.ts';
import type { CallAnswer, Caller, EdgeRequest, Leg } from '../model/request.ts';
import type { OpenAnswers } from '../lib/open-responses.ts';
import type { Log } from '../ops/log.ts';
import type { ClientRequestId } from '../protocol/ids.ts';
import { ErrorCode } from '../protocol/json-rpc.ts';
import type { JsonObject } from '../protocol/json/json.ts';
import type { ListenLeg } from '../subscriptions/subscriptions.ts';
import { AnswerWriter, sendJson, type Answered } from './response-writer.ts';
import {
  readModernRequest,
  type RequestPolicy,
  type ModernRequest,
} from './request/modern-request.ts';
import { methodGate, serviceOf } from './request/methods.ts';
import { refuse, UNKNOWN_CALLER } from './http/refuse.ts';
import { rejectionBody, type Rejection } from './http/rejection.ts';

/** What the edge asks of the rest of the gateway, for one route. */
export interface EdgeRoute {
  readonly id: string;
  readonly path: string;
  /** Whether the server behind it is modern itself: then nothing is translated. Never rejects. */
  readonly isModern: (caller: Caller) => Promise<boolean>;
  /** `null` when nobody says who calls, and somebody must. */
  readonly identify: (request: FastifyRequest) => Caller | null;
  readonly capabilities: (request: EdgeRequest) => JsonObject | null;
  /** What the headers say against the tool's arguments, or `null`; never rejects. */
  readonly parameterHeaders: (
    request: EdgeRequest,
    rawHeaders: readonly string[],
  ) => Promise<string | null>;
  readonly discover: (request: EdgeRequest) => Promise<CallAnswer>;
  readonly forward: (request: EdgeRequest, closed: AbortSignal) => Promise<CallAnswer>;
  readonly call: (request: EdgeRequest, leg: Leg) => Promise<CallAnswer>;
  /** Serves a listener for as long as it listens. */
  readonly listen: (
    request: EdgeRequest,
    id: ClientRequestId,
    leg: ListenLeg,
  ) => Promise<CallAnswer>;
  /** Hands a request whose body was read to the pass-through. */
  readonly passThrough: (request: FastifyRequest, reply: FastifyReply) => Promise<void>;
}

export interface EdgeOptions {
  readonly policy: RequestPolicy;
  readonly commitAfterMs: number;
  readonly keepAliveMs: number;
  /** A client for whom more bytes wait is behind; a listener that is behind is cut. */
  readonly maxBufferedBytes: number;
  readonly openAnswers: OpenAnswers;
  readonly clock: Clock;
  readonly log: Log;
  readonly observe: (route: string, method: string, answered: Answered, ms: number) => void;
}

/** Serves modern clients on the route's path. */
export function serveRoute(app: FastifyInstance, route: EdgeRoute, options: EdgeOptions): void {
  // Every body is read as bytes: what is legacy goes on exactly as it came.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
  app.post(route.path, async (request, reply) => {
    // Found out before the body is looked at, so that strangers learn nothing.
    const caller = route.identify(request);
    if (caller === null) return refuse(reply, 401, UNKNOWN_CALLER);
    if (await route.isModern(caller)) return route.passThrough(request, reply);
    const bytes = request.body instanceof Buffer ? request.body : Buffer.alloc(0);
    const read = readModernRequest(request.raw, bytes, options.policy);
    switch (read.type) {
      case 'legacy':
        return route.passThrough(request, reply);
      case 'rejected':
        reply.hijack();
        return reject(reply, read.rejection);
      case 'notification':
        // This revision defines no client notification over HTTP; whatever comes is taken and ignored.
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
  if (gate !== null) return reject(reply, { ...gate, id: modern.id });
  const mismatch = await route.parameterHeaders(edgeRequest, reply.request.raw.rawHeaders);
  if (mismatch !== null) {
    const error = { code: ErrorCode.headerMismatch, message: `Header mismatch: ${mismatch}` };
    return reject(reply, { httpStatus: 400, id: modern.id, error });
  }
  const listens = serviceOf(modern.method) === 'listen';
  if (listens && modern.accepts === 'json') return reject(reply, { ...NO_STREAM, id: modern.id });
  // While it was looked at, the client may have gone; the response tells of that only once.
  if (reply.raw.destroyed) return;
  options.openAnswers.add(reply.raw);
  const writer = new AnswerWriter(reply.raw, {
    id: modern.id,
    commitAfterMs: options.commitAfterMs,
    keepAliveMs: options.keepAliveMs,
    jsonOnly: modern.accepts === 'json',
    maxBufferedBytes: options.maxBufferedBytes,
    cutWhenBehind: listens,
    clock: options.clock,
  });
  const answer = await outcomeOf(edgeRequest, modern.id, writer, route, options);
  if (writer.closed.aborted) return;
  const answered = writer.finish(answer);
  options.observe(route.id, modern.method, answered, options.clock.now() - startedAtMs);
}

/** What is listened for comes as a stream or not at all. */
const NO_STREAM = {
  httpStatus: 406,
  error: { code: ErrorCode.invalidRequest, message: 'Accept must list text/event-stream' },
};

async function outcomeOf(
  request: EdgeRequest,
  id: ClientRequestId,
  leg: ListenLeg,
  route: EdgeRoute,
  { log }: EdgeOptions,
): Promise<CallAnswer> {
  try {
    switch (serviceOf(request.method)) {
      case 'discover':
        return await route.discover(request);
      case 'interactive':
        return await route.call(request, leg);
      case 'listen':
        return await route.listen(request, id, leg);
      default:
        return await route.forward(request, leg.closed);
    }
  } catch (error) {
    // A defect of ours: the client gets an answer all the same, and the operator a line.
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

function reject(reply: FastifyReply, rejection: Rejection): void {
  sendJson(reply.raw, rejection.httpStatus, rejectionBody(rejection), rejection.headers);
}
