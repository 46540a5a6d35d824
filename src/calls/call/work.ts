/**
 * What the server does for the legs that wait, as a span: from the request, or from the answers of a retry, until the reply to
 * the legs. The time that people take is in no span.
 */
import { mcpOperation, type Span } from '../../ops/tracing.ts';
import { isAttached } from '../machine/selectors.ts';
import type { CallEnd } from '../machine/states.ts';
import type { CallData } from './data.ts';

/** Starts the span of what the server does now, unless it has begun. @returns `null` without traces */
export function beginWork(call: CallData): Span | null {
  const { request, method, loggedTarget, services, lease } = call;
  if (call.work !== null || request.span === undefined) return call.work;
  const revision = lease?.session.initializeResult.protocolVersion;
  call.work = request.span.child(
    mcpOperation('client', method, loggedTarget, {
      ...services.peer,
      ...(revision !== undefined && { 'mcp.protocol.version': revision }),
      'mrtr_gateway.call.id': call.id,
    }),
  );
  return call.work;
}

/** Ends the span if no leg waits any more. */
export function endWork(call: CallData): void {
  const { work, state } = call;
  if (work === null || isAttached(state)) return;
  call.work = null;
  work.set({ 'mrtr_gateway.round': state.round });
  if (state.name === 'settled') work.end(errorTypeOf({ type: 'outcome', outcome: state.outcome }));
  else if (state.name === 'done' || state.name === 'cancelling') work.end(errorTypeOf(state.end));
  else work.end(null);
}

/** Says in one word how a call ended, for the log and the metrics. */
export function endName(end: CallEnd): string {
  if (end.type === 'outcome') return end.outcome.kind;
  if (end.type !== 'refused') return end.type;
  if (end.reason === 'timeout') return end.reason;
  // No other process can go on with a call that a drain cancelled.
  return end.reason === 'draining' ? 'lost' : end.type;
}

/** Says in one word how a call failed. @returns `null` if it did not */
export function errorTypeOf(end: CallEnd): string | null {
  if (end.type === 'outcome') {
    const { outcome } = end;
    if (outcome.kind === 'failed') return String(outcome.failure.error.code);
    return outcome.result['isError'] === true ? 'tool_error' : null;
  }
  return end.type === 'declined' || end.type === 'left' ? null : endName(end);
}
