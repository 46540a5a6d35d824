/**
 * Where tasks are kept that any replica can go on with: sealed, in the store that the replicas share. One replica at a
 * time has a task, as it has a call.
 */
import { LruMap } from '../lib/containers.ts';
import { DirectoryUnavailable, type Claim, type Store, type Written } from '../model/store.ts';
import { isTaskOver } from '../model/task.ts';
import type { TaskKey } from '../protocol/ids.ts';
import { openBytes, sealBytes, type Place } from '../seal/envelope.ts';
import type { KeyRing } from '../seal/key-ring.ts';
import { readRecord, writeRecord, type TaskRecord } from './record.ts';

/**
 * The longest record that is opened, in bytes: a request, and its questions or its result, which can be as large as
 * `upstream.maxEvent` can allow. The longest text of Node.js and the longest value of Redis have as many.
 */
const MAX_SEALED_BYTES = 512 * 1024 * 1024;
/** Of how many tasks it is known how far they are. */
const MAX_SEEN = 10_000;
/** How long a claim outlives its task, in ms. */
const CLAIMED_LONGER_MS = 60_000;

/** Every method rejects with `DirectoryUnavailable` if the store does not respond in time. */
export class TaskStore {
  readonly #store: Store;
  readonly #ring: KeyRing<'task'>;
  readonly #audience: string;
  /** How far each task is, as it was seen here last. */
  readonly #seen = new LruMap<TaskKey, number>(MAX_SEEN);

  /** @param audience the name of the deployment */
  constructor(store: Store, ring: KeyRing<'task'>, audience: string) {
    this.#store = store;
    this.#ring = ring;
    this.#audience = audience;
  }

  /**
   * Keeps a record for `ttlMs`: an end of the task, whoever has it now, or how far it is.
   * @param fencingToken of the claim of this replica
   */
  async keep(
    key: TaskKey,
    record: TaskRecord,
    ttlMs: number,
    fencingToken: number | null,
  ): Promise<Written> {
    const sealed = Buffer.from(sealBytes(this.#ring, this.#placeOf(key), writeRecord(record)));
    const written = isTaskOver(record.state)
      ? await this.#store.end(key, 'task', sealed, ttlMs)
      : await this.#store.state(key, 'task', sealed, ttlMs, fencingToken);
    if (written === 'kept') this.#see(key, record);
    return written;
  }

  /**
   * Returns the record that was kept last, or `null`.
   * @throws DirectoryUnavailable also if there is none, while its replica may be about to keep it again, or an older one than
   *   was seen here: somebody has put that back, or the store has lost the later one
   */
  async find(key: TaskKey): Promise<TaskRecord | null> {
    const sealed = await this.#store.read(key, 'task');
    if (sealed === null) {
      await this.#store.requireComplete();
      return null;
    }
    const record = this.#open(key, sealed);
    if (record !== null && !this.#see(key, record)) {
      throw new DirectoryUnavailable('data', 'Redis has an older record of the task');
    }
    return record;
  }

  /** Tells whether a record is kept, by whichever build. */
  async has(key: TaskKey): Promise<boolean> {
    return (await this.#store.read(key, 'task')) !== null;
  }

  /**
   * Claims a task for this replica, unless another live one has it.
   * @param leftMs how long the task lives
   */
  claim(key: TaskKey, leftMs: number): Promise<Claim> {
    return this.#store.claim(key, leftMs + CLAIMED_LONGER_MS);
  }

  /** Gives a claim up. What the store is not told expires there. */
  async release(key: TaskKey, fencingToken: number): Promise<void> {
    await this.#store.release(key, fencingToken).catch(() => {});
  }

  async forget(key: TaskKey, fencingToken: number | null): Promise<void> {
    await this.#store.forget(key, 'task', fencingToken).catch(() => {});
  }

  #open(key: TaskKey, sealed: Uint8Array): TaskRecord | null {
    try {
      const text = Buffer.from(sealed).toString('latin1');
      return readRecord(openBytes(this.#ring, this.#placeOf(key), text, MAX_SEALED_BYTES));
    } catch {
      return null;
    }
  }

  /** Remembers how far a task is. No state is later than an end. @returns false if a later one was seen here */
  #see(key: TaskKey, { state, changes }: TaskRecord): boolean {
    const isAt = isTaskOver(state) ? Infinity : changes;
    const wasAt = this.#seen.get(key) ?? 0;
    if (isAt > wasAt) this.#seen.set(key, isAt);
    return isAt >= wasAt;
  }

  #placeOf(key: TaskKey): Place {
    return { audience: this.#audience, key };
  }
}
