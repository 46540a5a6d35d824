/**
 * Calls at another replica, which owns the call or has the home of its caller: requests are relayed to it, and it is found out
 * whether it lives.
 */
import { sleep, type Clock } from '../lib/clock.ts';
import { DirectoryUnavailable, type Directory } from '../model/store.ts';
import { CALL_CANCELLED, callLost, HOME_UNREACHABLE, STOPPING } from '../model/failures.ts';
import { type Relay, type RelayOutcome, logRelayFailure } from '../model/relay.ts';
import { traceOf, type CallReply, type EdgeRequest, type Waiter } from '../model/request.ts';
import type { PointerOwner } from '../seal/pointer.ts';
import { sessionOwnerOf } from '../sessions/session-owner.ts';
import type { CallServices } from './call/data.ts';
import { failed } from './call/replies.ts';
import type { CallId } from '../protocol/ids.ts';
import { LossyWaiter } from './notifications.ts';

/** A request as a replica relays it. */
interface Relayed {
  readonly request: EdgeRequest;
  readonly waiter: Waiter;
  /** The call, for the log; `null` for a new one. */
  readonly call: CallId | null;
}

/** Relays a request. A reply is not logged, nor a client that left. Never throws. */
export async function relayRequest(
  { log, routeId: route }: CallServices,
  relay: Relay,
  owner: PointerOwner,
  { request, waiter, call }: Relayed,
): Promise<RelayOutcome> {
  // Messages through Redis share one list, so no client may hold them up.
  const lossy = new LossyWaiter(waiter, request.logLevel);
  const outcome = await relay.relay(owner, request, lossy);
  const loss = lossy.end();
  if (loss !== null)
    log.event('notifications.dropped', { route, call, ...traceOf(request), ...loss });
  logRelayFailure(log, { route, call, request, owner }, outcome);
  return outcome;
}

/** A live replica has renewed its lease within this time. */
const RENEWED_WITHIN_MS = 2_000;
const LOOK_EVERY_MS = 250;

/**
 * Decides whether the owner may have the call, although it did not reply.
 * @param relayed the outcome of the request to the owner; `null` if there was none
 * @param instance the instance id of this process
 * @throws DirectoryUnavailable
 */
export async function mayOwnerLive(
  owner: PointerOwner,
  relayed: RelayOutcome | null,
  instance: string,
  directory: Directory | null,
  clock: Clock,
): Promise<boolean> {
  if (owner.instance === instance || relayed?.type === 'unknown') return false;
  if (directory === null) return relayed?.type === 'silent';
  if (relayed?.type === 'gone') return renewsItsLease(owner.instance, directory, clock);
  return directory.isAlive(owner.instance);
}

/**
 * A process whose port is closed is dead although its lease has not expired, unless it renews the lease:
 * then only its address is wrong.
 */
async function renewsItsLease(
  instance: string,
  directory: Directory,
  clock: Clock,
): Promise<boolean> {
  const untilMs = clock.elapsed() + RENEWED_WITHIN_MS;
  for (let previousMs = 0; ; await sleep(clock, LOOK_EVERY_MS)) {
    const agoMs = await directory.renewedAgoMs(instance);
    if (agoMs === null || agoMs > RENEWED_WITHIN_MS) return false;
    if (agoMs < previousMs) return true;
    // By the clock of this process: that of the store can be set back.
    if (clock.elapsed() > untilMs) return false;
    previousMs = agoMs;
  }
}

/** How long a request waits for a home to be free whose holder has ended or stops, in ms: longer than a replica lease. */
const TAKEOVER_MS = 8_000;
const RETRY_AFTER_MS = 250;

/** How a request is served at the process that has a home. */
export interface AtHolder {
  /** Claims the home, unless another process has it. @param isLast whether the time is over */
  readonly find: (isLast: boolean) => Promise<PointerOwner | null>;
  /** @returns `null` if the holder does not serve it */
  readonly relay: (holder: PointerOwner) => Promise<CallReply | null>;
  readonly tooLate: (holder: PointerOwner) => CallReply;
  /** Whether it is worth while to wait for a holder that has ended. */
  readonly mayWait: boolean;
}

/**
 * Serves a request where a home is. While the holder does not serve it, the request waits for the home: the lease of a process ends
 * soon after it. A holder that has changed is asked at once.
 * @returns `null` if the home is here
 */
export async function serveAtHolder(
  clock: Clock,
  waiter: Waiter,
  { find, relay, tooLate, mayWait }: AtHolder,
): Promise<CallReply | null> {
  const untilMs = clock.elapsed() + TAKEOVER_MS;
  for (let refusedBy: string | null = null; ;) {
    const isLast = !mayWait || clock.elapsed() + RETRY_AFTER_MS >= untilMs;
    const holder = await find(isLast);
    if (holder === null) return null;
    if (holder.instance === refusedBy) await sleep(clock, RETRY_AFTER_MS, waiter.closed);
    refusedBy = holder.instance;
    const reply = await relay(holder);
    if (reply !== null) return reply;
    if (waiter.closed.aborted) return failed(CALL_CANCELLED);
    if (isLast) return tooLate(holder);
  }
}

/**
 * Serves a new call at the replica where its caller has its home, in one hop. A call that may have begun elsewhere is not
 * made again.
 * @param found who has the home, as far as is remembered; `null` for this process
 * @returns `null` if the call is to be made here
 */
export function serveAtHome(
  services: CallServices,
  found: Promise<PointerOwner | null>,
  request: EdgeRequest,
  waiter: Waiter,
): Promise<CallReply | null> {
  const { clock, pool, relay, log, routeId: route } = services;
  let next: typeof found | null = found;
  return serveAtHolder(clock, waiter, {
    find: async () => {
      const holder = next ?? pool.holderOf(sessionOwnerOf(request));
      next = null;
      try {
        return await holder;
      } catch (error) {
        if (!(error instanceof DirectoryUnavailable)) throw error;
        // While the store is unreachable, a call without a known home is made here: its caller may miss what the server keeps.
        log.event('session.home_unknown', { route, problem: error.message });
        return null;
      }
    },
    relay: async (holder) => {
      if (relay === null) return null;
      const relayed = { request, waiter, call: null };
      const outcome = await relayRequest(services, relay, holder, relayed);
      if (outcome.type === 'replied') {
        log.event('call.relayed', { route, holder: holder.id, ...traceOf(request) });
        return outcome.reply;
      }
      if (outcome.type === 'left' || waiter.closed.aborted) return failed(CALL_CANCELLED);
      if (outcome.isConfirmed === true && outcome.type !== 'unknown') {
        return failed(callLost(false));
      }
      return outcome.type === 'released' ? failed(STOPPING) : null;
    },
    tooLate: () => failed(HOME_UNREACHABLE),
    mayWait: true,
  });
}
