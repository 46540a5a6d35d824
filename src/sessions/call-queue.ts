/**
 * Decides when a call of a session may start beside the others. A question that names no call is certain to be
 * of one call only while no other call runs, so calls that can be asked wait for each other where the server
 * asks in that way, or may do so. A call of a silent tool, one that ended without a question in this session, waits for none, and
 * one of a tool that was not seen waits a moment only.
 */
import type { Clock, Timer } from '../lib/clock.ts';
import { busy, type QueueLimits } from './permits.ts';

/**
 * - `together`: calls start at once
 * - `probe`: it is not known yet how the server asks. A call starts when the others have ended, are parked, or
 *   have been at the server for `PROBE_MS` without a question
 * - `queue`: a call starts when the others have ended or are parked
 * - `silent-first`: a call of a silent tool starts at once. Any other one waits for those that ran when it came, and
 *   for those of tools that are not silent: calls of silent tools that come later do not keep it waiting. One of an unknown
 *   tool waits for `UNKNOWN_WAIT_MS` at most, but for calls of tools that ask, and of the same tool
 */
export type StartRule = 'together' | 'probe' | 'queue' | 'silent-first';

export interface CallQueueOptions extends QueueLimits {
  /** Returns the rule of this moment. */
  readonly rule: () => StartRule;
  readonly clock: Clock;
}

/** A call that the queue let start, until it ends. */
export interface StartedCall {
  /** The call is sent to the server. Until then it waits for its session, and has no time to ask. */
  sent(): void;
  /** A parked call waits for its client. Others may start beside it. */
  park(isParked: boolean): void;
  end(): void;
}

/**
 * - `silent`: its last call ended in this session without a question
 * - `asks`: its last call has asked
 * - `unknown`: it was not called in this session so far
 */
export type ToolHabit = 'silent' | 'asks' | 'unknown';

/** The tool that a call is for. */
export interface CalledTool {
  readonly name: string;
  readonly habit: ToolHabit;
}

interface RunningCall {
  /** When it was sent, or went on, in ms of `Clock.elapsed`; `Infinity` before. */
  readonly sinceMs: number;
  readonly order: number;
  readonly tool: CalledTool;
}

/** What decides when a call may start. */
interface Entering {
  readonly tool: CalledTool;
  /** Counts up with each call that comes or starts. */
  readonly order: number;
  readonly sinceMs: number;
}

interface QueuedCall extends Entering {
  readonly isWanted: () => boolean;
  readonly expiry: Timer;
  readonly started: PromiseWithResolvers<StartedCall>;
}

/** How long a call of a server that was never seen to ask has for its first question, in ms. */
export const PROBE_MS = 250;
/** How long a call of an unknown tool waits for those that run, in ms. Most tools ask nothing, and then the wait is for nothing. */
export const UNKNOWN_WAIT_MS = 2_000;

export class CallQueue {
  readonly #options: CallQueueOptions;
  /** Parked calls are not in it. */
  readonly #running = new Map<StartedCall, RunningCall>();
  readonly #waiting = new Set<QueuedCall>();
  #probe: Timer | null = null;
  #order = 0;

  constructor(options: CallQueueOptions) {
    this.#options = options;
  }

  /**
   * Waits until a call may start.
   * @param isWanted returns false once the call no longer wants to start
   * @throws UpstreamFailure `upstream_busy` if too many calls wait, or the call waits for too long
   */
  enter(isWanted: () => boolean, tool: CalledTool): StartedCall | Promise<StartedCall> {
    const sinceMs = this.#options.clock.elapsed();
    const entering = { tool, order: (this.#order += 1), sinceMs };
    const mayOvertake = tool.habit === 'silent' && this.#options.rule() === 'silent-first';
    if ((this.#waiting.size === 0 || mayOvertake) && this.#delayMs(entering) === 0) {
      return this.start(tool);
    }
    return this.#wait(isWanted, entering);
  }

  /** Counts a call as started that goes on already, and cannot wait. */
  start(tool: CalledTool): StartedCall {
    const { clock } = this.#options;
    const run = (habit: ToolHabit, sinceMs: number) => {
      const order = (this.#order += 1);
      this.#running.set(started, { sinceMs, order, tool: { ...tool, habit } });
    };
    const started: StartedCall = {
      sent: () => {
        const call = this.#running.get(started);
        if (call === undefined) return;
        this.#running.set(started, { ...call, sinceMs: clock.elapsed() });
        this.#startNext();
      },
      park: (isParked) => {
        if (isParked === !this.#running.has(started)) return;
        if (isParked) this.#running.delete(started);
        else run('asks', clock.elapsed());
        this.#startNext();
      },
      end: () => {
        this.#running.delete(started);
        this.#startNext();
      },
    };
    run(tool.habit, Infinity);
    return started;
  }

  async #wait(isWanted: () => boolean, entering: Entering): Promise<StartedCall> {
    const { length, waitMs, clock } = this.#options;
    if (this.#waiting.size >= length) this.#dropUnwanted();
    if (this.#waiting.size >= length) {
      throw busy(`${length} calls wait already for the session of their caller`);
    }
    const started = Promise.withResolvers<StartedCall>();
    const expiry = clock.setTimer(waitMs, () => {
      this.#drop(waiting, `it waited ${waitMs} ms for other calls of its caller to end`);
      this.#startNext();
    });
    const waiting: QueuedCall = { ...entering, isWanted, expiry, started };
    this.#waiting.add(waiting);
    this.#startNext();
    return started.promise;
  }

  /** Starts the calls that may start now, the one that waits longest first. */
  #startNext(): void {
    this.#probe?.cancel();
    this.#probe = null;
    let nextMs = Infinity;
    for (const waiting of this.#waiting) {
      if (!waiting.isWanted()) {
        this.#drop(waiting, 'its client has left');
        continue;
      }
      const delayMs = this.#delayMs(waiting);
      if (delayMs === null) continue;
      if (delayMs > 0) {
        nextMs = Math.min(nextMs, delayMs);
        continue;
      }
      this.#waiting.delete(waiting);
      waiting.expiry.cancel();
      waiting.started.resolve(this.start(waiting.tool));
    }
    if (nextMs < Infinity && this.#waiting.size > 0) {
      this.#probe = this.#options.clock.setTimer(nextMs, () => this.#startNext());
    }
  }

  /** Returns how long the next call has to wait, in ms; `null` if until another call ends or is parked. */
  #delayMs(entering: Entering): number | null {
    if (this.#running.size === 0) return 0;
    switch (this.#options.rule()) {
      case 'together':
        return 0;
      case 'queue':
        return null;
      case 'silent-first':
        return this.#delayAmongSilentMs(entering);
      case 'probe': {
        const newestMs = Math.max(...[...this.#running.values()].map(({ sinceMs }) => sinceMs));
        return Math.max(0, Math.ceil(newestMs + PROBE_MS - this.#options.clock.elapsed()));
      }
    }
  }

  #delayAmongSilentMs({ tool, order, sinceMs }: Entering): number | null {
    if (tool.habit === 'silent') return 0;
    let firstSentMs = Infinity;
    for (const running of this.#running.values()) {
      if (running.tool.habit === 'silent' && running.order > order) continue;
      // A question of such a call would be held for as long as this one runs.
      const mustWait = running.tool.habit === 'asks' || running.tool.name === tool.name;
      if (tool.habit === 'asks' || mustWait || running.sinceMs === Infinity) return null;
      firstSentMs = Math.min(firstSentMs, running.sinceMs);
    }
    if (firstSentMs === Infinity) return 0;
    const untilMs = Math.max(sinceMs, firstSentMs) + UNKNOWN_WAIT_MS;
    return Math.max(0, untilMs - this.#options.clock.elapsed());
  }

  #dropUnwanted(): void {
    for (const waiting of this.#waiting) {
      if (!waiting.isWanted()) this.#drop(waiting, 'its client has left');
    }
  }

  #drop(waiting: QueuedCall, problem: string): void {
    this.#waiting.delete(waiting);
    waiting.expiry.cancel();
    waiting.started.reject(busy(problem));
  }
}
