/**
 * The homes of a route, where several processes serve the same clients: each is at one process. What that one knows of the session is
 * kept, sealed: when that process is gone, the next one goes on with the same session. Credentials are never kept.
 */
import { z } from 'zod';
import type { Clock } from '../lib/clock.ts';
import { sha256 } from '../lib/crypto.ts';
import type { HomeOwnership } from '../model/ownership.ts';
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
  readonly ownership: HomeOwnership;
  readonly ring: KeyRing<'home'>;
  /** The name of the deployment. */
  readonly audience: string;
  readonly route: string;
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
export type PlacedHome =
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

const VERSION = 1;
/** The id of each call, and since when it waits, in ms since the epoch. */
const storedCalls = z.array(z.tuple([z.union([z.string(), z.number()]), z.number().nullable()]));
/** The most that is kept of what a server said of itself, in bytes. A session with more is kept without it. */
const MAX_INITIALIZED_BYTES = 8 * 1024;
const MAX_SEALED_LENGTH = 20 * 1024;

export class HomePlacement {
  readonly #options: HomePlacementOptions;
  /** The ids of the homes that this route has claimed, by the keys of their owners. */
  readonly #ids = new Map<string, HomeId>();
  /** The homes that it has given up, whose sessions no other process gets to know, and whether each is certain of that. */
  readonly #abandoned = new Map<string, () => boolean>();
  #isClosed = false;
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
    return this.#ids.has(key);
  }

  /** Whether the home is here, and no other process can have taken it over meanwhile. */
  isConfirmed(key: string): boolean {
    const id = this.#ids.get(key);
    if (id !== undefined) return this.#options.ownership.isConfirmed(id);
    return this.#abandoned.get(key)?.() ?? false;
  }

  /** See `HomeOwnership.stillHere`. */
  stillHere(key: string): Promise<boolean> | null {
    const id = this.#ids.get(key);
    return id === undefined ? null : this.#options.ownership.stillHere(id);
  }

  /** See `HomeOwnership.askStore`. */
  askStore(key: string): Promise<boolean> | null {
    const id = this.#ids.get(key);
    return id === undefined ? null : this.#options.ownership.askStore(id);
  }

  /**
   * Claims a home for this process, unless another live one has it.
   * @param mayRemember whether the one that had it when it was last claimed will do
   * @throws DirectoryUnavailable
   */
  async claim(key: string, mayRemember = false): Promise<PlacedHome> {
    const { ownership, route } = this.#options;
    const id = homeId(`home:${sha256(JSON.stringify([route, key]))}`);
    const holder = mayRemember ? ownership.lastHolder(id) : null;
    if (holder !== null) return { type: 'elsewhere', holder };
    const listener = {
      claimed: () => {
        if (!this.#isClosed) this.#ids.set(key, id);
        this.#listener.claimed(key);
      },
      lost: () => {
        this.#ids.delete(key);
        this.#listener.lost(key);
      },
    };
    let claim = await ownership.claim(id, listener);
    // The route with other settings was claiming it, and has let it go.
    const isHere = this.#isClosed || this.#ids.has(key);
    if (claim.type === 'here' && !isHere) claim = await ownership.claim(id, listener);
    if (claim.type === 'elsewhere') return claim;
    // The request that waits for it goes on here. Nobody would give the home up, so it is not renewed, and expires.
    if (this.#isClosed) ownership.letGo(id);
    return { type: 'here', session: claim.kept && this.#open(id, claim.kept) };
  }

  /** Keeps the session of a home, if this process has the home. */
  keep(key: string, session: KeptSession): void {
    const id = this.#ids.get(key);
    if (id !== undefined) this.#options.ownership.keep(id, () => this.#seal(id, session));
  }

  /**
   * Gives a home up.
   * @param isSessionLeft whether the server still has the session, so that another process can go on with it
   */
  giveUp(key: string, isSessionLeft: boolean): void {
    this.#giveUp(key, isSessionLeft);
  }

  /** Gives all homes up at once, with their sessions. What is claimed for them from now on is another home. */
  abandon(): void {
    for (const key of [...this.#ids.keys()]) this.#abandoned.set(key, this.#giveUp(key, false));
    this.#isClosed = true;
  }

  /** Lets go of all homes. Their claims end with the lease of this process, and the sessions are left to the next. */
  close(): void {
    this.#isClosed = true;
    for (const id of this.#ids.values()) this.#options.ownership.letGo(id);
    this.#ids.clear();
  }

  #giveUp(key: string, isSessionLeft: boolean): () => boolean {
    const id = this.#ids.get(key);
    this.#ids.delete(key);
    return id === undefined ? () => false : this.#options.ownership.giveUp(id, isSessionLeft);
  }

  #seal(id: HomeId, session: KeptSession): Uint8Array {
    const { sessionId, revision, initialized } = session;
    const calls = session.calls?.map(({ id: call, waitsSinceMs }) => {
      return [call, waitsSinceMs === null ? null : waitsSinceMs + this.#epochMs];
    });
    const { ring, audience } = this.#options;
    const isTooLarge = Buffer.byteLength(JSON.stringify(initialized ?? {})) > MAX_INITIALIZED_BYTES;
    const said = isTooLarge ? {} : { initialized };
    const content = JSON.stringify({ v: VERSION, sessionId, revision, calls, ...said });
    return Buffer.from(sealBytes(ring, { audience, key: id }, Buffer.from(content)));
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
