/**
 * Requests that ask nothing are served where their caller has its home, in one hop: what a server lists can depend on what it
 * keeps in that session. Since they have no effects, another session serves them if that replica does not respond.
 */
import type { Closed } from '../lib/clock.ts';
import { DirectoryUnavailable } from '../model/directory.ts';
import { CALL_CANCELLED } from '../model/failures.ts';
import { logRelayFailure, type Relay } from '../model/relay.ts';
import { legWithoutNotifications, type CallReply, type EdgeRequest } from '../model/request.ts';
import type { Log } from '../ops/log.ts';
import { sessionOwnerOf } from '../sessions/session-owner.ts';
import type { SessionPool } from '../sessions/session-pool.ts';

export interface ForwardHomeOptions {
  readonly route: string;
  readonly pool: SessionPool;
  /** `null` if replicas do not reach each other. */
  readonly relay: Relay | null;
  readonly log: Log;
  /** Serves a request in this process. Never rejects. */
  readonly forward: (request: EdgeRequest, closed: Closed) => Promise<CallReply>;
}

/** Serves a request at the home of its caller. Never rejects because of the upstream or another replica. */
export async function forwardHome(
  { route, pool, relay, log, forward }: ForwardHomeOptions,
  request: EdgeRequest,
  closed: Closed,
): Promise<CallReply> {
  const holder =
    relay === null ? null : await pool.holderOf(sessionOwnerOf(request))?.catch(ifAway);
  if (relay === null || holder === null || holder === undefined) return forward(request, closed);
  const outcome = await relay.relay(holder, request, legWithoutNotifications(closed));
  if (outcome.type === 'replied') return outcome.reply;
  logRelayFailure(log, { route, call: null, request, owner: holder }, outcome);
  return closed.aborted ? { kind: 'failed', failure: CALL_CANCELLED } : forward(request, closed);
}

/** While the store is away, any session serves a list. */
function ifAway(error: unknown): null {
  if (error instanceof DirectoryUnavailable) return null;
  throw error;
}
