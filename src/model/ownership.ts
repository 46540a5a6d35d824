/** Which homes this process has, as the folders above see it that know neither store nor lease. */
import type { HomeId } from '../protocol/ids.ts';
import type { PointerOwner } from '../seal/pointer.ts';
import type { Part, Written } from './store.ts';

/** Who has a home. `kept` is what an earlier holder left, or `null`. */
export type HomeClaim =
  | { readonly type: 'here'; readonly kept: Uint8Array | null }
  | { readonly type: 'elsewhere'; readonly holder: PointerOwner };

/** Hears what becomes of a home. Without `lost`, whoever claims it asks `stillHere`. */
export interface OwnershipListener {
  /** The home is here, or still here. */
  readonly claimed?: (id: HomeId) => void;
  /** Another process has taken the home over. */
  readonly lost?: (id: HomeId) => void;
}

export interface HomeOwnership {
  /**
   * Claims a home for this process, unless another live one has it.
   * @param part what the home is claimed for: `kept` is this
   * @param known `new`: nobody else knows the home, and nothing is kept of it. `kept`: something was just found to be kept of it, so the
   *   store has not lost who has it
   * @throws DirectoryUnavailable
   */
  claim(
    id: HomeId,
    listener: OwnershipListener,
    part?: Part,
    known?: 'new' | 'kept',
  ): Promise<HomeClaim>;
  /** Returns who had a home when this process last claimed it in vain; `null` if it has not. It can have another holder by now. */
  lastHolder(id: HomeId): PointerOwner | null;
  isHere(id: HomeId): boolean;
  /** Whether the home is here, and no other process can have taken it over meanwhile. */
  isConfirmed(id: HomeId): boolean;
  /**
   * Finds out whether a home is still here, if another process can have taken it over meanwhile: a process that hung does not know.
   * One that was not claimed here is until another process claims it. While the store cannot be reached, it is.
   * @returns `null` at once if nothing has to be found out
   */
  stillHere(id: HomeId): Promise<boolean> | null;
  /**
   * The same, although the lease of this process is not over as far as it knows: the clock of the store
   * can have been set.
   * @returns `null` at once if there is nothing to ask the store, or it cannot be reached
   */
  askStore(id: HomeId): Promise<boolean> | null;
  /** Keeps what the next holder needs, sealed anew each time, if this process has the home. */
  keep(id: HomeId, seal: () => Uint8Array): void;
  /** Keeps bytes for `ttlMs`, unless another process has claimed the home after this one. @throws DirectoryUnavailable */
  state(id: HomeId, part: Part, sealed: Uint8Array, ttlMs: number): Promise<Written>;
  /** Keeps an end for `ttlMs`, whoever has the home: the first one counts. @throws DirectoryUnavailable */
  end(id: HomeId, part: Part, sealed: Uint8Array, ttlMs: number): Promise<Written>;
  /** Deletes what is kept, unless another process has claimed the home after this one. What cannot be deleted expires. */
  forget(id: HomeId, part: Part): void;
  /**
   * Returns what was kept last, or `null`.
   * @throws DirectoryUnavailable also if there is nothing, and the process that has the home may be about to keep it again
   */
  read(id: HomeId, part: Part): Promise<Uint8Array | null>;
  /**
   * Gives a home up.
   * @param isLeft whether what is kept is for the next holder
   * @returns what tells whether another process can have claimed the home since this one did
   */
  giveUp(id: HomeId, isLeft: boolean): () => boolean;
  /** Renews the claim of a home no more. It ends with the lease of this process, and what is kept is left to the next. */
  letGo(id: HomeId): void;
  /**
   * Claims all homes again and keeps what is kept of them again, since the store may have lost that, or others may have them.
   * Homes that are tried again already are tried at once, and as often as the others.
   */
  claimAgain(): Promise<void>;
}
