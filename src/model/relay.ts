/**
 * The interface of the relay: how a request reaches the replica that can serve it. Most are retries, and the code speaks
 * of those. New calls, lists and requests about tasks go the same way.
 */
import type { Log } from '../ops/log.ts';
import type { CallId } from '../protocol/ids.ts';
import type { JsonObject } from '../protocol/json.ts';
import type { PointerOwner } from '../seal/pointer.ts';
import { tooLargeToRelay } from './failures.ts';
import { EMPTY_PROFILE } from '../protocol/translate/client-profile.ts';
import { traceOf, type CallReply, type EdgeRequest, type Waiter } from './request.ts';

/**
 * The outcome of a relayed retry.
 * - `replied`: the owner replied
 * - `unknown`: the owner is alive, and does not have the call
 * - `gone`: the owner is dead, as far as can be seen: its port is closed, another process has its address, it has none, or
 *   requests to it failed for ten seconds
 * - `silent`: the owner sent no heartbeat or nothing valid, or its connection broke; it may still be alive
 * - `unreachable`: Redis takes no messages, or there is no relay, which says nothing about the owner
 * - `left`: the client of this replica left, and the owner was told
 * - `released`: this replica stops and releases the request, and the owner continues the call
 */
export type RelayOutcome =
  | { readonly type: 'replied'; readonly reply: CallReply }
  | {
      /** Whether the owner may have carried out the request. */
      readonly isConfirmed?: boolean;
      readonly type: 'unknown' | 'gone' | 'silent' | 'unreachable' | 'left' | 'released';
      readonly problem: string;
    };

/** What a hop is counted as: an outcome, or `failed` for a defect. */
export const HOP_OUTCOMES = [
  'replied',
  'left',
  'unknown',
  'gone',
  'silent',
  'unreachable',
  'released',
  'failed',
] as const satisfies readonly (RelayOutcome['type'] | 'failed')[];
export type HopOutcome = (typeof HOP_OUTCOMES)[number];

export const CLIENT_LEFT: RelayOutcome = { type: 'left', problem: 'the client disconnected' };

/** The owner takes no request of this length. The client is told, as a retry would end the same way. */
export function tooLarge(request: EdgeRequest): RelayOutcome {
  return { type: 'replied', reply: { kind: 'failed', failure: tooLargeToRelay(request) } };
}

/** A relayed retry that this process can serve. It has no effect before `begin`. */
export interface RelayedHandle {
  /**
   * Carries out the retry. The reply can take as long as the call.
   * @returns `null` if the call is no longer here
   */
  begin(): Promise<CallReply> | null;
  /** Replies with a `requestState` alone, if the state of the call allows it, so that the client retries. */
  sendClientBack(): void;
}

/**
 * Serves a retry, or a new call, that reached another replica. Resolves to `null` if the route is not here, or the call
 * or the home of the caller.
 */
export type ServeRelayed = (
  route: string,
  request: EdgeRequest,
  waiter: Waiter,
) => Promise<RelayedHandle | null>;

export interface Relay {
  /**
   * Relays a retry to the owner of its call, or a new call to the replica that has its caller's home. Never throws. If the
   * waiter closes, tells the owner that the client left. The owner carries nothing out for a retry that was given up here.
   */
  relay(owner: PointerOwner, request: EdgeRequest, waiter: Waiter): Promise<RelayOutcome>;
  /** Tells the clients of relayed retries to retry, since this replica stops. Holds for later ones as well. */
  sendClientsBack(): void;
}

/** A request that was relayed, for the log. */
export interface RelayAttempt {
  readonly route: string;
  /** The call that it continues; `null` for any other request. */
  readonly call: CallId | null;
  readonly request: EdgeRequest;
  readonly owner: PointerOwner;
}

/** Logs a relay that failed. A reply is not a failure, nor is a client that left. */
export function logRelayFailure(
  log: Log,
  { route, call, request, owner }: RelayAttempt,
  outcome: RelayOutcome,
): void {
  if (outcome.type === 'replied' || outcome.type === 'left') return;
  const { type: state, problem } = outcome;
  log.event('relay.failed', { route, call, ...traceOf(request), owner: owner.id, state, problem });
}

/** Builds a request of no client, for another process of the gateway. @param method none of MCP: nobody's principal has its name as a key */
export function requestOfGateway(method: string, params: JsonObject): EdgeRequest {
  return {
    method,
    params,
    forwardedMeta: {},
    profile: EMPTY_PROFILE,
    clientInfo: null,
    logLevel: null,
    progressToken: null,
    inputResponses: null,
    requestState: null,
    caller: {
      kind: 'anonymous',
      principal: null,
      principalKey: method,
      credentialsKey: '',
      conversation: null,
      headers: {},
    },
  };
}
