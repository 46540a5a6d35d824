/** Relays a request of a client to another replica, and logs what became of it. */
import type { Relay, RelayOutcome } from '../model/relay.ts';
import type { EdgeRequest, Leg } from '../model/request.ts';
import type { CallId } from '../protocol/ids.ts';
import type { PointerOwner } from '../seal/pointer.ts';
import type { CallRoute } from './call/data.ts';
import { LossyLeg } from './notifications.ts';

/** A request as a replica relays it. */
export interface Relayed {
  readonly request: EdgeRequest;
  readonly leg: Leg;
  /** The call, for the log; `null` for a new one. */
  readonly call: CallId | null;
}

/** Relays a request. A reply is not logged. Never throws. */
export async function relayRequest(
  { log, route }: CallRoute,
  relay: Relay,
  to: PointerOwner,
  { request, leg, call }: Relayed,
): Promise<RelayOutcome> {
  // Messages through Redis share one list, so no client may hold them up.
  const lossy = new LossyLeg(leg, request.logLevel);
  const outcome = await relay.relay(to, request, lossy);
  const loss = lossy.end();
  if (loss !== null) log.event('call.thinned', { route, call, ...loss });
  if (outcome.type !== 'replied') {
    const { type: state, problem } = outcome;
    log.event('relay.failed', { route, call, owner: to.id, state, problem });
  }
  return outcome;
}
