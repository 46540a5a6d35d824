/** The relay, with a span and a line in the log for each hop. */
import type { Clock } from '../lib/clock.ts';
import type { HopOutcome, Relay, RelayedHandle, ServeRelayed } from '../model/relay.ts';
import { traceOf } from '../model/request.ts';
import type { Log } from '../ops/log.ts';
import type { Span, Tracer } from '../ops/tracing.ts';

const HOP = 'mrtr_gateway.relay';

/** Observes what is relayed from a route to other replicas. */
export function observeRelay(
  route: string,
  relay: Relay | null,
  clock: Clock,
  log: Log,
): Relay | null {
  if (relay === null) return null;
  return {
    relay: async (owner, request, waiter) => {
      const attributes = { 'mrtr_gateway.route': route, 'mrtr_gateway.replica': owner.id };
      const span = request.span?.child({ kind: 'client', name: HOP, attributes });
      const startedAtMs = clock.elapsed();
      let outcome: HopOutcome = 'failed';
      try {
        const relayed = await relay.relay(owner, span ? { ...request, span } : request, waiter);
        outcome = relayed.type;
        return relayed;
      } finally {
        span?.end(outcome === 'replied' || outcome === 'left' ? null : outcome);
        const ms = Math.round(clock.elapsed() - startedAtMs);
        log.event('relay.hop', { route, replica: owner.id, outcome, ms, ...traceOf(request) });
      }
    },
    sendClientsBack: () => relay.sendClientsBack(),
  };
}

/** Observes what other replicas relay to this one. */
export function observeRelayed(serve: ServeRelayed, tracer: Tracer | null): ServeRelayed {
  if (tracer === null) return serve;
  return async (route, { hop, ...request }, waiter) => {
    if (hop === undefined) return serve(route, request, waiter);
    const attributes = { 'mrtr_gateway.route': route };
    const span = tracer.start({ kind: 'server', name: HOP, attributes, parent: hop });
    // Before the retry begins, and instead of it, the client can leave.
    waiter.closed.addEventListener('abort', () => span.end('left'));
    let handle: RelayedHandle | null;
    try {
      handle = await serve(route, { ...request, span }, waiter);
    } catch (error) {
      span.end('failed');
      throw error;
    }
    if (handle === null) span.end('unknown');
    return handle && observeHandle(handle, span);
  };
}

function observeHandle(handle: RelayedHandle, span: Span): RelayedHandle {
  return {
    begin: () => {
      const reply = handle.begin();
      if (reply === null) span.end('gone');
      return reply?.finally(() => span.end(null)) ?? null;
    },
    sendClientBack: () => handle.sendClientBack(),
  };
}
