/**
 * The tasks of one route, over its calls. A call becomes a task when its client would be told to retry: the task does that
 * in its place. It lives with its call, and any replica serves its client.
 */
import { sleep, timeLeftMs, type Clock, type Closed } from '../lib/clock.ts';
import type { Quota } from '../lib/counts.ts';
import { DirectoryUnavailable } from '../model/store.ts';
import { TASK_UNREACHABLE, UNKNOWN_TASK } from '../model/failures.ts';
import type { Relay, RelayedHandle } from '../model/relay.ts';
import type { Caller, CallReply, EdgeRequest, Waiter, Promotion } from '../model/request.ts';
import { isTaskOver, TASK_STATUSES, type TaskReply } from '../model/task.ts';
import type { Log } from '../ops/log.ts';
import type { HomeId } from '../protocol/ids.ts';
import { objectMember } from '../protocol/json.ts';
import type { PointerOwner } from '../seal/pointer.ts';
import {
  isStorable,
  replyOf,
  requestOf,
  writeRecord,
  writeRequest,
  type TaskChange,
  type TaskRecord,
  type TaskRequest,
} from './record.ts';
import { RunningTask } from './running-task.ts';
import type { TaskStore } from './store.ts';
import { retryOf, type RouteCalls } from './task-calls.ts';
import { TaskIds, type TaskName } from './task-ids.ts';
import { createTaskResult, detailedTask, readTaskReply } from './wire.ts';

export interface TasksOptions {
  readonly route: string;
  /** The instance id of this process. */
  readonly instance: string;
  readonly calls: RouteCalls;
  /** `null` if tasks live in this process only. */
  readonly store: TaskStore | null;
  /** `null` if replicas do not reach each other. */
  readonly relay: Relay | null;
  readonly ids: TaskIds;
  readonly quota: Quota;
  readonly promotion: (request: EdgeRequest) => Promotion | null;
  readonly randomHome: () => string;
  readonly clock: Clock;
  readonly log: Log;
}

/** How often a client is asked to poll, in ms: quick enough for a tool that takes seconds, and nothing for a gateway to serve. */
const POLL_INTERVAL_MS = 1_000;
/** How long a request waits for a task whose replica has died, in ms: longer than a replica lease. */
const TAKEOVER_MS = 8_000;
const RETRY_AFTER_MS = 250;
/** How often a task is looked at that another replica has, for a client that waits for it, in ms: it does not tell when it changes. */
const LOOK_EVERY_MS = 500;
/** How often one is looked at that is here, in ms. It tells when it changes, but not when another replica takes it over. */
const LOOK_HERE_EVERY_MS = 60_000;
const UNREACHABLE: FailedReply = { type: 'failed', failure: TASK_UNREACHABLE };
const NOT_FOUND: FailedReply = { type: 'failed', failure: UNKNOWN_TASK };

type FailedReply = Extract<TaskReply, { type: 'failed' }>;

/** Where a task is. */
type TaskLocation =
  | { readonly type: 'here'; readonly task: RunningTask }
  | { readonly type: 'over'; readonly record: TaskChange }
  /** `record` is `null` if nobody was asked for it: only the holder knows it, or the holder was remembered. */
  | {
      readonly type: 'elsewhere';
      readonly record: TaskChange | null;
      readonly holder: PointerOwner;
    };

/** Every request about a task works for those of its caller only. */
export class Tasks {
  readonly #options: TasksOptions;
  readonly #tasks: Map<HomeId, RunningTask>;
  #isStopping = false;

  /** @param earlier the tasks of the route with other settings, which go on */
  constructor(options: TasksOptions, earlier: Tasks | null = null) {
    this.#options = options;
    this.#tasks = earlier === null ? new Map<HomeId, RunningTask>() : earlier.#tasks;
  }

  /** How many tasks are here, by their status. */
  get byStatus(): ReadonlyMap<string, number> {
    const counts = new Map<string, number>(TASK_STATUSES.map((status) => [status, 0]));
    for (const { record } of this.#tasks.values()) {
      const { status } = record.state;
      counts.set(status, (counts.get(status) ?? 0) + 1);
    }
    return counts;
  }

  /** Whether any call can become a task, and not only those that the server itself runs as tasks. */
  get takesAnyCall(): boolean {
    return !this.#options.ids.namesOwners;
  }

  /** Serves a call, or a retry, which can become a task. */
  serve(request: EdgeRequest, waiter: Waiter): Promise<CallReply> {
    const served = this.#options.calls.serve(request, waiter);
    if (this.#options.promotion(request) === null) return served;
    return served.then((reply) => this.#promote(request, reply));
  }

  /** Serves a request that reached another replica: a call, or a retry, or about a task that is here. */
  async serveRelayed(request: EdgeRequest, waiter: Waiter): Promise<RelayedHandle | null> {
    const taskId = request.params['taskId'];
    if (request.method.startsWith('tasks/') && typeof taskId === 'string') {
      const task = this.#here(request, taskId);
      if (task === undefined) return null;
      return { begin: () => this.#serveOwn(request, taskId, task), sendClientBack: () => {} };
    }
    const handle = await this.#options.calls.serveRelayed(request, waiter);
    return (
      handle && {
        begin: () => handle.begin()?.then((reply) => this.#promote(request, reply)) ?? null,
        sendClientBack: () => handle.sendClientBack(),
      }
    );
  }

  /** Returns what the task is now. */
  async get(request: EdgeRequest, taskId: string, waiter: Waiter): Promise<TaskReply> {
    const place = await this.#find(request, taskId);
    if (place.type === 'failed') return place;
    if (place.type === 'here') await place.task.told();
    const record = place.type === 'here' ? place.task.record : place.record;
    if (record !== null) return replyOf(taskId, record);
    const get = { ...request, method: 'tasks/get', params: { taskId } };
    return this.serveWhereItIs(get, taskId, waiter);
  }

  /** Waits until the task asks for input or is over, or until the waiter closes, and returns what it is then. */
  async settled(request: EdgeRequest, taskId: string, waiter: Waiter): Promise<TaskReply> {
    for (;;) {
      const reply = await this.get(request, taskId, waiter);
      if (reply.type === 'failed' || reply.task.state.status !== 'working') return reply;
      if (waiter.closed.aborted) return reply;
      await this.changed(request, taskId, waiter.closed);
    }
  }

  /** Resolves when the task may have changed, or when `ended` aborts. */
  changed(request: EdgeRequest, taskId: string, ended: Closed): Promise<void> {
    const task = this.#here(request, taskId);
    const atMostMs = task === undefined ? LOOK_EVERY_MS : LOOK_HERE_EVERY_MS;
    return sleep(this.#options.clock, atMostMs, ended, task?.nextChange);
  }

  /** Makes no new tasks from here on, and ends those that no other process could go on with. */
  stop(): void {
    this.#isStopping = true;
    if (this.#options.store === null) for (const task of this.#tasks.values()) task.cancel();
  }

  /** Leaves the tasks to other replicas. Resolves when the store knows them. */
  async close(): Promise<void> {
    this.stop();
    await Promise.all([...this.#tasks.values()].map((task) => task.leave()));
  }

  /** Keeps all tasks again, and leaves those to other replicas that these have taken over. */
  keepAgain(): void {
    for (const task of this.#tasks.values()) task.keepAgain();
  }

  /** Has the call become a task if its client would be told to retry. */
  async #promote(request: EdgeRequest, reply: CallReply): Promise<CallReply> {
    const { promotion, calls, ids, quota, log, route, clock } = this.#options;
    const retry = retryOf(reply);
    const terms = retry === null || this.#isStopping ? null : promotion(request);
    if (retry === null || terms === null) return reply;
    const isAsked = Object.keys(retry.inputRequests).length > 0;
    // A task has no limit of rounds, so that one more question does not end its call.
    const isAskedOn = isAsked && !terms.onQuestion;
    if (isAskedOn && !calls.isLastRound(request, retry.requestState)) return reply;
    if (terms.afterMs === null && !calls.runsAsServerTask(request, retry.requestState))
      return reply;
    const home = TaskIds.homeOf(this.#options.randomHome());
    const taskId = ids.idOf(home, request.caller);
    const giveBack = taskId === null ? null : quota.take(request.caller.principalKey);
    // The client can go on as without tasks.
    if (taskId === null || giveBack === null) return reply;
    const { inputRequests, requestState } = retry;
    const createdAtMs = clock.now();
    const call = requestOf(request);
    const record: TaskRecord = {
      state: isAsked ? { status: 'input_required', inputRequests } : { status: 'working' },
      ...{ statusMessage: null, changes: 0 },
      ...{
        createdAtMs,
        updatedAtMs: createdAtMs,
        ttlMs: terms.ttlMs,
        pollIntervalMs: POLL_INTERVAL_MS,
      },
      retry: { request: call, requestState, inputResponses: null },
    };
    // No client may know of a task that could not be found ("Task Creation").
    if (!(await this.#isKept(home, record, call))) {
      giveBack();
      return reply;
    }
    const task = this.#add(home, record, request.caller, giveBack);
    task.begin();
    log.event('task.created', { route, ...{ status: task.record.state.status } });
    const result = createTaskResult({ ...task.record, taskId }, retry.meta);
    return { kind: 'result', result };
  }

  /** Keeps a new task, where tasks are kept. @returns false if it cannot be kept */
  async #isKept(home: HomeId, record: TaskRecord, request: TaskRequest): Promise<boolean> {
    const { store } = this.#options;
    if (store === null) return true;
    if (!isStorable(writeRecord(record)) || !isStorable(writeRequest(request))) return false;
    try {
      await store.claimNew(home, () => this.#lost(home));
      if ((await store.keep(home, record, record.ttlMs, true)) === 'kept') return true;
    } catch (error) {
      if (!(error instanceof DirectoryUnavailable)) throw error;
    }
    store.giveUp(home, false);
    return false;
  }

  #add(home: HomeId, record: TaskRecord, caller: Caller, giveBack: () => void): RunningTask {
    const { calls, store, clock, log, route } = this.#options;
    const task: RunningTask = new RunningTask(record, caller, {
      ...{ home, calls, store, clock },
      onNotStopped: () => log.event('task.not_stopped', { route }),
      onGone: () => {
        this.#tasks.delete(home);
        giveBack();
      },
    });
    this.#tasks.set(home, task);
    return task;
  }

  /** Another replica has taken the task over. */
  #lost(home: HomeId): void {
    this.#tasks.get(home)?.keepAgain();
  }

  /** @param mayRemember whether the replica will do that had the task when this one last asked */
  async #find(
    request: EdgeRequest,
    taskId: string,
    mayRemember = false,
  ): Promise<TaskLocation | FailedReply> {
    const name = this.#options.ids.nameOf(taskId, request.caller);
    if (name === null) return NOT_FOUND;
    try {
      return (await this.#place(name, request, mayRemember)) ?? NOT_FOUND;
    } catch (error) {
      if (!(error instanceof DirectoryUnavailable)) throw error;
      return UNREACHABLE;
    }
  }

  /** @returns where the task is, or `null` if there is none. @throws DirectoryUnavailable */
  async #place(
    { home, owner }: TaskName,
    request: EdgeRequest,
    mayRemember: boolean,
  ): Promise<TaskLocation | null> {
    const { store, instance, clock } = this.#options;
    const here = this.#tasks.get(home);
    if (here !== undefined) {
      here.usedBy(request.caller);
      await here.lookForEnd();
      return { type: 'here', task: here };
    }
    if (owner !== null) {
      return owner.instance === instance
        ? null
        : { type: 'elsewhere', record: null, holder: owner };
    }
    const last = mayRemember ? (store?.lastHolder(home) ?? null) : null;
    if (last !== null) return { type: 'elsewhere', record: null, holder: last };
    const record = (await store?.find(home)) ?? null;
    const leftMs = record === null ? 0 : timeLeftMs(clock, record.createdAtMs, record.ttlMs);
    if (store === null || record === null || leftMs <= 0) return null;
    if (isTaskOver(record.state)) return { type: 'over', record };
    const claim = await store
      .claim(home, () => this.#lost(home))
      .catch((error: unknown) => {
        // Nobody would serve the task, or give the claim back.
        if (!this.#tasks.has(home)) store.giveUp(home, true);
        throw error;
      });
    if (claim.type === 'elsewhere') return { type: 'elsewhere', record, holder: claim.holder };
    return this.#placeClaimed(home, claim.record, store, request);
  }

  /** @returns where a task is that this process has just claimed, and that was like this then */
  #placeClaimed(
    home: HomeId,
    record: TaskRecord | null,
    store: TaskStore,
    request: EdgeRequest,
  ): TaskLocation | null {
    // Another request may have claimed it at the same time.
    const here = this.#tasks.get(home);
    if (here !== undefined) return { type: 'here', task: here };
    // That one has had the task meanwhile, and has given it up.
    if (!store.isHere(home)) throw new DirectoryUnavailable('data', 'the task has just moved');
    if (record === null || isTaskOver(record.state) || this.#isStopping) {
      store.giveUp(home, true);
      return record && { type: 'over', record };
    }
    return { type: 'here', task: this.#takeOver(home, record, request) };
  }

  #takeOver(home: HomeId, record: TaskRecord, { caller }: EdgeRequest): RunningTask {
    const { quota, log, route } = this.#options;
    const task = this.#add(home, record, caller, quota.takeAnyway(caller.principalKey));
    task.noteTakenOver();
    log.event('task.taken_over', { route, status: record.state.status });
    if (record.state.status === 'working') task.begin();
    return task;
  }

  /**
   * Serves `tasks/update` or `tasks/cancel`, in one hop. Answers to questions that are not open are ignored; the server may get the
   * others later than this resolves. Fails if an answer does not fit its question. If the replica that has the task has just died, waits until that is
   * certain: then the task is here. A dead one can seem silent: over Redis, or if another program has its port. A request that
   * a silent one carried out changes nothing when it comes again.
   */
  async serveWhereItIs(request: EdgeRequest, taskId: string, waiter: Waiter): Promise<TaskReply> {
    const { clock, relay, store } = this.#options;
    const untilMs = clock.elapsed() + TAKEOVER_MS;
    for (let isFirst = true; ; isFirst = false) {
      const place = await this.#find(request, taskId, isFirst);
      if (place.type === 'failed') return place;
      if (place.type === 'over') return this.#serveOver(request, taskId, place.record);
      if (place.type === 'here') {
        return readTaskReply(await this.#serveOwn(request, taskId, place.task));
      }
      const outcome = await relay?.relay(place.holder, request, waiter);
      if (outcome?.type === 'replied') return readTaskReply(outcome.reply);
      const isGone = outcome?.type === 'gone' || outcome?.type === 'unknown';
      // Nobody else has what its replica knew.
      if (isGone && store === null) return NOT_FOUND;
      const mayComeHere = store !== null && (isGone || outcome?.type === 'silent');
      if (!mayComeHere || waiter.closed.aborted || clock.elapsed() >= untilMs) return UNREACHABLE;
      // Who had it last may have it no more.
      if (place.record !== null) await sleep(clock, RETRY_AFTER_MS);
    }
  }

  #serveOver(request: EdgeRequest, taskId: string, record: TaskChange): TaskReply {
    // Nothing changes a task that this process may not take over any more.
    if (!isTaskOver(record.state) && request.method !== 'tasks/get') return UNREACHABLE;
    return replyOf(taskId, record);
  }

  async #serveOwn(request: EdgeRequest, taskId: string, task: RunningTask): Promise<CallReply> {
    task.usedBy(request.caller);
    if (request.method === 'tasks/cancel') task.cancel();
    if (request.method === 'tasks/update') {
      const failure = await task.answer(objectMember(request.params, 'inputResponses') ?? {});
      if (failure !== null) return { kind: 'failed', failure };
    }
    await task.told();
    if (task.isElsewhere) return { kind: 'failed', failure: TASK_UNREACHABLE };
    return { kind: 'result', result: detailedTask({ ...task.record, taskId }) };
  }

  #here({ caller }: EdgeRequest, taskId: string): RunningTask | undefined {
    const name = this.#options.ids.nameOf(taskId, caller);
    return name === null ? undefined : this.#tasks.get(name.home);
  }
}
