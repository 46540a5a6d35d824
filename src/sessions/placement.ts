/**
 * Which process has the home of a caller, where several processes serve the same clients. It claims the home in a store
 * that all of them share, and keeps the session there, sealed: when that process is gone, the next one goes on with
 * the same session. Credentials are never kept.
 */
import { z } from 'zod';
import { inBackground } from '../lib/background.ts';
import { Closing, sleep, type Clock, type Timer } from '../lib/clock.ts';
import { sha256 } from '../lib/crypto.ts';
import type { Store, Written } from '../model/store.ts';
import { homeId, sessionId, upstreamRequestId, type HomeId } from '../protocol/ids.ts';
import { isJsonObject, parseJson } from '../protocol/json.ts';
import { isLegacyRevision } from '../protocol/meta.ts';
import { openBytes, sealBytes } from '../seal/envelope.ts';
import type { KeyRing } from '../seal/key-ring.ts';
import type { PointerOwner } from '../seal/pointer.ts';
import { UpstreamFailure } from '../model/upstream-failure.ts';
import type { KeptCall } from '../upstream/session/questions/session-questions.ts';
import type { SessionPoint } from '../upstream/transport/transport.ts';

export interface HomePlacementOptions {
  readonly store: Store;
  readonly ring: KeyRing<'home'>;
  /** The name of the deployment. */
  readonly audience: string;
  readonly route: string;
  /** How long a claim and a session are kept without being renewed, in ms. */
  readonly ttlMs: number;
  /** Tells whether another process can go on with the homes when this one stops. */
  readonly hasSuccessor: boolean;
  readonly clock: Clock;
}

/** The session of a home, for the next process. */
export interface KeptSession extends SessionPoint {
  /** The calls that can ask in it on streams that name no call; absent if there are none. */
  readonly calls?: readonly KeptCall[];
}

/** Who has a home. `session` is what an earlier holder left, or `null`. */
export type HomeClaim =
  | { readonly type: 'here'; readonly session: KeptSession | null }
  | { readonly type: 'elsewhere'; readonly holder: PointerOwner };

/** Hears what becomes of homes, by their keys. */
export interface PlacementListener {
  /** The home is here, or still here. */
  readonly claimed: (key: string) => void;
  /** Another process has taken the home over. */
  readonly lost: (key: string) => void;
}

/** A session, and the key of the home that has it. */
export interface HomePoint extends SessionPoint {
  readonly home?: string;
}

interface HeldHome {
  readonly id: HomeId;
  fencingToken: number;
  /** The term of this process (`Directory.term`) in which the home was claimed. */
  term: number | null;
  session: KeptSession | null;
}

const VERSION = 1;
/** The id of each call, and since when it waits, in ms since the epoch. */
const storedCalls = z.array(z.tuple([z.union([z.string(), z.number()]), z.number().nullable()]));
/** The most that is kept of what a server said of itself, in bytes. A session with more is kept without it. */
const MAX_INITIALIZED_BYTES = 8 * 1024;
const MAX_SEALED_LENGTH = 20 * 1024;
/** How long to wait before claims are tried again that the store did not take, in ms: twice as long each time. */
const FIRST_RETRY_MS = 250;
const LAST_RETRY_MS = 8_000;
/** Of its time to live, the part after which a claim is renewed. */
const RENEW_AFTER = 1 / 3;

export class HomePlacement {
  readonly #options: HomePlacementOptions;
  /** The homes that this process has claimed, by the keys of their owners. */
  readonly #held = new Map<string, HeldHome>();
  /** The homes that it has given up, whose sessions no other process gets to know. */
  #abandoned: ReadonlyMap<string, HeldHome> = new Map();
  readonly #claiming = new Map<string, Promise<HomeClaim>>();
  /** The homes to claim again. */
  readonly #toClaim = new Map<string, HeldHome>();
  #isClaimingAgain = false;
  /** How long to wait before those are tried again that fail, in ms. */
  #retryMs = FIRST_RETRY_MS;
  /** Ends that wait. */
  #waiting = new Closing();
  #isClosed = false;
  #renewal: Timer | null = null;
  #listener: PlacementListener = { claimed: () => {}, lost: () => {} };

  constructor(options: HomePlacementOptions) {
    this.#options = options;
  }

  listen(listener: PlacementListener): void {
    this.#listener = listener;
  }

  /** Whether another process can go on with the homes when this one stops. */
  get hasSuccessor(): boolean {
    return this.#options.hasSuccessor;
  }

  isHere(key: string): boolean {
    return this.#held.has(key);
  }

  /** Whether the home is here, and no other process can have taken it over meanwhile. */
  isConfirmed(key: string): boolean {
    const term = (this.#held.get(key) ?? this.#abandoned.get(key))?.term ?? null;
    return term !== null && term === this.#options.store.term;
  }

  /**
   * Finds out whether a home is still here, if another process can have taken it over meanwhile: a process that hung does not know.
   * While the store cannot be reached, it is.
   * @returns `null` at once if nothing has to be found out
   */
  stillHere(key: string): Promise<boolean> | null {
    return this.isConfirmed(key) ? null : this.askStore(key);
  }

  /**
   * The same, although the lease of this process is not over as far as it knows: the clock of the store can have been set.
   * @returns `null` at once if there is nothing to ask the store, or it cannot be reached
   */
  askStore(key: string): Promise<boolean> | null {
    const held = this.#held.get(key);
    if (held === undefined || !this.#options.store.up) return null;
    return this.#claimHeld(key, held).catch(() => this.isHere(key));
  }

  /** Claims a home for this process, unless another live one has it. @throws DirectoryUnavailable */
  claim(key: string): Promise<HomeClaim> {
    const running = this.#claiming.get(key);
    if (running !== undefined) return running;
    const claiming = this.#claim(key).finally(() => this.#claiming.delete(key));
    this.#claiming.set(key, claiming);
    return claiming;
  }

  /**
   * Claims all homes again and keeps their sessions again, since the store may have lost them, or others may have them.
   * Homes that are tried again already are tried at once, and as often as the others.
   */
  async claimAgain(): Promise<void> {
    for (const [key, held] of this.#held) this.#toClaim.set(key, held);
    this.#retryMs = FIRST_RETRY_MS;
    this.#waiting.abort();
    if (!this.#isClaimingAgain) await this.#claimAllAgain();
  }

  /** Keeps the session of a home, if this process has the home. */
  keep(key: string, session: KeptSession): void {
    const held = this.#held.get(key);
    if (held === undefined) return;
    held.session = session;
    this.#keep(key, held).catch(() => {});
  }

  /**
   * Gives a home up.
   * @param isSessionLeft whether the server still has the session, so that another process can go on with it
   */
  giveUp(key: string, isSessionLeft: boolean): void {
    const held = this.#held.get(key);
    if (held === undefined) return;
    this.#held.delete(key);
    this.#free(held, isSessionLeft);
  }

  /** Gives all homes up at once, with their sessions. What is claimed for them from now on is another home. */
  abandon(): void {
    for (const held of this.#held.values()) this.#free(held, false);
    this.#abandoned = new Map(this.#held);
    this.close();
  }

  /** Stops to renew the claims. They end with the lease of this process, and the sessions are left to the next. */
  close(): void {
    this.#isClosed = true;
    this.#waiting.abort();
    this.#renewal?.cancel();
    this.#held.clear();
  }

  /** Sends all of it before any later claim of the home. What cannot be told to the store expires there. */
  #free({ id, fencingToken }: HeldHome, isSessionLeft: boolean): void {
    const { store } = this.#options;
    if (!isSessionLeft) void store.forget(id, 'session', fencingToken).catch(() => {});
    void store.release(id, fencingToken).catch(() => {});
  }

  async #claim(key: string): Promise<HomeClaim> {
    const { store, route, ttlMs } = this.#options;
    const id = homeId(`home:${sha256(JSON.stringify([route, key]))}`);
    await this.#requireComplete(id);
    const { term } = store;
    const claim = await store.claim(id, ttlMs);
    if (claim.type === 'held') return { type: 'elsewhere', holder: claim.by };
    const kept = await store.read(id, 'session').catch((error: unknown) => {
      // Nobody would renew the claim, or give it back.
      void store.release(id, claim.fencingToken).catch(() => {});
      throw error;
    });
    const session = kept === null ? null : this.#open(id, kept);
    // The request that waits for it goes on here. Nobody would give the home up, so it is not renewed, and expires.
    if (this.#isClosed) return { type: 'here', session };
    this.#held.set(key, { id, fencingToken: claim.fencingToken, term, session });
    this.#renewLater();
    this.#listener.claimed(key);
    // The claim was faster than the first lease of this process.
    if (term === null) inBackground(this.claimAgain());
    return { type: 'here', session };
  }

  /** @throws DirectoryUnavailable if another process may have the home, and is about to claim it again */
  async #requireComplete(id: HomeId): Promise<void> {
    const { store } = this.#options;
    try {
      await store.requireComplete(id);
    } catch (error) {
      if ((await store.read(id, 'session')) === null) throw error;
    }
  }

  #renewLater(): void {
    const { clock, ttlMs } = this.#options;
    this.#renewal ??= clock.setTimer(ttlMs * RENEW_AFTER, () => this.#renewAll());
  }

  #renewAll(): void {
    inBackground(this.claimAgain());
    this.#renewal = null;
    if (this.#held.size > 0) this.#renewLater();
  }

  /**
   * Tries those again that the store did not take, some times: others find no claim meanwhile, and open sessions for the same
   * callers. Then the next renewal tries them.
   */
  async #claimAllAgain(): Promise<void> {
    this.#isClaimingAgain = true;
    while (this.#toClaim.size > 0 && !this.#isClosed) {
      const failed: [string, HeldHome][] = [];
      for (const [key, held] of this.#toClaim) {
        this.#toClaim.delete(key);
        if (this.#held.get(key) !== held) continue;
        await this.#renew(key, held).catch(() => failed.push([key, held]));
      }
      const waitMs = this.#retryMs;
      if (failed.length === 0 || waitMs > LAST_RETRY_MS) continue;
      this.#retryMs *= 2;
      for (const [key, held] of failed) this.#toClaim.set(key, held);
      this.#waiting = new Closing();
      await sleep(this.#options.clock, waitMs, this.#waiting);
    }
    // In the same turn in which nothing is left: what is to be claimed from the next one on begins anew.
    this.#isClaimingAgain = false;
  }

  async #renew(key: string, held: HeldHome): Promise<void> {
    if (await this.#claimHeld(key, held)) await this.#keep(key, held);
  }

  /** Keeps the session of a home. If another process has claimed the home, it is lost. */
  async #keep(key: string, held: HeldHome): Promise<void> {
    if (held.session === null || (await this.#store(held, held.session)) === 'kept') return;
    // The store can have lost the claim, and a new one have begun meanwhile.
    if (this.#held.get(key) === held && (await this.#claimHeld(key, held)))
      await this.#store(held, held.session);
  }

  /** @returns whether the home is still here */
  async #claimHeld(key: string, held: HeldHome): Promise<boolean> {
    const { store, ttlMs } = this.#options;
    const { term } = store;
    const claim = await store.claim(held.id, ttlMs);
    if (this.#held.get(key) !== held) {
      const isWanted = this.#held.has(key) || this.#claiming.has(key) || this.#isClosed;
      // What was given back meanwhile can be the claim of an earlier fencing token.
      if (claim.type === 'claimed' && !isWanted) {
        void store.release(held.id, claim.fencingToken).catch(() => {});
      }
      return false;
    }
    // In a store that loses nothing, a higher token says that another process had the home meanwhile.
    const wasElsewhere = claim.type === 'claimed' && claim.fencingToken > held.fencingToken;
    if (claim.type === 'claimed' && !wasElsewhere) {
      held.fencingToken = claim.fencingToken;
      held.term = term;
      this.#listener.claimed(key);
      return true;
    }
    this.#held.delete(key);
    if (wasElsewhere) void store.release(held.id, claim.fencingToken).catch(() => {});
    this.#listener.lost(key);
    return false;
  }

  #store({ id, fencingToken }: HeldHome, session: KeptSession): Promise<Written> {
    const { sessionId, revision, initialized } = session;
    const calls = session.calls?.map(({ id: call, waitsSinceMs }) => {
      return [call, waitsSinceMs === null ? null : waitsSinceMs + this.#epochMs];
    });
    const { store, ring, audience, ttlMs } = this.#options;
    const isTooLarge = Buffer.byteLength(JSON.stringify(initialized ?? {})) > MAX_INITIALIZED_BYTES;
    const said = isTooLarge ? {} : { initialized };
    const content = Buffer.from(
      JSON.stringify({ v: VERSION, sessionId, revision, calls, ...said }),
    );
    const sealed = Buffer.from(sealBytes(ring, { audience, key: id }, content));
    return store.state(id, 'session', sealed, ttlMs, fencingToken);
  }

  /** When `Clock.elapsed` was 0, in ms since the epoch: other processes have another one. */
  get #epochMs(): number {
    const { clock } = this.#options;
    return Math.round(clock.now() - clock.elapsed());
  }

  #openCalls(stored: unknown): Pick<KeptSession, 'calls'> {
    const read = storedCalls.safeParse(stored);
    if (!read.success) return {};
    const calls = read.data.map(([id, sinceMs]) => ({
      id: upstreamRequestId(id),
      waitsSinceMs: sinceMs === null ? null : sinceMs - this.#epochMs,
    }));
    return { calls };
  }

  /** @returns `null` for what no process of this deployment sealed for this home */
  #open(id: HomeId, sealed: Uint8Array): KeptSession | null {
    const { ring, audience } = this.#options;
    try {
      const token = Buffer.from(sealed).toString('latin1');
      const bytes = openBytes(ring, { audience, key: id }, token, MAX_SEALED_LENGTH);
      const read = parseJson(bytes.toString('utf8')) as Partial<Record<string, unknown>>;
      const { v, sessionId: session, revision, initialized, calls } = read;
      if (v !== VERSION || typeof session !== 'string' || !isLegacyRevision(revision)) return null;
      const said = isJsonObject(initialized) ? { initialized } : {};
      return { sessionId: sessionId(session), revision, ...said, ...this.#openCalls(calls) };
    } catch {
      return null;
    }
  }
}

/** The failure of what needs a session whose home another process has. */
export function elsewhere(): UpstreamFailure {
  const problem = 'another process has the home of the session';
  return new UpstreamFailure('session_gone', problem, { mayHaveActed: true, isElsewhere: true });
}

/** The failure of a call that waited for its home, which another process has by now: that one serves it when it is made again. */
export function takenOver(): UpstreamFailure {
  const problem = 'another process has taken over the home of the session';
  return new UpstreamFailure('upstream_busy', problem, { mayHaveActed: false, retryAfterMs: 0 });
}
