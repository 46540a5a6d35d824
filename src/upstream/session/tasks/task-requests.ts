/** The requests about a task of the server: for its status and its end. What fails is repeated, less and less often. */
import { sleep, type Clock, Closing, type Closed } from '../../../lib/clock.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import { ErrorCode } from '../../../protocol/json-rpc.ts';
import { isTerminal, pollIntervalOf } from '../../../protocol/task.ts';
import { asUpstreamFailure, UpstreamFailure } from '../../../model/upstream-failure.ts';
import type { CallerHeaders } from '../../transport/transport.ts';
import type { Session } from '../session.ts';

/** How often in a row `tasks/result` or `tasks/get` can fail. */
const MAX_FAILURES = 5;
const FIRST_BACKOFF_MS = 500;
const DEFAULT_POLL_INTERVAL_MS = 1_000;
/** How often the status is asked for while it is only read, however often the server suggests, in ms. */
const LEAST_WATCH_INTERVAL_MS = 1_000;

export interface TaskRequestsOptions {
  readonly session: Pick<Session, 'request' | 'headers' | 'dead'>;
  readonly clock: Clock;
  /** Aborts when the call is over. */
  readonly signal: Closed;
  /** Whether anybody reads the status of the task now. */
  readonly isRead: () => boolean;
  /** Called with what the server says of the task. */
  readonly onStatus: (task: JsonObject) => void;
  /** Called when the call is lost. It aborts the signal. */
  readonly onLost: (failure: UpstreamFailure) => void;
}

export class TaskRequests {
  readonly #options: TaskRequestsOptions;
  #pollIntervalMs = DEFAULT_POLL_INTERVAL_MS;
  #failures = 0;
  /** Aborts when the status of the task is told without being asked for. */
  readonly #told = new Closing();

  constructor(options: TaskRequestsOptions) {
    this.#options = options;
  }

  /** @param pollIntervalMs how long the server asks to wait between two polls, in ms */
  set pollIntervalMs(pollIntervalMs: number) {
    this.#pollIntervalMs = pollIntervalMs;
  }

  /** Notes that the server has worked, so that earlier failures no longer count. */
  succeeded(): void {
    this.#failures = 0;
  }

  /**
   * Asks what the server says of the task as long as it is read, until the server refuses to say it, or `endWatch`: a
   * server need not tell of it by itself (2025-11-25, tasks, "Task Status Notification"). Never rejects.
   */
  async watchStatus(taskId: string): Promise<void> {
    const { session, clock, signal, isRead, onStatus } = this.#options;
    const ended = this.#told;
    if (signal.aborted) return;
    signal.addEventListener('abort', () => ended.abort());
    for (;;) {
      await sleep(clock, Math.max(LEAST_WATCH_INTERVAL_MS, this.#pollIntervalMs), ended);
      if (ended.aborted) return;
      if (!isRead()) continue;
      const asked = session.request('tasks/get', { taskId }, session.headers, ended);
      // The stream of the call says whether the server is there.
      const got = await asked.catch(() => null);
      if (ended.aborted || (got !== null && 'error' in got)) return;
      if (got !== null) onStatus(got.result);
    }
  }

  /** The status is told by other means. */
  endWatch(): void {
    this.#told.abort();
  }

  /**
   * Waits for the end of the task, or for its next question, with `tasks/get` (tasks, "Getting Tasks").
   * @returns the status; `unknown` if the server does not say; `null` if the call is over
   */
  async nextStatus(taskId: string): Promise<unknown> {
    const { clock, signal } = this.#options;
    this.endWatch();
    for (let isFirst = true; ; isFirst = false) {
      if (!isFirst) await sleep(clock, this.#pollIntervalMs, signal);
      if (signal.aborted) return null;
      const status = await this.#statusOf(taskId);
      const isAsking = status === 'input_required' && !isFirst;
      if (status === null || status === 'unknown' || isTerminal(status) || isAsking) return status;
    }
  }

  /** @returns the status of the task; `unknown` if the server does not say; `null` if the call is over */
  async #statusOf(taskId: string): Promise<unknown> {
    const { session, signal, onStatus, onLost } = this.#options;
    for (;;) {
      try {
        const got = await session.request('tasks/get', { taskId }, session.headers, signal);
        if (signal.aborted) return null;
        this.#failures = 0;
        if ('result' in got) {
          this.#pollIntervalMs = pollIntervalOf(got.result);
          onStatus(got.result);
          return got.result['status'];
        }
        if (got.error.code !== ErrorCode.invalidParams) return 'unknown';
        const problem = 'the server no longer has the task';
        onLost(new UpstreamFailure('upstream_unavailable', problem, { mayHaveActed: true }));
        return null;
      } catch (error) {
        if (signal.aborted) return null;
        const failure = asUpstreamFailure(error, true);
        if (!isTransient(failure) || session.dead) {
          onLost(failure);
          return null;
        }
        if (!(await this.backOff(failure))) return null;
      }
    }
  }

  /** Waits after a failure, longer after each. @returns false if the call is over, as after too many failures */
  async backOff(failure: UpstreamFailure): Promise<boolean> {
    const { session, clock, signal, onLost } = this.#options;
    if (this.#failures >= MAX_FAILURES) onLost(failure);
    if (signal.aborted) return false;
    // The first attempt follows at once: what the server asks meanwhile belongs to no request.
    const waitMs = this.#failures === 0 ? 0 : FIRST_BACKOFF_MS * 2 ** this.#failures;
    this.#failures += 1;
    if (waitMs > 0) await sleep(clock, waitMs, signal);
    if (signal.aborted) return false;
    if (!session.dead) return true;
    onLost(failure);
    return false;
  }

  /** Ends the task. @returns whether the server has ended it; false also if that is not known */
  async cancel(taskId: string, headers: CallerHeaders): Promise<boolean> {
    try {
      const reply = await this.#options.session.request('tasks/cancel', { taskId }, headers);
      // The task has ended by itself (tasks, "Task Cancellation").
      return 'result' in reply || reply.error.code === ErrorCode.invalidParams;
    } catch {
      return false;
    }
  }
}

/** True if a request can be repeated. 409 means that another replica reads the stream. */
export function isTransient({ code, details }: UpstreamFailure): boolean {
  if (details.httpStatus === 409) return false;
  if (details.isOtherJson === true) return true;
  return code === 'upstream_unavailable' || code === 'upstream_busy' || code === 'upstream_timeout';
}
