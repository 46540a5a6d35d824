/** The replica that owns a call or a home: relays requests to it, and finds out whether it lives. */
import { sleep, type Clock } from '../lib/clock.ts';
import type { Directory } from '../model/directory.ts';
import { logRelayFailure, type Relay, type RelayOutcome } from '../model/relay.ts';
import { traceOf, type EdgeRequest, type Leg } from '../model/request.ts';
import type { CallId } from '../protocol/ids.ts';
import type { PointerOwner } from '../seal/pointer.ts';
import type { CallServices } from './call/data.ts';
import { LossyLeg } from './notifications.ts';

/** A request as a replica relays it. */
export interface Relayed {
  readonly request: EdgeRequest;
  readonly leg: Leg;
  /** The call, for the log; `null` for a new one. */
  readonly call: CallId | null;
}

/** Relays a request. A reply is not logged, nor a client that left. Never throws. */
export async function relayRequest(
  { log, routeId: route }: CallServices,
  relay: Relay,
  owner: PointerOwner,
  { request, leg, call }: Relayed,
): Promise<RelayOutcome> {
  // Messages through Redis share one list, so no client may hold them up.
  const lossy = new LossyLeg(leg, request.logLevel);
  const outcome = await relay.relay(owner, request, lossy);
  const loss = lossy.end();
  if (loss !== null) log.event('call.thinned', { route, call, ...traceOf(request), ...loss });
  logRelayFailure(log, { route, call, request, owner }, outcome);
  return outcome;
}

/** A live replica has renewed its lease within this time. */
const RENEWED_WITHIN_MS = 2_000;
const LOOK_EVERY_MS = 250;

/**
 * Decides whether the owner may have the call, although it did not reply.
 * @param relayed the outcome of the request to the owner; `null` if there was none
 * @param boot the boot id of this process
 * @throws DirectoryUnavailable
 */
export async function mayOwnerLive(
  owner: PointerOwner,
  relayed: RelayOutcome | null,
  boot: string,
  directory: Directory | null,
  clock: Clock,
): Promise<boolean> {
  if (owner.boot === boot || relayed?.type === 'unknown') return false;
  if (directory === null) return relayed?.type === 'silent';
  if (relayed?.type === 'gone') return renewsItsLease(owner.boot, directory, clock);
  return directory.isAlive(owner.boot);
}

/**
 * A process whose port is closed is dead although its lease has not expired, unless it renews the lease:
 * then only its address is wrong.
 */
async function renewsItsLease(boot: string, directory: Directory, clock: Clock): Promise<boolean> {
  let previousMs = 0;
  for (;;) {
    const agoMs = await directory.renewedAgoMs(boot);
    if (agoMs === null || agoMs > RENEWED_WITHIN_MS) return false;
    if (agoMs < previousMs) return true;
    previousMs = agoMs;
    await sleep(clock, LOOK_EVERY_MS);
  }
}
