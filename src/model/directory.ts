/**
 * What the replicas of a fleet tell each other through a store that they share: who lives, who has
 * taken which call over, and how a call ended. It is an addition: a call stays with its owner, and a
 * gateway without a directory serves all that its own memory and the pointers allow.
 */
import type { CallId } from '../protocol/ids.ts';
import type { PointerOwner } from '../seal/pointer.ts';

/** `epoch` grows with every replica that takes the call over; it is what `release` asks for. */
export type Claim =
  | { readonly type: 'claimed'; readonly epoch: number }
  | { readonly type: 'held'; readonly by: PointerOwner };

/** Every method but `onChange` throws `DirectoryUnavailable` when the store does not do its part in time. */
export interface Directory {
  /** False while the store cannot be reached or does not take writes. */
  readonly up: boolean;
  /**
   * Waits until the store answers, at most `waitMs`, and keeps this replica's lease alive from then
   * on. When it throws it goes on trying until `close`; a refused login is not waited for.
   */
  start(waitMs: number): Promise<void>;
  /**
   * Takes a call over for this replica, for `ttlMs`, unless another live replica has. Claiming again
   * what is ours renews it under the same epoch, so a claim whose answer was lost may be repeated.
   */
  claim(call: CallId, ttlMs: number): Promise<Claim>;
  /** Who has claimed the call, alive or not; `null` when nobody has. */
  holderOf(call: CallId): Promise<{ owner: PointerOwner; epoch: number } | null>;
  /** Ends our claim with this epoch; does nothing to anybody else's. */
  release(call: CallId, epoch: number): Promise<void>;
  /** True when the replica with this boot id has a live lease. */
  isAlive(boot: string): Promise<boolean>;
  /** How long ago that replica renewed its lease, in ms; `null` when it has none. */
  renewedAgoMs(boot: string): Promise<number | null>;
  /** Keeps a sealed outcome for `ttlMs`. */
  keepOutcome(call: CallId, sealed: Uint8Array, ttlMs: number): Promise<void>;
  /** The bytes that `keepOutcome` was given, or `null`. */
  outcomeOf(call: CallId): Promise<Uint8Array | null>;
  /** Calls the listener with `up` each time that it changes. */
  onChange(listener: (up: boolean) => void): void;
  /** Gives the lease up and lets go of the store; never throws. */
  close(): Promise<void>;
}

/** What is wrong with the store, in a word that a metric may carry. */
export type DirectoryFailure =
  'auth' | 'tls' | 'refused' | 'name' | 'timeout' | 'network' | 'store' | 'closed';

/**
 * Thrown when the store did not do what was asked within its time; whether it did it later is not
 * known. It carries no cause: the errors of Redis clients hold the command, and `AUTH` has a secret.
 */
export class DirectoryUnavailable extends Error {
  readonly code = 'coordination_unavailable';
  readonly failure: DirectoryFailure;

  constructor(failure: DirectoryFailure, message: string) {
    super(message);
    this.name = 'DirectoryUnavailable';
    this.failure = failure;
  }
}
