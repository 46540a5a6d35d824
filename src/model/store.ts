/**
 * The interface of the store that processes share: who has what, what is kept of it for whoever has it next, and who lives. Redis is
 * one, and the primary of several workers has another one. `test/integration/replicas/store.test.ts` holds for both.
 * It is optional: without it a gateway serves all that its own memory and the pointers allow.
 */
import type { CallId, GreetingId, HomeId } from '../protocol/ids.ts';
import type { PointerOwner } from '../seal/pointer.ts';

/** What bytes are kept for. */
export type Keepable = HomeId | CallId | GreetingId;

/** What the bytes are. */
export type Part = 'session' | 'task' | 'request' | 'outcome' | 'greeting';

/**
 * A claim. With the instance of its holder, the number is a fencing token: it grows each time that somebody else claims, but begins
 * again in a store that has lost its data.
 */
export interface HeldClaim {
  readonly owner: PointerOwner;
  readonly fencingToken: number;
}

export type Claim =
  | { readonly type: 'claimed'; readonly fencingToken: number }
  | { readonly type: 'held'; readonly by: PointerOwner };

/** A claim, and the bytes that were kept last; `null` if there are none. */
export interface ClaimAndBytes {
  readonly claim: Claim;
  readonly kept: Uint8Array | null;
}

/**
 * What became of bytes: `lost` if another process has claimed meanwhile what they are of, and knows more; `ended` if another process
 * has kept an end.
 */
export type Written = 'kept' | 'lost' | 'ended';

/** What a store does for a process. Every method rejects with `DirectoryUnavailable` if the store does not respond in time. */
export interface ClaimsAndBytes {
  /**
   * Claims something for this process, for `ttlMs`, unless another live process holds it. A repeated claim renews it with the same
   * fencing token, so a claim whose reply was lost can be repeated. Many at once take about as long as one.
   */
  claim(id: HomeId, ttlMs: number): Promise<Claim>;
  /**
   * Claims something as `claim` does, and reads what is kept of it, as one step.
   * @throws DirectoryUnavailable also if nothing is known of it, for a while after the store was unreachable: then a live process may
   *   be about to claim it again, and nothing is claimed
   */
  claimAndRead(id: HomeId, part: Part, ttlMs: number): Promise<ClaimAndBytes>;
  /** Returns the holder of the claim, alive or not, or `null` if there is no claim. */
  holderOf(id: HomeId): Promise<HeldClaim | null>;
  /**
   * Ends the claim of this process with this fencing token, and no other claim. If the store is unreachable, that is done when it is
   * back, unless it is claimed again before.
   * @param fencingToken `null` after a claim that failed: the store may have it, and only its reply was lost
   */
  release(id: HomeId, fencingToken: number | null): Promise<void>;
  /**
   * Keeps sealed bytes for `ttlMs`, which can change, unless another process has claimed what they are of after this one.
   * @param fencingToken of the claim of this process; `null` if it has none: then they are kept while nobody has claimed
   */
  state(
    id: Keepable,
    part: Part,
    sealed: Uint8Array,
    ttlMs: number,
    fencingToken: number | null,
  ): Promise<Written>;
  /** Keeps sealed bytes for `ttlMs` that only this process changes from here on, whoever claims: the first end counts. */
  end(id: Keepable, part: Part, sealed: Uint8Array, ttlMs: number): Promise<Written>;
  /** Returns the bytes that were kept last, or `null`. */
  read(id: Keepable, part: Part): Promise<Uint8Array | null>;
  /** Deletes what is kept, unless another process has claimed what it is of after this one. */
  forget(id: HomeId, part: Part, fencingToken: number | null): Promise<void>;
  /** Resolves to true if the process with this instance id has a lease. */
  isAlive(instance: string): Promise<boolean>;
}

/** The store as the workers of one gateway have it, too. */
export interface Store extends ClaimsAndBytes {
  /** False while the store cannot be reached or does not accept writes. */
  readonly up: boolean;
  /**
   * Counts the times of this process in which it is alive for all others without a break; `null` between them, by the clock that
   * does not jump. Nobody takes over within a time what was claimed in it.
   */
  readonly term: number | null;
  /**
   * Returns if what `read` does not find is not there.
   * @throws DirectoryUnavailable for a while after the store was unreachable: it can have lost what live processes are to keep again
   */
  requireComplete(): Promise<void>;
}

/** The store of replicas. */
export interface Directory extends Store {
  /**
   * Waits at most `waitMs` for the store, and then renews the lease of this replica. After an error it
   * keeps trying until `close`. A refused login fails at once.
   */
  start(waitMs: number): Promise<void>;
  /** Resolves to the age of the replica's lease in ms, since it was last renewed, or to `null` if it has none. */
  renewedAgoMs(instance: string): Promise<number | null>;
  /** Returns the replicas that have a lease. */
  replicas(): Promise<PointerOwner[]>;
  /** Ends the lease of another replica, which is known to be dead. */
  endLease(instance: string): Promise<void>;
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
