/** The homes that this process has: one claim for each, in the store that processes share, and one loop that renews them all. */
import { inBackground } from '../lib/background.ts';
import { Closing, sleep, type Clock, type Timer } from '../lib/clock.ts';
import { LruMap } from '../lib/containers.ts';
import type { HomeClaim, HomeOwnership, OwnershipListener } from '../model/ownership.ts';
import type { ClaimAndBytes, Part, Store, Written } from '../model/store.ts';
import type { HomeId } from '../protocol/ids.ts';
import type { PointerOwner } from '../seal/pointer.ts';

/** A home that is here. */
interface Owned {
  readonly id: HomeId;
  readonly listener: OwnershipListener;
  /** What it was claimed for. */
  readonly part: Part;
  fencingToken: number;
  /** The term of this process (`Store.term`) in which the home was claimed. */
  term: number | null;
  seal: (() => Uint8Array) | null;
}

/**
 * How long a claim and what is kept outlive a process that does not renew them, in ms. Whether that lives, its lease says: this only
 * clears up.
 */
export const CLAIM_MS = 3 * 3_600_000;
const RENEW_EVERY_MS = CLAIM_MS / 3;
/** Of how many homes it is remembered who else has them. */
const MAX_HOLDERS = 10_000;
/** So many homes are claimed again at once. */
const BATCH = 1_000;
/** How long to wait before claims are tried again that the store did not take, in ms: twice as long each time. */
const FIRST_RETRY_MS = 250;
const LAST_RETRY_MS = 8_000;

export class Ownership implements HomeOwnership {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #instance: string;
  readonly #owned = new Map<HomeId, Owned>();
  readonly #claiming = new Map<HomeId, Promise<HomeClaim>>();
  /** Who had which home when it was last claimed here. */
  readonly #holders = new LruMap<HomeId, PointerOwner>(MAX_HOLDERS);
  /** The homes to claim again. */
  readonly #toClaim = new Set<Owned>();
  #isClaimingAgain = false;
  /** How long to wait before those are tried again that fail, in ms. */
  #retryMs = FIRST_RETRY_MS;
  /** Ends that wait. */
  #waiting = new Closing();
  #renewal: Timer | null = null;

  /** @param instance the instance id of this process */
  constructor(store: Store, clock: Clock, instance: string) {
    this.#store = store;
    this.#clock = clock;
    this.#instance = instance;
  }

  isHere(id: HomeId): boolean {
    return this.#owned.has(id);
  }

  isConfirmed(id: HomeId): boolean {
    return this.#isOfTerm(this.#owned.get(id)?.term ?? null);
  }

  stillHere(id: HomeId): Promise<boolean> | null {
    if (this.isHere(id)) return this.isConfirmed(id) ? null : this.askStore(id);
    return this.#store.holderOf(id).then(
      (holder) => holder === null || holder.owner.instance === this.#instance,
      () => true,
    );
  }

  askStore(id: HomeId): Promise<boolean> | null {
    const owned = this.#owned.get(id);
    if (owned === undefined || !this.#store.up) return null;
    return this.#claimOwned(owned).catch(() => this.isHere(id));
  }

  claim(
    id: HomeId,
    listener: OwnershipListener,
    part: Part = 'session',
    known?: 'new' | 'kept',
  ): Promise<HomeClaim> {
    const running = this.#claiming.get(id);
    if (running !== undefined) return running;
    this.#holders.delete(id);
    const claiming = this.#claim(id, listener, part, known).finally(() =>
      this.#claiming.delete(id),
    );
    this.#claiming.set(id, claiming);
    return claiming;
  }

  lastHolder(id: HomeId): PointerOwner | null {
    return this.#holders.get(id) ?? null;
  }

  state(id: HomeId, part: Part, sealed: Uint8Array, ttlMs: number): Promise<Written> {
    return this.#store.state(id, part, sealed, ttlMs, this.#owned.get(id)?.fencingToken ?? null);
  }

  end(id: HomeId, part: Part, sealed: Uint8Array, ttlMs: number): Promise<Written> {
    return this.#store.end(id, part, sealed, ttlMs);
  }

  forget(id: HomeId, part: Part): void {
    const { fencingToken = null } = this.#owned.get(id) ?? {};
    void this.#store.forget(id, part, fencingToken).catch(() => {});
  }

  async read(id: HomeId, part: Part): Promise<Uint8Array | null> {
    const kept = await this.#store.read(id, part);
    if (kept === null) await this.#store.requireComplete();
    return kept;
  }

  async claimAgain(): Promise<void> {
    for (const owned of this.#owned.values()) this.#toClaim.add(owned);
    this.#retryMs = FIRST_RETRY_MS;
    this.#waiting.abort();
    if (!this.#isClaimingAgain) await this.#claimAllAgain();
  }

  keep(id: HomeId, seal: () => Uint8Array): void {
    const owned = this.#owned.get(id);
    if (owned === undefined) return;
    owned.seal = seal;
    this.#keep(owned).catch(() => {});
  }

  /** Sends all of it before any later claim of the home. What cannot be told to the store expires there. */
  giveUp(id: HomeId, isLeft: boolean): () => boolean {
    const owned = this.#owned.get(id);
    if (owned === undefined) return () => false;
    const { fencingToken, term, part } = owned;
    if (!isLeft) this.forget(id, part);
    this.letGo(id);
    void this.#store.release(id, fencingToken).catch(() => {});
    return () => this.#isOfTerm(term);
  }

  letGo(id: HomeId): void {
    this.#owned.delete(id);
    if (this.#owned.size > 0) return;
    this.#waiting.abort();
    this.#renewal?.cancel();
    this.#renewal = null;
  }

  #isOfTerm(term: number | null): boolean {
    return term !== null && term === this.#store.term;
  }

  async #claim(
    id: HomeId,
    listener: OwnershipListener,
    part: Part,
    known: 'new' | 'kept' | undefined,
  ): Promise<HomeClaim> {
    const { term } = this.#store;
    const claiming =
      known === undefined
        ? this.#store.claimAndRead(id, part, CLAIM_MS)
        : this.#claimKnown(id, part, known);
    const { claim, kept } = await claiming.catch((error: unknown) => {
      // If only a reply was lost, no other process could take the home, and nobody would renew the claim.
      if (!this.isHere(id)) void this.#store.release(id, null).catch(() => {});
      throw error;
    });
    if (claim.type === 'held') {
      this.#holders.set(id, claim.by);
      return { type: 'elsewhere', holder: claim.by };
    }
    const { fencingToken } = claim;
    const seal = kept !== null && part === 'session' ? () => kept : null;
    this.#owned.set(id, { id, listener, part, fencingToken, term, seal });
    this.#renewal ??= this.#clock.setTimer(RENEW_EVERY_MS, () => this.#renewAll());
    listener.claimed?.(id);
    // The claim was faster than the first lease of this process.
    if (term === null) inBackground(this.claimAgain());
    return { type: 'here', kept };
  }

  /** Nothing is read of a home that another process has: it can be much. */
  async #claimKnown(id: HomeId, part: Part, known: 'new' | 'kept'): Promise<ClaimAndBytes> {
    const claim = await this.#store.claim(id, CLAIM_MS);
    const isRead = claim.type === 'claimed' && known === 'kept';
    return { claim, kept: isRead ? await this.#store.read(id, part) : null };
  }

  #renewAll(): void {
    this.#renewal = this.#clock.setTimer(RENEW_EVERY_MS, () => this.#renewAll());
    inBackground(this.claimAgain());
  }

  /**
   * Tries those again that the store did not take, some times: others find no claim meanwhile, and open sessions for the same
   * callers. Then the next renewal tries them.
   */
  async #claimAllAgain(): Promise<void> {
    this.#isClaimingAgain = true;
    while (this.#toClaim.size > 0) {
      const failed: Owned[] = [];
      while (this.#toClaim.size > 0) {
        const batch = [...this.#toClaim].slice(0, BATCH);
        for (const owned of batch) this.#toClaim.delete(owned);
        await Promise.all(batch.map((each) => this.#renew(each).catch(() => failed.push(each))));
      }
      const waitMs = this.#retryMs;
      if (waitMs > LAST_RETRY_MS) continue;
      for (const owned of failed) if (this.#isOwned(owned)) this.#toClaim.add(owned);
      if (this.#toClaim.size === 0) continue;
      this.#retryMs *= 2;
      this.#waiting = new Closing();
      await sleep(this.#clock, waitMs, this.#waiting);
    }
    // In the same turn in which nothing is left: what is to be claimed from the next one on begins anew.
    this.#isClaimingAgain = false;
  }

  async #renew(owned: Owned): Promise<void> {
    if (this.#isOwned(owned) && (await this.#claimOwned(owned))) await this.#keep(owned);
  }

  #isOwned(owned: Owned): boolean {
    return this.#owned.get(owned.id) === owned;
  }

  /** @returns whether the home is still here */
  async #claimOwned(owned: Owned): Promise<boolean> {
    const { id } = owned;
    const { term } = this.#store;
    const claim = await this.#store.claim(id, CLAIM_MS);
    const release = () => {
      if (claim.type === 'claimed')
        void this.#store.release(id, claim.fencingToken).catch(() => {});
    };
    if (!this.#isOwned(owned)) {
      // What was given back meanwhile can be the claim of an earlier fencing token.
      if (!this.#owned.has(id) && !this.#claiming.has(id)) release();
      return false;
    }
    // In a store that loses nothing, a higher token says that another process had the home meanwhile.
    if (claim.type === 'claimed' && claim.fencingToken <= owned.fencingToken) {
      owned.fencingToken = claim.fencingToken;
      owned.term = term;
      owned.listener.claimed?.(id);
      return true;
    }
    this.letGo(id);
    release();
    owned.listener.lost?.(id);
    return false;
  }

  /** Keeps what the next holder needs. If another process has claimed the home, it is lost. */
  async #keep(owned: Owned): Promise<void> {
    if ((await this.#write(owned)) === 'kept') return;
    // The store can have lost the claim, and a new one have begun meanwhile.
    if (this.#isOwned(owned) && (await this.#claimOwned(owned))) await this.#write(owned);
  }

  async #write({ id, part, seal }: Owned): Promise<Written> {
    return seal === null ? 'kept' : this.state(id, part, seal(), CLAIM_MS);
  }
}
