/** The relay, with a span for each hop. */
import type { Relay, ServeRelayedRetry } from '../model/relay.ts';
import type { Tracer } from '../ops/tracing.ts';

const HOP = 'mrtr_gateway.relay';

/** Observes what is relayed from a route to other replicas. */
export function observeRelay(route: string, relay: Relay | null): Relay | null {
  if (relay === null) return null;
  return {
    relay: async (owner, request, leg) => {
      const attributes = { 'mrtr_gateway.route': route, 'mrtr_gateway.replica': owner.id };
      const span = request.span?.child({ kind: 'client', name: HOP, attributes });
      const outcome = await relay.relay(owner, span ? { ...request, span } : request, leg);
      span?.end(outcome.type === 'replied' || outcome.type === 'left' ? null : outcome.type);
      return outcome;
    },
    release: () => relay.release(),
  };
}

/** Observes what other replicas relay to this one. */
export function observeRelayed(serve: ServeRelayedRetry, tracer: Tracer | null): ServeRelayedRetry {
  if (tracer === null) return serve;
  return async (route, { hop, ...request }, leg) => {
    if (hop === undefined) return serve(route, request, leg);
    const attributes = { 'mrtr_gateway.route': route };
    const span = tracer.start({ kind: 'server', name: HOP, attributes, parent: hop });
    const handle = await serve(route, { ...request, span }, leg);
    if (handle === null) {
      span.end('unknown');
      return null;
    }
    return {
      begin: () => handle.begin()?.finally(() => span.end(null)) ?? null,
      sendClientBack: () => handle.sendClientBack(),
    };
  };
}
