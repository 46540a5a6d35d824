/** Keeps the record of a task in the store. While the store is away, the process that has the task knows more. */
import { sleep, type Clock, type Closed } from '../lib/clock.ts';
import { isTaskOver } from '../model/task.ts';
import type { TaskKey } from '../protocol/ids.ts';
import type { TaskRecord } from './record.ts';
import type { TaskStore } from './store.ts';

export interface TaskSaverOptions {
  readonly key: TaskKey;
  /** `null` if tasks live in this process only: nothing is kept then. */
  readonly store: TaskStore | null;
  readonly clock: Clock;
  /** The record as it is now. */
  readonly record: () => TaskRecord;
  /** Aborts when the task is gone from here: then nothing more is kept. */
  readonly gone: Closed;
  /** Claims the task once more. Resolves to false if another replica has it. Rejects with DirectoryUnavailable. */
  readonly claim: () => Promise<boolean>;
  /** Whether another replica had the task, which was taken for dead: if it lives, it can still keep an end. */
  readonly isTakenOver: () => boolean;
  /**
   * Called when nothing more is to be kept: the store has the end of the task, or another replica has the task.
   * @param end the end that another replica has kept, if that is why
   */
  readonly onOver: (end: TaskRecord | null) => void;
}

/** How long to wait before a record is kept again that the store did not take, in ms. */
const RETRY_MS = 1_000;
/** How long the store keeps a record longer than the task lives, in ms. */
const STORED_LONGER_MS = 60_000;

export class TaskSaver {
  readonly #options: TaskSaverOptions;
  #saving: Promise<void> | null = null;
  #isSaved = true;

  constructor(options: TaskSaverOptions) {
    this.#options = options;
  }

  /** Ends when the store has the record, or the task is gone; `null` if nothing is to be saved. */
  get saving(): Promise<void> | null {
    return this.#saving;
  }

  /** Keeps the record. @throws DirectoryUnavailable */
  async keep(): Promise<void> {
    const { key, store, record, clock } = this.#options;
    const { createdAtMs, ttlMs } = record();
    const leftMs = Math.max(0, createdAtMs + ttlMs - clock.now());
    await store?.keep(key, record(), leftMs + STORED_LONGER_MS);
  }

  /** Has the record kept, and what changes meanwhile after that. */
  save(): void {
    this.#isSaved = false;
    if (this.#options.store === null) return;
    this.#saving ??= this.#saveChanges();
  }

  /** Finds the end of the task that another replica has kept. @returns `null` if there is none, or the store is away */
  async endKept(): Promise<TaskRecord | null> {
    const { key, store } = this.#options;
    const kept = (await store?.find(key).catch(() => null)) ?? null;
    return kept !== null && isTaskOver(kept.state) ? kept : null;
  }

  async #saveChanges(): Promise<void> {
    const { clock, record, gone, isTakenOver, onOver } = this.#options;
    try {
      let hasFailed = false;
      while (!this.#isSaved) {
        this.#isSaved = true;
        try {
          const end = hasFailed || isTakenOver() ? await this.endKept() : null;
          const isLeft = end !== null || (hasFailed && (await this.#isElsewhere()));
          if (gone.aborted) return;
          if (isLeft) return onOver(end);
          await this.keep();
          hasFailed = false;
        } catch {
          this.#isSaved = false;
          hasFailed = true;
          await sleep(clock, RETRY_MS, gone);
          if (gone.aborted) return;
        }
      }
      // Any replica can serve it now.
      if (isTaskOver(record().state)) onOver(null);
    } finally {
      // In the same turn in which the loop ends: a change in the next one would wait for nobody.
      this.#saving = null;
    }
  }

  /**
   * Tells whether another replica has taken the task for its own while the store was away, and knows more. One that has ended
   * here has ended for all.
   * @throws DirectoryUnavailable
   */
  async #isElsewhere(): Promise<boolean> {
    const { record, claim } = this.#options;
    return !isTaskOver(record().state) && !(await claim());
  }
}
