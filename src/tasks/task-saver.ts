/** Keeps the record of a task in the store. While the store is unreachable, the process that has the task knows more. */
import { Closing, sleep, timeLeftMs, type Clock, type Closed } from '../lib/clock.ts';
import { isTaskOver } from '../model/task.ts';
import type { HomeId } from '../protocol/ids.ts';
import type { TaskChange, TaskRecord } from './record.ts';
import type { TaskStore } from './store.ts';

export interface TaskSaverOptions {
  readonly home: HomeId;
  /** `null` if tasks live in this process only: nothing is kept then. */
  readonly store: TaskStore | null;
  readonly clock: Clock;
  /** The record as it is now. */
  readonly record: () => TaskRecord;
  /** Aborts when the task is gone from here: then nothing more is kept. */
  readonly gone: Closed;
  /**
   * Called when nothing more is to be kept: the store has the end of the task, or another replica has the task.
   * @param end the end that another replica has kept, if that is why
   */
  readonly onOver: (end: TaskChange | null) => void;
}

/** How long to wait before a record is kept again of which only the progress has changed, in ms. */
const PROGRESS_MS = 1_000;
/** How long to wait before a record is kept again that the store did not take, in ms. */
const RETRY_MS = 1_000;

export class TaskSaver {
  readonly #options: TaskSaverOptions;
  #saving: Promise<void> | null = null;
  #isSaved = true;
  /** Whether the request of the call is to be kept again, too. */
  #isWhole = false;
  /** Ends the wait for more progress. */
  #hurry = new Closing();
  /** When the record was last being kept, in ms of `Clock.elapsed`. */
  #keptAtMs = -Infinity;

  constructor(options: TaskSaverOptions) {
    this.#options = options;
  }

  /** Ends when the store has the record, or the task is gone; `null` if nothing is to be saved. */
  get saving(): Promise<void> | null {
    return this.#saving;
  }

  /**
   * Has the record kept, and what changes meanwhile after that.
   * @param what has changed. Progress is kept once a second at most, since the whole record is written
   */
  save(what: 'state' | 'progress' = 'state'): void {
    this.#isSaved = false;
    const { store } = this.#options;
    if (store === null) return;
    if (what === 'state') this.hurry();
    this.#saving ??= this.#saveChanges(store);
  }

  /** Has all of the record kept again, as the store may have lost it. */
  saveAll(): void {
    this.#isWhole = true;
    this.save();
  }

  /** Has what waits to be kept kept at once. */
  hurry(): void {
    this.#hurry.abort();
  }

  /** Finds the end of the task that another replica has kept. @returns `null` if there is none, or the store is unreachable */
  async endKept(): Promise<TaskChange | null> {
    const { home, store } = this.#options;
    const kept = (await store?.find(home).catch(() => null)) ?? null;
    return kept !== null && isTaskOver(kept.state) ? kept : null;
  }

  async #saveChanges(store: TaskStore): Promise<void> {
    const { home, clock, record, gone, onOver } = this.#options;
    try {
      while (!this.#isSaved) {
        await this.#waitForProgress();
        if (gone.aborted) return;
        this.#isSaved = true;
        const { createdAtMs, ttlMs } = record();
        const leftMs = timeLeftMs(clock, createdAtMs, ttlMs);
        const isWhole = this.#isWhole;
        this.#isWhole = false;
        const written = await store.keep(home, record(), leftMs, isWhole).catch(() => null);
        if (written === 'kept') continue;
        const isLost = written === 'lost' && !(await store.isStillHere(home));
        if (written === 'ended' || isLost) {
          const end = await this.endKept();
          return gone.aborted ? undefined : onOver(end);
        }
        this.#isSaved = false;
        this.#isWhole ||= isWhole;
        await sleep(clock, RETRY_MS, gone);
        if (gone.aborted) return;
      }
      // Any replica can serve it now.
      if (isTaskOver(record().state)) onOver(null);
    } finally {
      // In the same turn in which the loop ends: a change in the next one would wait for nobody.
      this.#saving = null;
    }
  }

  async #waitForProgress(): Promise<void> {
    const { clock, gone } = this.#options;
    const waitMs = this.#keptAtMs + PROGRESS_MS - clock.elapsed();
    if (waitMs > 0) await sleep(clock, waitMs, gone, this.#hurry);
    this.#hurry = new Closing();
    this.#keptAtMs = clock.elapsed();
  }
}
