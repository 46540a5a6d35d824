/** One request of a modern client to a modern server that the gateway speaks to itself: what it sends, and the reply. */
import { sleep, type Clock } from '../lib/clock.ts';
import { inBackground } from '../lib/background.ts';
import { CALL_CANCELLED, failedCallReply } from '../model/failures.ts';
import type { ModernServer } from '../model/modern-server.ts';
import { traceOf, type CallReply, type EdgeRequest, type Waiter } from '../model/request.ts';
import type { UpstreamFailure } from '../model/upstream-failure.ts';
import { failureOfCall, failureOfRequest } from '../model/upstream-failures.ts';
import type { Log } from '../ops/log.ts';
import { loggedTarget, mcpOperation, withContext, type Attributes } from '../ops/tracing.ts';
import { objectMember, type JsonObject } from '../protocol/json.ts';
import { ErrorCode, isModernError, type JsonRpcReply } from '../protocol/json-rpc.ts';
import { MODERN_REVISION } from '../protocol/meta.ts';

export interface ExchangeOptions {
  readonly route: string;
  readonly server: ModernServer;
  /** What spans say of the server. */
  readonly peer: Attributes;
  readonly clock: Clock;
  readonly log: Log;
  /** `null` for a request that ends when the client or the server wants it to. */
  readonly timeoutMs: number | null;
  /** Whether the server may act on the request, so that its client is told whether it can have. */
  readonly isCall: boolean;
}

/** Sends a request as its client sent it, and returns the reply as the server sent it. Never rejects. */
export async function exchange(
  options: ExchangeOptions,
  request: EdgeRequest,
  waiter: Waiter,
): Promise<CallReply> {
  const { route, peer, clock, log, isCall } = options;
  const { method, params } = request;
  const operation = { ...peer, 'mcp.protocol.version': MODERN_REVISION };
  const span = request.span?.child(
    mcpOperation('client', method, loggedTarget(method, params), operation),
  );
  const startedAtMs = clock.elapsed();
  let errorType: string | null = '_OTHER';
  let hasBegun = request.requestState !== null;
  try {
    const _meta = { ...withContext(objectMember(params, '_meta') ?? {}, span) };
    const told = { ...request, params: { ...params, _meta } };
    const outcome = await send(options, told, waiter, () => (hasBegun = true));
    if (outcome === 'left') return { kind: 'failed', failure: CALL_CANCELLED };
    if ('result' in outcome) {
      errorType = null;
      return { kind: 'result', result: outcome.result };
    }
    if ('error' in outcome) {
      const { error } = outcome;
      errorType = String(error.code);
      return { kind: 'failed', failure: { error, httpStatus: statusOf(error.code) } };
    }
    const { code, message: problem } = outcome.failed;
    log.event('upstream.failed', {
      ...{ route, call: null, method, code, problem },
      ...traceOf(request),
    });
    if (!isCall) return { kind: 'failed', failure: failureOfRequest(outcome.failed) };
    const failure = failureOfCall(outcome.failed, hasBegun);
    return hasBegun ? failedCallReply(method, failure, null) : { kind: 'failed', failure };
  } finally {
    span?.end(errorType);
    const ms = Math.round(clock.elapsed() - startedAtMs);
    log.event('upstream.replied', { route, method, errorType, ms, ...traceOf(request) });
  }
}

type Outcome = JsonRpcReply | { readonly failed: UpstreamFailure } | 'left';

/** @param onNotified called when the server has said something about the request */
function send(
  { server, timeoutMs }: ExchangeOptions,
  { method, params }: EdgeRequest,
  waiter: Waiter,
  onNotified: () => void,
): Promise<Outcome> {
  const { closed } = waiter;
  if (closed.aborted) return Promise.resolve('left');
  const { promise, resolve } = Promise.withResolvers<Outcome>();
  let isPaused = false;
  const keepPace = () => {
    const { backlog } = waiter;
    if (backlog === null || isPaused) return;
    isPaused = true;
    sent.pause();
    const goOn = () => {
      isPaused = false;
      sent.resume();
    };
    inBackground(backlog.then(goOn));
  };
  const sent = server.send(
    { method, params, headers: {}, timeoutMs },
    {
      notified: (about, told) => {
        onNotified();
        waiter.notify(about, told);
        keepPace();
      },
      replied: resolve,
      failed: (failed) => resolve({ failed }),
    },
  );
  const leave = () => {
    sent.cancel();
    resolve('left');
  };
  closed.addEventListener('abort', leave);
  return promise.finally(() => closed.removeEventListener('abort', leave));
}

/** The status of an error of the server, if no byte of the response has been sent (streamable-http, "Server Validation"). */
function statusOf(code: number): number {
  if (code === ErrorCode.methodNotFound) return 404;
  return isModernError(code) ? 400 : 200;
}

/** Returns a reply that comes in time, and what is known otherwise. The request goes on. */
export function within(
  clock: Clock,
  waitMs: number,
  reply: Promise<CallReply>,
  known: JsonObject,
): Promise<CallReply> {
  const late = sleep(clock, waitMs).then(() => ({ kind: 'result', result: known }) as const);
  return Promise.race([reply, late]);
}
