/** How a retry reaches the replica that holds its call, as the bridge sees it. */
import type { PointerOwner } from '../seal/pointer.ts';
import type { CallAnswer, EdgeRequest, Leg } from './leg.ts';

/**
 * - `answered`: by the owner; there is nothing more to do
 * - `gone`: the owner is not there any more, or does not have the call
 * - `silent`: it took the retry, or may have, and then said nothing more
 */
export type Relayed =
  | { readonly type: 'answered'; readonly answer: CallAnswer }
  | { readonly type: 'gone'; readonly problem: string }
  | { readonly type: 'silent'; readonly problem: string };

export interface Relay {
  /** Never throws. When the leg closes, the owner is left as the client left us. */
  relay(owner: PointerOwner, request: EdgeRequest, leg: Leg): Promise<Relayed>;
}
