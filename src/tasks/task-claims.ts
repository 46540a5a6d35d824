/** The claims that this process has of its tasks. A new fencing token shows that a claim was lost, maybe to another replica. */
import { inBackground } from '../lib/background.ts';
import { sleep, type Clock } from '../lib/clock.ts';
import type { TaskKey } from '../protocol/ids.ts';
import type { TaskStore } from './store.ts';

interface ClaimedTask {
  /** Claims the task once more, or leaves it. @returns false if the store does not respond */
  claimAgain(): Promise<boolean>;
}

/** How long to wait before claims are tried again that the store did not take, in ms. */
const RETRY_MS = 250;

export class TaskClaims {
  readonly #fencingTokens = new Map<TaskKey, number>();
  /** The tasks to claim again. */
  readonly #toClaim = new Set<ClaimedTask>();
  #isClaimingAgain = false;

  /** Returns the fencing token of a task that is here; `null` if it has not been claimed. */
  tokenOf(key: TaskKey): number | null {
    return this.#fencingTokens.get(key) ?? null;
  }

  /** Notes the claim of a task that has just been taken over. */
  note(key: TaskKey, fencingToken: number): void {
    this.#fencingTokens.set(key, fencingToken);
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
    const lastFencingToken = this.#fencingTokens.get(key);
    const isUnchanged = lastFencingToken === undefined || lastFencingToken === claim.fencingToken;
    // Another replica had the task meanwhile and kept what it knows, unless the store has lost its data.
    const isOurs = isUnchanged || !(await store.has(key));
    if (isOurs && isHere()) this.#fencingTokens.set(key, claim.fencingToken);
    // Nobody would give this claim back: what went away has given back the one before.
    else inBackground(store.release(key, claim.fencingToken));
    return isOurs;
  }

  /** Claims tasks again, each until the store takes it. One that cannot be claimed keeps no other one waiting. */
  async claimAgain(tasks: Iterable<ClaimedTask>, clock: Clock): Promise<void> {
    for (const task of tasks) this.#toClaim.add(task);
    if (this.#isClaimingAgain) return;
    this.#isClaimingAgain = true;
    while (this.#toClaim.size > 0) {
      const failed: ClaimedTask[] = [];
      for (const task of this.#toClaim) {
        this.#toClaim.delete(task);
        if (!(await task.claimAgain())) failed.push(task);
      }
      if (failed.length > 0) await sleep(clock, RETRY_MS);
      for (const task of failed) this.#toClaim.add(task);
    }
    this.#isClaimingAgain = false;
  }

  /** Gives the claim of a task back, if there is one. */
  release(store: TaskStore | null, key: TaskKey): void {
    const fencingToken = this.#fencingTokens.get(key);
    this.#fencingTokens.delete(key);
    if (fencingToken !== undefined) inBackground(store?.release(key, fencingToken));
  }
}
