/**
 * Where tasks are kept that any replica can go on with: sealed, in the store that the replicas share. Each is in a home of its own, and
 * the replica that has the home goes on with the task.
 */
import { LruMap } from '../lib/containers.ts';
import type { HomeOwnership } from '../model/ownership.ts';
import { DirectoryUnavailable, type Written } from '../model/store.ts';
import { isTaskOver } from '../model/task.ts';
import type { HomeId } from '../protocol/ids.ts';
import { openBytes, sealBytes, type Place } from '../seal/envelope.ts';
import type { KeyRing } from '../seal/key-ring.ts';
import type { PointerOwner } from '../seal/pointer.ts';
import {
  readRecord,
  readRequest,
  writeRecord,
  writeRequest,
  type TaskChange,
  type TaskRecord,
} from './record.ts';

/**
 * The longest record that is opened, in bytes: a request, and its questions or its result, which can be as large as
 * `upstream.maxEvent` can allow. The longest text of Node.js and the longest value of Redis have as many.
 */
const MAX_SEALED_BYTES = 512 * 1024 * 1024;
/** Of how many tasks it is known how far they are. */
const MAX_SEEN = 10_000;
/** How long the store keeps a record longer than the task lives, in ms. */
const STORED_LONGER_MS = 60_000;

/** What is kept of a task: what changes, and the request of its call. */
type KeptPart = 'task' | 'request';

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
   * @param isWhole whether to keep the request of its call as well, as for the first time
   */
  async keep(home: HomeId, record: TaskRecord, leftMs: number, isWhole: boolean): Promise<Written> {
    const ttlMs = leftMs + STORED_LONGER_MS;
    const request = isWhole && record.retry && writeRequest(record.retry.request);
    const change = this.#seal(home, 'task', writeRecord(record));
    const isOver = isTaskOver(record.state);
    const [, written] = await Promise.all([
      // First: no record may be there without its request.
      request && this.#homes.state(home, 'request', this.#seal(home, 'request', request), ttlMs),
      isOver
        ? this.#homes.end(home, 'task', change, ttlMs)
        : this.#homes.state(home, 'task', change, ttlMs),
    ]);
    if (written === 'kept') this.#see(home, record);
    if (isOver) this.#homes.forget(home, 'request');
    return written;
  }

  /**
   * Returns the record that was kept last, or `null`.
   * @throws DirectoryUnavailable also if there is none, while its replica may be about to keep it again, or an older one than
   *   was seen here: somebody has put that back, or the store has lost the later one
   */
  async find(home: HomeId): Promise<TaskChange | null> {
    return this.#open(home, await this.#homes.read(home, 'task'));
  }

  /**
   * Claims a task that was just found for this replica, unless another live one has it.
   * @param onLost called when another one has taken it over
   */
  async claim(home: HomeId, onLost: () => void): Promise<TaskClaim> {
    const claim = await this.#homes.claim(home, { lost: onLost }, 'task', 'kept');
    if (claim.type === 'elsewhere') return claim;
    return { type: 'here', record: await this.#whole(home, this.#open(home, claim.kept)) };
  }

  /** Claims a task that is new. */
  async claimNew(home: HomeId, onLost: () => void): Promise<void> {
    await this.#homes.claim(home, { lost: onLost }, 'task', 'new');
  }

  /** Returns who had a task when this replica last claimed it in vain, or `null`. */
  lastHolder(home: HomeId): PointerOwner | null {
    return this.#homes.lastHolder(home);
  }

  /** Whether this replica has a task, as far as it knows. */
  isHere(home: HomeId): boolean {
    return this.#homes.isHere(home);
  }

  /** Tells whether this replica still has a task. While that cannot be found out, it has. Never rejects. */
  async isStillHere(home: HomeId): Promise<boolean> {
    return this.#homes.isHere(home) && (await this.#homes.askStore(home)) !== false;
  }

  /** Gives a task up, if this replica has it. @param isLeft whether what is kept of it is for others */
  giveUp(home: HomeId, isLeft: boolean): void {
    if (!isLeft) this.#homes.forget(home, 'request');
    this.#homes.giveUp(home, isLeft);
  }

  /** Adds the request of the call to a record that is not over. @returns `null` if it is not kept */
  async #whole(home: HomeId, change: TaskChange | null): Promise<TaskRecord | null> {
    if (!change?.retry) return change && { ...change, retry: null };
    const sealed = await this.#homes.read(home, 'request');
    const request = sealed && this.#unseal(home, 'request', sealed, readRequest);
    return request && { ...change, retry: { ...change.retry, request } };
  }

  #open(home: HomeId, sealed: Uint8Array | null): TaskChange | null {
    const record = sealed && this.#unseal(home, 'task', sealed, readRecord);
    if (record !== null && !this.#see(home, record)) {
      throw new DirectoryUnavailable('data', 'Redis has an older record of the task');
    }
    return record;
  }

  #seal(home: HomeId, part: KeptPart, content: Uint8Array): Uint8Array {
    return Buffer.from(sealBytes(this.#ring, this.#placeOf(home, part), content));
  }

  /** @returns `null` for what no replica of this deployment sealed for this place */
  #unseal<Content>(
    home: HomeId,
    part: KeptPart,
    sealed: Uint8Array,
    read: (bytes: Uint8Array) => Content,
  ): Content | null {
    try {
      const text = Buffer.from(sealed).toString('latin1');
      return read(openBytes(this.#ring, this.#placeOf(home, part), text, MAX_SEALED_BYTES));
    } catch {
      return null;
    }
  }

  /** Remembers how far a task is. No state is later than an end. @returns false if a later one was seen here */
  #see(home: HomeId, { state, changes }: TaskChange): boolean {
    const isAt = isTaskOver(state) ? Infinity : changes;
    const wasAt = this.#seen.get(home) ?? 0;
    if (isAt > wasAt) this.#seen.set(home, isAt);
    return isAt >= wasAt;
  }

  #placeOf(home: HomeId, part: KeptPart): Place {
    return { audience: this.#audience, key: `${home}:${part}` };
  }
}
