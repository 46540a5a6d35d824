/** What the routes of a process know of it as one of several replicas. */
import type { PointerOwner } from '../seal/pointer.ts';
import type { Directory } from './store.ts';
import type { HomeOwnership } from './ownership.ts';
import type { Relay } from './relay.ts';

export interface Replica {
  readonly owner: PointerOwner;
  readonly directory: Directory | null;
  /** Which homes are here; `null` if no store says that. */
  readonly ownership: HomeOwnership | null;
  /** Tells whether another gateway can go on with the homes when this one stops. Its workers stop together. */
  readonly hasSuccessor: boolean;
  /** Returns the relay from a route to the same route of the other replicas; `null` if there is none. */
  relayOf(route: string): Relay | null;
}
