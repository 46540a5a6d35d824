/**
 * Decides when a call of a session may start beside the others. A question that names no call is certain to be of one call only
 * while no other call works, so what is known of the tools in the session decides: a silent one is not waited for and waits for
 * none, one that asks waits for others that ask, and nothing else waits for longer than a moment.
 */
import { inBackground } from '../lib/background.ts';
import type { Clock, Timer } from '../lib/clock.ts';
import { busy, type QueueLimits } from './permits.ts';

/**
 * - `together`: calls start at once
 * - `queue`: a call starts when the others have ended or are parked
 * - `auto`: a call of a silent tool starts at once. Any other one waits for calls of tools that are not silent, for
 *   `UNKNOWN_WAIT_MS` at most; only if both tools were seen to ask, until the other call has ended or is parked
 */
export type StartRule = 'together' | 'queue' | 'auto';

export interface CallQueueOptions extends QueueLimits {
  /** What its calls wait for, in messages. */
  readonly session: string;
  /** Returns the rule of this moment. */
  readonly rule: () => StartRule;
  readonly habitOf: (tool: string) => ToolHabit;
  /** See `SessionQuestions.certainInMs`. */
  readonly certainInMs: (asks: boolean) => number;
  /** See `SessionQuestions.turn`. */
  readonly turn: () => Promise<void> | null;
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
 * - `silent`: it was seen to end in this session without a question
 * - `asks`: it has asked in this session, or may have
 * - `unknown`: neither so far
 */
export type ToolHabit = 'silent' | 'asks' | 'unknown';

/** The tool that a call is for. */
export interface CalledTool {
  readonly name: string;
  /** Whether others are waited for, whatever the tool does: on one stream for all, a log message is the only running call's. */
  readonly wantsLog?: boolean;
}

interface RunningCall {
  readonly tool: CalledTool;
  /** When it was sent, or went on, in ms of `Clock.elapsed`; `Infinity` before. */
  readonly sinceMs: number;
}

/** What decides when a call may start. */
interface Entering {
  readonly tool: CalledTool;
  readonly sinceMs: number;
}

interface QueuedCall extends Entering {
  readonly isWanted: () => boolean;
  readonly expiry: Timer;
  readonly started: PromiseWithResolvers<StartedCall>;
}

/** How long a call waits for others that may ask, in ms. Most tools ask nothing, and then the wait is for nothing. */
export const UNKNOWN_WAIT_MS = 2_000;

export class CallQueue {
  readonly #options: CallQueueOptions;
  /** Parked calls are not in it. */
  readonly #running = new Map<StartedCall, RunningCall>();
  readonly #waiting = new Set<QueuedCall>();
  #next: Timer | null = null;
  /** The turn at whose end the next calls start. */
  #turn: Promise<void> | null = null;

  constructor(options: CallQueueOptions) {
    this.#options = options;
  }

  /**
   * Waits until a call may start.
   * @param isWanted returns false once the call no longer wants to start
   * @throws UpstreamFailure `upstream_busy` if too many calls wait, or the call waits for too long
   */
  enter(isWanted: () => boolean, tool: CalledTool): StartedCall | Promise<StartedCall> {
    const entering = { tool, sinceMs: this.#options.clock.elapsed() };
    const isNext = this.#waiting.size === 0 || this.#isFree(tool);
    return isNext && this.#mayStart(entering) === true
      ? this.start(tool)
      : this.#wait(isWanted, entering);
  }

  /** Counts a call as started that goes on already, and cannot wait. */
  start(tool: CalledTool): StartedCall {
    const { clock } = this.#options;
    const started: StartedCall = {
      sent: () => {
        if (!this.#running.has(started)) return;
        this.#running.set(started, { tool, sinceMs: clock.elapsed() });
        this.#startNext();
      },
      park: (isParked) => {
        if (isParked === !this.#running.has(started)) return;
        if (isParked) this.#running.delete(started);
        else this.#running.set(started, { tool, sinceMs: clock.elapsed() });
        this.#startNext();
      },
      end: () => {
        this.#running.delete(started);
        this.#startNext();
      },
    };
    this.#running.set(started, { tool, sinceMs: Infinity });
    return started;
  }

  async #wait(isWanted: () => boolean, entering: Entering): Promise<StartedCall> {
    const { session, length, waitMs, clock } = this.#options;
    if (this.#waiting.size >= length) this.#dropUnwanted();
    if (this.#waiting.size >= length) throw busy(`${length} calls wait already for ${session}`);
    const started = Promise.withResolvers<StartedCall>();
    const expiry = clock.setTimer(waitMs, () => {
      this.#drop(waiting, `other calls in ${session} did not end within ${waitMs} ms`);
      this.#startNext();
    });
    const waiting: QueuedCall = { ...entering, isWanted, expiry, started };
    this.#waiting.add(waiting);
    this.#startNext();
    return started.promise;
  }

  /** Starts the calls that may start now, the one that waits longest first. */
  #startNext(): void {
    this.#next?.cancel();
    this.#next = null;
    let nextMs = Infinity;
    for (const waiting of this.#waiting) {
      if (!waiting.isWanted()) {
        this.#drop(waiting, 'its client has left');
        continue;
      }
      const mayStart = this.#mayStart(waiting);
      if (mayStart === true) {
        this.#waiting.delete(waiting);
        waiting.expiry.cancel();
        waiting.started.resolve(this.start(waiting.tool));
      } else if (typeof mayStart === 'number') nextMs = Math.min(nextMs, mayStart);
    }
    if (nextMs < Infinity && this.#waiting.size > 0) {
      this.#next = this.#options.clock.setTimer(nextMs, () => this.#startNext());
    }
  }

  /** @returns whether the call may start; or in how many ms that has to be looked at again, if nothing happens before */
  #mayStart(entering: Entering): boolean | number {
    if (this.#isFree(entering.tool)) return true;
    const delayMs = this.#delayMs(entering);
    if (delayMs === null) return false;
    return delayMs > 0 ? delayMs : this.#isTurnOver();
  }

  /** Whether calls of the tool wait for nothing. */
  #isFree(tool: CalledTool): boolean {
    const rule = this.#options.rule();
    return rule === 'together' || (rule === 'auto' && this.#habitOf(tool) === 'silent');
  }

  /** Returns how long a call has to wait for others, in ms; `null` if until another call ends or is parked. */
  #delayMs({ tool, sinceMs }: Entering): number | null {
    const { rule, certainInMs, clock } = this.#options;
    const isQueue = rule() === 'queue';
    const asks = this.#habitOf(tool) === 'asks';
    let firstSentMs = Infinity;
    for (const other of this.#running.values()) {
      const habit = this.#habitOf(other.tool);
      if (habit === 'silent' && !isQueue) continue;
      if (isQueue || other.sinceMs === Infinity || (asks && habit === 'asks')) return null;
      firstSentMs = Math.min(firstSentMs, other.sinceMs);
    }
    const isAlone = firstSentMs === Infinity;
    const untilMs = Math.max(sinceMs, isAlone ? 0 : firstSentMs) + UNKNOWN_WAIT_MS;
    const leftMs = Math.max(0, untilMs - clock.elapsed());
    return Math.max(isAlone ? 0 : leftMs, certainInMs(asks));
  }

  #habitOf({ name, wantsLog = false }: CalledTool): ToolHabit {
    const habit = this.#options.habitOf(name);
    return habit === 'silent' && wantsLog ? 'unknown' : habit;
  }

  /** Whether calls that have just asked can ask no more. If they can, the next calls start when that is over. */
  #isTurnOver(): boolean {
    const turn = this.#options.turn();
    if (turn !== null && turn !== this.#turn) inBackground(turn.then(() => this.#startNext()));
    this.#turn = turn;
    return turn === null;
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
