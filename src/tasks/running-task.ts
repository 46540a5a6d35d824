/**
 * A task at the replica that has it. It stands in for the client of its call: it waits for the call, shows its questions,
 * and retries with the answers. So all that holds for calls of clients that retry holds for tasks.
 */
import { inBackground, reportDefect } from '../lib/background.ts';
import { Closing, sleep, timeLeftMs, type Clock, type Timer, type Closed } from '../lib/clock.ts';
import { callFailure } from '../model/failures.ts';
import type { Caller, Failure, Waiter, WaitingTask } from '../model/request.ts';
import { isTaskOver } from '../model/task.ts';
import type { HomeId } from '../protocol/ids.ts';
import type { JsonObject } from '../protocol/json.ts';
import type { ServerTask } from '../protocol/task.ts';
import {
  isStorable,
  TASK_TOO_LARGE,
  writeRecord,
  type TaskChange,
  type TaskRecord,
} from './record.ts';
import type { TaskStore } from './store.ts';
import { TaskSaver } from './task-saver.ts';
import { failedBy, nextStep } from './next-step.ts';
import { stopElsewhere, type TaskCalls } from './task-calls.ts';

export interface RunningTaskOptions {
  readonly home: HomeId;
  readonly calls: TaskCalls;
  /** `null` if tasks live in this process only. */
  readonly store: TaskStore | null;
  readonly clock: Clock;
  /** Called once, when nothing of the task is left here. */
  readonly onGone: () => void;
  /** Called if the server could not be told that the task was cancelled. */
  readonly onNotStopped: () => void;
}

/** How long to wait before the call is retried that could not be continued now, in ms. */
const RETRY_MS = 1_000;
/** How long an answer waits to be taken or refused before it is acknowledged, in ms. */
const ACKNOWLEDGE_MS = 250;
/** How long a task that is left, or has ended, waits for the store to take it, in ms. */
const KEPT_WITHIN_MS = 2_000;
/** The least interval that a server can ask for, in ms. */
const MIN_POLL_INTERVAL_MS = 500;
/** Of what a server says of its progress, in UTF-16 code units: the record of the task has to hold it. */
const MAX_STATUS_CHARACTERS = 64 * 1024;
const PROGRESS_TOKEN = 'task';
const DEFECT = callFailure('internal_error', 'unknown', 'Internal error');

export class RunningTask implements WaitingTask {
  readonly #options: RunningTaskOptions;
  #record: TaskRecord;
  /** Whose credentials go upstream: those of the last request about the task. */
  #caller: Caller;
  /** Closes the waiter that waits for the call; `null` while none does. */
  #waiting: AbortController | null = null;
  /** Whether the call has moved since the task last looked at it. */
  #hasMoved = false;
  /** Whether another replica had the task, which was taken for dead. */
  #isTakenOver = false;
  /** Whether the server refused the credentials, and no request about the task has come since. */
  #isShutOut = false;
  #isGone = false;
  #expiry: Timer;
  readonly #saver: TaskSaver;
  #nextChange = new Closing();
  readonly #over = new AbortController();

  constructor(record: TaskRecord, caller: Caller, options: RunningTaskOptions) {
    this.#options = options;
    this.#record = record;
    this.#caller = caller;
    this.#expiry = options.clock.setTimer(this.leftMs, () => this.#expire());
    this.#saver = new TaskSaver({
      ...options,
      record: () => this.#record,
      gone: this.#over.signal,
      onOver: (end) => this.#leaveToHolder(end),
    });
  }

  get record(): TaskRecord {
    return this.#record;
  }

  get leftMs(): number {
    const { createdAtMs, ttlMs } = this.#record;
    return timeLeftMs(this.#options.clock, createdAtMs, ttlMs);
  }

  get credentialsKey(): string | null {
    return this.#isGone ? null : this.#caller.credentialsKey;
  }

  get endsWithProcess(): boolean {
    return this.#options.store === null;
  }

  /** Whether the task went to another replica, maybe while a request about it was on its way here. */
  get isElsewhere(): boolean {
    return this.#isGone && !isTaskOver(this.#record.state);
  }

  /** Has later requests of the call use the credentials of this caller. */
  usedBy(caller: Caller): void {
    this.#caller = caller;
    if (this.#isShutOut) this.#tellChange();
  }

  /** Aborts when the task changes, or is gone from here. */
  get nextChange(): Closed {
    return this.#nextChange;
  }

  /** Waits for the call from here on. */
  begin(): void {
    inBackground(this.#wait());
  }

  moved(isWorking = false): void {
    if (isWorking && this.#record.state.status === 'input_required')
      this.#change({ state: { status: 'working' } });
    if (this.#waiting !== null) this.#hasMoved = true;
    else inBackground(this.#wait());
  }

  learned({ ttlMs, pollIntervalMs, statusMessage }: ServerTask): void {
    if (isTaskOver(this.#record.state)) return;
    const { ttlMs: ownMs, pollIntervalMs: ownIntervalMs } = this.#record;
    const lifeMs = ttlMs === null ? ownMs : Math.min(Math.max(1, Math.round(ttlMs)), ownMs);
    const intervalMs = Math.max(MIN_POLL_INTERVAL_MS, Math.ceil(pollIntervalMs));
    if (statusMessage === null && lifeMs === ownMs && intervalMs === ownIntervalMs) return;
    this.#change({
      ...{ ttlMs: lifeMs, pollIntervalMs: intervalMs },
      ...(statusMessage !== null && { statusMessage }),
    });
    if (lifeMs === ownMs) return;
    this.#expiry.cancel();
    this.#expiry = this.#options.clock.setTimer(this.leftMs, () => this.#expire());
  }

  /**
   * Gives the answers to those of the questions that are open.
   * @returns the failure if one does not fit its question; `null` otherwise, when the server has them or will get them
   */
  async answer(answers: JsonObject): Promise<Failure | null> {
    const { clock } = this.#options;
    // Answers that come together are given one after the other.
    if (this.#record.state.status === 'working')
      await sleep(clock, ACKNOWLEDGE_MS, this.#over.signal, this.#nextChange);
    const { state, retry } = this.#record;
    if (state.status !== 'input_required' || retry === null) return null;
    const given = Object.entries(answers).filter(([key]) =>
      Object.hasOwn(state.inputRequests, key),
    );
    if (given.length === 0) return null;
    this.#change({
      state: { status: 'working' },
      retry: { ...retry, inputResponses: Object.fromEntries(given) },
    });
    return Promise.race([
      this.#wait({ state, retry }),
      sleep(clock, ACKNOWLEDGE_MS, this.#over.signal).then(() => null),
    ]);
  }

  /** Ends the task for its client, and its call at the server. */
  cancel(): void {
    if (isTaskOver(this.#record.state)) return;
    this.#stopCall();
    this.#change({ state: { status: 'cancelled' }, retry: null });
  }

  /** Leaves the task to whichever replica its client comes to next. Resolves when the store knows it, or does not respond. */
  async leave(): Promise<void> {
    // What its call was left with, such as a question that had just come, is on its way here.
    if (this.#waiting !== null) await new Promise(setImmediate);
    this.#saver.hurry();
    await this.#saved();
    this.#goAway();
  }

  /** Resolves when what is told of the task here is told by other replicas, too: they know its end, or the store does not respond. */
  async told(): Promise<void> {
    if (isTaskOver(this.#record.state)) await this.#saved();
  }

  async #saved(): Promise<void> {
    const { saving } = this.#saver;
    const late = () => sleep(this.#options.clock, KEPT_WITHIN_MS, this.#over.signal);
    if (saving !== null) await Promise.race([saving, late()]);
  }

  /** Keeps the record again, as the store may have lost it, or leaves the task to the replica that has taken it over. */
  keepAgain(): void {
    this.#saver.saveAll();
  }

  /** Notes that another replica had the task, which was taken for dead. */
  noteTakenOver(): void {
    this.#isTakenOver = true;
  }

  /** Ends the task if the replica that had it was alive, and has kept its end meanwhile. */
  async lookForEnd(): Promise<void> {
    if (!this.#isTakenOver || isTaskOver(this.#record.state)) return;
    const kept = await this.#saver.endKept();
    if (kept === null) return;
    const { state, statusMessage } = kept;
    // While a waiter waited here, that replica could not cancel the call.
    if (state.status === 'cancelled') this.#waiting?.abort();
    this.#change({ state, statusMessage, retry: null });
  }

  /**
   * Waits for the call until it asks or ends; a defect ends the task.
   * @param asked what was asked, if the task has answers to that; unknown if they come from another replica, or from a wait before
   * @returns the failure of answers that do not fit, or were not taken
   */
  #wait(asked: Partial<TaskRecord> | null = null): Promise<Failure | null> {
    return this.#untilShown(asked).catch((error: unknown) => {
      this.#fail(DEFECT, true);
      reportDefect({ error });
      return DEFECT;
    });
  }

  async #untilShown(lastAsked: Partial<TaskRecord> | null): Promise<Failure | null> {
    const { calls } = this.#options;
    let asked = lastAsked;
    let failure: Failure | null = null;
    /** The same, until the call shows that it goes on without the answers: then it has not ended with them. */
    let cause: Failure | null = null;
    /** Whether the credentials of the last retry came after a refusal of those before. */
    let areNew = false;
    for (;;) {
      const { retry } = this.#record;
      if (retry === null || this.#isGone || this.#waiting !== null) return failure;
      const waiting = new AbortController();
      this.#waiting = waiting;
      this.#hasMoved = false;
      const reply = await calls.serve(this.#requestOf(retry), this.#waiterOf(waiting.signal));
      if (this.#waiting !== waiting) return null;
      this.#waiting = null;
      if (this.#record.retry === null) return failure;
      const next = nextStep(reply, retry, this.#record.retry, cause);
      if (next.type === 'later') {
        await this.#waitToRetry();
      } else if (next.type === 'shutOut') {
        if (areNew) {
          this.#change(failedBy(cause ?? next.failure));
          return failure;
        }
        areNew = true;
        await this.#untilUsed();
      } else if (next.type === 'refused' && asked !== null) {
        this.#change(asked);
        return next.failure;
      } else if (next.type === 'refused' || next.type === 'notTaken') {
        ({ failure } = next);
        if (next.type === 'notTaken') cause = failure;
        this.#change({ retry: { ...retry, inputResponses: null } });
      } else {
        cause = null;
        asked = null;
        areNew = false;
        this.#change(next.change);
        if (next.type === 'shown' && !this.#hasMoved) return failure;
      }
    }
  }

  async #waitToRetry(): Promise<void> {
    const { clock, store, home } = this.#options;
    await sleep(clock, RETRY_MS, this.#over.signal);
    // Another replica can have taken the task over, and its call.
    if (!this.#isGone && (await store?.isStillHere(home)) === false) this.#leaveToHolder();
  }

  /** Waits for the next request about the task, which brings credentials. The time of the task is the bound. */
  async #untilUsed(): Promise<void> {
    this.#isShutOut = true;
    await sleep(this.#options.clock, this.leftMs, this.#nextChange);
    this.#isShutOut = false;
  }

  #requestOf({ request, requestState, inputResponses }: NonNullable<TaskRecord['retry']>) {
    // The progress of the call is for the task, whether or not the client of the call asked for it.
    const progressToken = request.progressToken ?? PROGRESS_TOKEN;
    const retry = { ...request, progressToken, requestState, inputResponses };
    return { ...retry, caller: this.#caller, task: this };
  }

  #waiterOf(closed: Closed): Waiter {
    return {
      closed,
      backlog: null,
      notify: (method, { message }) => {
        if (method !== 'notifications/progress' || typeof message !== 'string') return;
        const statusMessage = message.slice(0, MAX_STATUS_CHARACTERS);
        if (statusMessage !== this.#record.statusMessage) this.#change({ statusMessage });
      },
    };
  }

  #change(to: Partial<TaskRecord>): void {
    if (this.#isGone) return;
    const isVisible = to.state !== undefined || to.statusMessage !== undefined;
    const updatedAtMs = isVisible ? this.#options.clock.now() : this.#record.updatedAtMs;
    const changes = this.#record.changes + 1;
    const record = { ...this.#record, ...to, updatedAtMs, changes };
    const isKept = this.#options.store !== null;
    if (isKept && to.state !== undefined && !isStorable(writeRecord(record)))
      return this.#fail(TASK_TOO_LARGE, !isTaskOver(record.state));
    this.#record = record;
    const isProgress = Object.keys(to).every((member) => member === 'statusMessage');
    this.#saver.save(isProgress ? 'progress' : 'state');
    if (isVisible) this.#tellChange();
  }

  #fail(failure: Failure, isRunning: boolean): void {
    if (isRunning) this.#stopCall();
    this.#change(failedBy(failure));
  }

  #stopCall(): void {
    const { retry } = this.#record;
    const { calls, clock, onNotStopped } = this.#options;
    const request = retry && this.#requestOf(retry);
    const isHere = request !== null && calls.cancelHere(request, request.requestState);
    this.#waiting?.abort();
    if (request === null || isHere) return;
    const stopped = stopElsewhere(calls, clock, request);
    inBackground(stopped.then((isStopped) => isStopped || onNotStopped()));
  }

  /**
   * Leaves the task to the replica that has claimed it. Its waiter would keep the call from ending when that one cancels it, and to
   * close it would cancel the call if the other one has no waiter there yet: so the call replies to it, when it can.
   * @param end the end that that one has kept, if it has
   */
  #leaveToHolder(end: TaskChange | null = null): void {
    const { retry } = this.#record;
    const waiting = this.#waiting;
    this.#goAway();
    if (retry === null || waiting === null) return;
    if (end?.state.status === 'cancelled') return waiting.abort();
    this.#options.calls.sendBack(this.#requestOf(retry), retry.requestState);
  }

  /** The time of the task is over: nothing of it is left. */
  #expire(): void {
    this.cancel();
    this.#goAway(false);
  }

  /** @param isLeft whether what is kept of the task is for others */
  #goAway(isLeft = true): void {
    if (this.#isGone) return;
    this.#isGone = true;
    this.#waiting = null;
    this.#expiry.cancel();
    this.#over.abort();
    const { store, home, onGone } = this.#options;
    store?.giveUp(home, isLeft);
    onGone();
    this.#tellChange();
  }

  #tellChange(): void {
    const change = this.#nextChange;
    this.#nextChange = new Closing();
    change.abort();
  }
}
