/** How a retry reaches the replica that holds its call, as the bridge sees it. */
import type { PointerOwner } from '../seal/pointer.ts';
import type { CallAnswer, EdgeRequest, Leg } from './request.ts';

/**
 * - `answered`: by the owner; there is nothing more to do
 * - `unknown`: the owner lives, and does not have the call
 * - `gone`: the owner is not there any more
 * - `silent`: it took the retry, or may have, and then said nothing more
 * - `unreachable`: the way to it failed, which says nothing of the owner
 * - `left`: our own client has gone, and the owner was told so
 */
export type Relayed =
  | { readonly type: 'answered'; readonly answer: CallAnswer }
  | {
      readonly type: 'unknown' | 'gone' | 'silent' | 'unreachable' | 'left';
      readonly problem: string;
      /** When clocks are the problem: how far that of this machine is ahead of the other one's. */
      readonly aheadSeconds?: number;
    };

export const CLIENT_LEFT: Relayed = { type: 'left', problem: 'the client has gone' };

/** A retry that is served here; its answer may take as long as the call does. */
export interface Served {
  readonly answer: Promise<CallAnswer>;
}

/** Serves a retry that landed on another replica; `null` when the route or the call is not here. */
export type RelayedRetry = (
  route: string,
  request: EdgeRequest,
  leg: Leg,
) => Promise<Served | null>;

export interface Relay {
  /** Never throws. When the leg closes, the owner is left as the client left us. */
  relay(owner: PointerOwner, request: EdgeRequest, leg: Leg): Promise<Relayed>;
}
