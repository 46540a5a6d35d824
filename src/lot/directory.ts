/**
 * What replicas share through a store: who has taken up which call, who is alive, and outcomes for
 * clients that lost an answer and ask another replica.
 */
import type { CallId } from '../protocol/ids.ts';
import type { PointerOwner } from '../seal/pointer.ts';

export type Claim =
  | { readonly type: 'claimed'; readonly epoch: number }
  | { readonly type: 'held'; readonly by: PointerOwner };

export interface Holder {
  readonly owner: PointerOwner;
  /** Grows each time that the call changes hands. */
  readonly epoch: number;
}

/** All of it rejects with `DirectoryUnavailable` when the store does not answer in time. */
export interface Directory {
  /** False while the store cannot be reached. */
  readonly up: boolean;
  /** Waits for the store, at most `waitMs`, then keeps this replica's lease alive. */
  start(waitMs: number): Promise<void>;
  /** Takes a call over for this replica, unless another one that is alive has it. */
  claim(call: CallId, ttlMs: number): Promise<Claim>;
  holderOf(call: CallId): Promise<Holder | null>;
  /** Gives up our own claim, if we have it. */
  release(call: CallId): Promise<void>;
  isAlive(boot: string): Promise<boolean>;
  keepOutcome(call: CallId, sealed: Uint8Array, ttlMs: number): Promise<void>;
  outcomeOf(call: CallId): Promise<Uint8Array | null>;
  onChange(listener: (up: boolean) => void): void;
  close(): Promise<void>;
}

export class DirectoryUnavailable extends Error {
  readonly code = 'coordination_unavailable';

  constructor(message: string) {
    super(message);
    this.name = 'DirectoryUnavailable';
  }
}
