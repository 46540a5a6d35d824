/**
 * The interface of the store that replicas share: leases of live replicas, claims of calls and homes, and what is kept
 * of them.
 * It is optional: without it a gateway serves all that its own memory and the pointers allow.
 */
import type { CallId, GreetingId, HomeId, TaskKey } from '../protocol/ids.ts';
import type { PointerOwner } from '../seal/pointer.ts';

/** What one replica has at a time: a call, a task, or the home of a caller. */
export type Claimable = CallId | HomeId | TaskKey;

/** What bytes are kept for. */
export type Keepable = Claimable | GreetingId;

/** The result of a claim. `fencingToken` grows each time the holder changes, and `release` needs it. */
export type Claim =
  | { readonly type: 'claimed'; readonly fencingToken: number }
  | { readonly type: 'held'; readonly by: PointerOwner };

/** The part of the directory that the workers of one gateway have without Redis. */
export type ClaimStore = Pick<
  Directory,
  'up' | 'term' | 'claim' | 'keep' | 'kept' | 'forget' | 'requireComplete'
> & {
  release(id: Claimable, fencingToken: number): Promise<void>;
};

/** Every method but `onChange`, `onLeaseRestored` and `close` rejects with `DirectoryUnavailable` if the store does not respond in time. */
export interface Directory {
  /** False while the store cannot be reached or does not accept writes. */
  readonly up: boolean;
  /**
   * Counts the times of this process in which it is alive for all others without a break; `null` between them, by the clock that
   * does not jump. Nobody takes over within a time what was claimed in it.
   */
  readonly term: number | null;
  /**
   * Waits at most `waitMs` for the store, and then renews the lease of this replica. After an error it
   * keeps trying until `close`. A refused login fails at once.
   */
  start(waitMs: number): Promise<void>;
  /**
   * Claims a call or a home for this replica, for `ttlMs`, unless another live replica holds it. A repeated claim
   * renews it with the same fencing token, so a claim whose reply was lost can be repeated.
   */
  claim(id: Claimable, ttlMs: number): Promise<Claim>;
  /** Returns the holder of the claim, alive or not, or `null` if there is no claim. */
  holderOf(id: Claimable): Promise<{ owner: PointerOwner; fencingToken: number } | null>;
  /**
   * Ends the claim of this replica with this fencing token, and no other claim. If the store is unreachable, that is done when it is
   * back, unless it is claimed again before.
   * @param fencing token `null` after a claim that failed: the store may have it, and only its reply was lost
   */
  release(id: Claimable, fencingToken: number | null): Promise<void>;
  /** Resolves to true if the replica with this instance id has a lease. */
  isAlive(instance: string): Promise<boolean>;
  /** Resolves to the age of the replica's lease in ms, since it was last renewed, or to `null` if it has none. */
  renewedAgoMs(instance: string): Promise<number | null>;
  /** Ends the lease of another replica, which is known to be dead. */
  endLease(instance: string): Promise<void>;
  /** Stores sealed bytes for `ttlMs`: the outcome of a call, a task, the session of a home, or what a server said. */
  keep(id: Keepable, sealed: Uint8Array, ttlMs: number): Promise<void>;
  /** Returns the bytes that `keep` stored, or `null`. */
  kept(id: Keepable): Promise<Uint8Array | null>;
  /** Deletes what `keep` stored. */
  forget(id: Claimable): Promise<void>;
  /**
   * Returns if what `kept` does not find is not there.
   * @param claimed if there is a claim of this, the store has not lost what it knew of it
   * @throws DirectoryUnavailable for a while after the store was unreachable: it can have lost what live replicas are to keep again
   */
  requireComplete(claimed?: Claimable): Promise<void>;
  /**
   * Calls the listener each time that this replica has a lease again after it had none, since it was frozen or the store
   * lost its data. Meanwhile others could claim what this replica had, and what it kept can be gone.
   */
  onLeaseRestored(listener: () => void): void;
  /** Calls the listener with `up` each time it changes. */
  onChange(listener: (up: boolean) => void): void;
  /** Gives up the lease and closes the connection. Never throws. */
  close(): Promise<void>;
}

/**
 * What is wrong with the store, in one word. `data`: with what one key holds, which says nothing about the store; `incomplete`: it is
 * back for less than the lifetime of a lease, and may not know yet who lives.
 */
export type DirectoryFailure =
  | 'data'
  | 'incomplete'
  | 'auth'
  | 'tls'
  | 'refused'
  | 'name'
  | 'timeout'
  | 'network'
  | 'store'
  | 'closed';

/**
 * Thrown if the store did not respond in time. Whether it did what was asked is not known. There is no
 * `cause`: errors of Redis clients hold the command, and `AUTH` has a secret.
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
