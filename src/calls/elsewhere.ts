/**
 * Serves new calls at the replica where their caller has its home, in one hop. A call that may have begun elsewhere is not
 * made again.
 */
import { sleep } from '../lib/clock.ts';
import { DirectoryUnavailable } from '../model/directory.ts';
import { CALL_CANCELLED, callLost, HOME_UNREACHABLE, STOPPING } from '../model/failures.ts';
import type { Relay, RelayOutcome } from '../model/relay.ts';
import { traceOf, type CallReply, type EdgeRequest, type Leg } from '../model/request.ts';
import type { PointerOwner } from '../seal/pointer.ts';
import { sessionOwnerOf } from '../sessions/session-owner.ts';
import type { CallServices } from './call/data.ts';
import { failed } from './call/replies.ts';
import { relayRequest } from './owner-replica.ts';

/** How long a call waits for a home to be free whose holder has ended or stops, in ms: longer than a replica lease. */
const TAKEOVER_MS = 8_000;
const RETRY_AFTER_MS = 250;

export class CallsElsewhere {
  readonly #services: CallServices;
  readonly #relay: Relay | null;

  /** @param relay `null` if replicas do not reach each other */
  constructor(services: CallServices, relay: Relay | null) {
    this.#services = services;
    this.#relay = relay;
  }

  /**
   * Serves a new call where the home is.
   * @param found who has the home; `null` for this process
   * @returns `null` if the call is to be made here
   */
  async serve(
    found: Promise<PointerOwner | null>,
    request: EdgeRequest,
    leg: Leg,
  ): Promise<CallReply | null> {
    const { clock, pool } = this.#services;
    const untilMs = clock.elapsed() + TAKEOVER_MS;
    let holder = await this.#unlessUnavailable(found);
    while (holder !== null) {
      const outcome = await this.#relayTo(holder, request, leg);
      if (outcome.type === 'replied') return outcome.reply;
      if (outcome.type === 'left' || leg.closed.aborted) return failed(CALL_CANCELLED);
      if (outcome.isConfirmed === true && outcome.type !== 'unknown') {
        return failed(callLost(false));
      }
      if (outcome.type === 'released') return failed(STOPPING);
      if (clock.elapsed() >= untilMs) return failed(HOME_UNREACHABLE);
      await sleep(clock, RETRY_AFTER_MS);
      const next = pool.holderOf(sessionOwnerOf(request));
      holder = next === null ? null : await this.#unlessUnavailable(next);
    }
    return null;
  }

  async #relayTo(holder: PointerOwner, request: EdgeRequest, leg: Leg): Promise<RelayOutcome> {
    if (this.#relay === null) return { type: 'unreachable', problem: 'there is no relay' };
    const relayed = { request, leg, call: null };
    const outcome = await relayRequest(this.#services, this.#relay, holder, relayed);
    const { log, routeId: route } = this.#services;
    if (outcome.type === 'replied') {
      log.event('call.relayed', { route, holder: holder.id, ...traceOf(request) });
    }
    return outcome;
  }

  /** While the store is away, a call without a known home is made here: its caller may miss what the server keeps. */
  async #unlessUnavailable(found: Promise<PointerOwner | null>): Promise<PointerOwner | null> {
    try {
      return await found;
    } catch (error) {
      if (!(error instanceof DirectoryUnavailable)) throw error;
      const { log, routeId: route } = this.#services;
      log.event('session.home_unknown', { route, problem: error.message });
      return null;
    }
  }
}
