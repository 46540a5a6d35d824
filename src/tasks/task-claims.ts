/** The claims that this process has of its tasks. A new epoch shows that a claim was lost, maybe to another replica. */
import type { TaskKey } from '../protocol/ids.ts';
import type { TaskStore } from './store.ts';

export class TaskClaims {
  readonly #epochs = new Map<TaskKey, number>();

  /** Notes the claim of a task that has just been taken over. */
  note(key: TaskKey, epoch: number): void {
    this.#epochs.set(key, epoch);
  }

  /**
   * Claims a task that is here, for the first time or again.
   * @param leftMs how long the task lives
   * @param isHere tells whether it still is: it can go away before the store replies
   * @returns false if another replica has the task. @throws DirectoryUnavailable
   */
  async claim(
    store: TaskStore,
    key: TaskKey,
    leftMs: number,
    isHere: () => boolean,
  ): Promise<boolean> {
    const claim = await store.claim(key, leftMs);
    if (claim.type === 'held') return false;
    const lastEpoch = this.#epochs.get(key);
    const isUnchanged = lastEpoch === undefined || lastEpoch === claim.epoch;
    // Another replica had the task meanwhile and kept what it knows, unless the store has lost its data.
    const isOurs = isUnchanged || !(await store.has(key));
    if (isHere()) this.#epochs.set(key, claim.epoch);
    // Nobody would give this claim back: what went away has given back the one before.
    else void store.release(key, claim.epoch);
    return isOurs;
  }

  /** Gives the claim of a task back, if there is one. */
  release(store: TaskStore | null, key: TaskKey): void {
    const epoch = this.#epochs.get(key);
    this.#epochs.delete(key);
    if (epoch !== undefined) void store?.release(key, epoch);
  }
}
