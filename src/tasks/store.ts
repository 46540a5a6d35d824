/**
 * Where tasks are kept that any replica can go on with: sealed, in the store that the replicas share. Each is in a home of its own, and
 * the replica that has the home goes on with the task.
 */
import { LruMap } from '../lib/containers.ts';
import type { HomeOwnership, OwnershipListener } from '../model/ownership.ts';
import { DirectoryUnavailable, type Written } from '../model/store.ts';
import { isTaskOver } from '../model/task.ts';
import type { HomeId } from '../protocol/ids.ts';
import { openBytes, sealBytes, type Place } from '../seal/envelope.ts';
import type { KeyRing } from '../seal/key-ring.ts';
import type { PointerOwner } from '../seal/pointer.ts';
import { readRecord, writeRecord, type TaskRecord } from './record.ts';

/**
 * The longest record that is opened, in bytes: a request, and its questions or its result, which can be as large as
 * `upstream.maxEvent` can allow. The longest text of Node.js and the longest value of Redis have as many.
 */
const MAX_SEALED_BYTES = 512 * 1024 * 1024;
/** Of how many tasks it is known how far they are. */
const MAX_SEEN = 10_000;
/** How long the store keeps a record longer than the task lives, in ms. */
const STORED_LONGER_MS = 60_000;

/** Who has a task. `record` is how far it was then, or `null` if none is kept. */
export type TaskClaim =
  | { readonly type: 'here'; readonly record: TaskRecord | null }
  | { readonly type: 'elsewhere'; readonly holder: PointerOwner };

/** What rejects does so with `DirectoryUnavailable` if the store does not respond in time. */
export class TaskStore {
  readonly #homes: HomeOwnership;
  readonly #ring: KeyRing<'task'>;
  readonly #audience: string;
  /** How far each task is, as it was seen here last. */
  readonly #seen = new LruMap<HomeId, number>(MAX_SEEN);

  /** @param audience the name of the deployment */
  constructor(homes: HomeOwnership, ring: KeyRing<'task'>, audience: string) {
    this.#homes = homes;
    this.#ring = ring;
    this.#audience = audience;
  }

  /**
   * Keeps a record: an end of the task, whoever has it now, or how far it is.
   * @param leftMs how long the task lives yet
   */
  async keep(home: HomeId, record: TaskRecord, leftMs: number): Promise<Written> {
    const ttlMs = leftMs + STORED_LONGER_MS;
    const sealed = Buffer.from(sealBytes(this.#ring, this.#placeOf(home), writeRecord(record)));
    const written = isTaskOver(record.state)
      ? await this.#homes.end(home, 'task', sealed, ttlMs)
      : await this.#homes.state(home, 'task', sealed, ttlMs);
    if (written === 'kept') this.#see(home, record);
    return written;
  }

  /**
   * Returns the record that was kept last, or `null`.
   * @throws DirectoryUnavailable also if there is none, while its replica may be about to keep it again, or an older one than
   *   was seen here: somebody has put that back, or the store has lost the later one
   */
  async find(home: HomeId): Promise<TaskRecord | null> {
    return this.#open(home, await this.#homes.read(home, 'task'));
  }

  /**
   * Claims a task that was just found for this replica, unless another live one has it.
   * @param onLost called when another one has taken it over
   */
  async claim(home: HomeId, onLost: () => void): Promise<TaskClaim> {
    const claim = await this.#homes.claim(home, listenerOf(onLost), 'task', 'kept');
    if (claim.type === 'elsewhere') return claim;
    try {
      return { type: 'here', record: this.#open(home, claim.kept) };
    } catch (error) {
      this.giveUp(home, true);
      throw error;
    }
  }

  /** Claims a task that is new. */
  async claimNew(home: HomeId, onLost: () => void): Promise<void> {
    await this.#homes.claim(home, listenerOf(onLost), 'task', 'new');
  }

  /** Returns who had a task when this replica last claimed it in vain, or `null`. */
  lastHolder(home: HomeId): PointerOwner | null {
    return this.#homes.lastHolder(home);
  }

  /** Tells whether this replica still has a task. While that cannot be found out, it has. Never rejects. */
  async isStillHere(home: HomeId): Promise<boolean> {
    return this.#homes.isHere(home) && (await this.#homes.askStore(home)) !== false;
  }

  /** Gives a task up, if this replica has it. @param isLeft whether what is kept of it is for others */
  giveUp(home: HomeId, isLeft: boolean): void {
    this.#homes.giveUp(home, isLeft);
  }

  #open(home: HomeId, sealed: Uint8Array | null): TaskRecord | null {
    const record = sealed && this.#read(home, sealed);
    if (record !== null && !this.#see(home, record)) {
      throw new DirectoryUnavailable('data', 'Redis has an older record of the task');
    }
    return record;
  }

  #read(home: HomeId, sealed: Uint8Array): TaskRecord | null {
    try {
      const text = Buffer.from(sealed).toString('latin1');
      return readRecord(openBytes(this.#ring, this.#placeOf(home), text, MAX_SEALED_BYTES));
    } catch {
      return null;
    }
  }

  /** Remembers how far a task is. No state is later than an end. @returns false if a later one was seen here */
  #see(home: HomeId, { state, changes }: TaskRecord): boolean {
    const isAt = isTaskOver(state) ? Infinity : changes;
    const wasAt = this.#seen.get(home) ?? 0;
    if (isAt > wasAt) this.#seen.set(home, isAt);
    return isAt >= wasAt;
  }

  #placeOf(home: HomeId): Place {
    return { audience: this.#audience, key: home };
  }
}

function listenerOf(lost: () => void): OwnershipListener {
  return { claimed: () => {}, lost };
}
