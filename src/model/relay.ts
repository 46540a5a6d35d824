/** How a retry reaches the replica that holds its call, as the bridge sees it. */
import type { PointerOwner } from '../seal/pointer.ts';
import type { CallAnswer, EdgeRequest, Leg } from './request.ts';

/**
 * - `answered`: by the owner; there is nothing more to do
 * - `unknown`: the owner lives, and does not have the call
 * - `gone`: the owner is not there any more, as far as the way to it shows
 * - `silent`: the owner says nothing, and may live all the same
 * - `unreachable`: the way to it failed, which says nothing of the owner
 * - `left`: our own client has gone, and the owner was told so
 * - `released`: this replica stops, and the owner goes on with the call
 */
export type Relayed =
  | { readonly type: 'answered'; readonly answer: CallAnswer }
  | {
      readonly type: 'unknown' | 'gone' | 'silent' | 'unreachable' | 'left' | 'released';
      readonly problem: string;
    };

export const CLIENT_LEFT: Relayed = { type: 'left', problem: 'the client has gone' };

/** A retry that can be served here, and of which nothing is carried out before it begins. */
export interface Served {
  /**
   * Carries the retry out. The answer may take as long as the call does; `null` when the call is not here
   * any more.
   */
  begin(): Promise<CallAnswer> | null;
  /** Answers with state alone, if the call is in a state to do so, so that the client comes again. */
  letClientCome(): void;
}

/** Serves a retry that landed on another replica; `null` when the route or the call is not here. */
export type RelayedRetry = (
  route: string,
  request: EdgeRequest,
  leg: Leg,
) => Promise<Served | null>;

export interface Relay {
  /**
   * Never throws. When the leg closes, the owner is left as the client left us. The owner carries nothing
   * out for a retry that was given up here.
   */
  relay(owner: PointerOwner, request: EdgeRequest, leg: Leg): Promise<Relayed>;
  /** This replica stops: the clients of relayed retries are told to come again, from now on all of them. */
  release(): void;
}
