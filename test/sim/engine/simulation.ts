/**
 * One queue of virtual time for messages, clocks and the timers of Node.js. A step runs the earliest thing, and then all
 * that it made ready without time (ticks, microtasks, immediates).
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { createHash } from 'node:crypto';
import { internals, type NodeTimer, storedFor } from './node-internals.ts';
import {
  bindTimersOfUndici,
  clearTimers,
  countTimers,
  nextTimerMs,
  withholdTimers,
} from './node-timers.ts';
import { type Due, DueQueue } from './queue.ts';
import { Random } from './random.ts';

const START_MS = Date.UTC(2026, 0, 1);
const MOST_IMMEDIATES = 100_000;
/**
 * A run that takes more in a minute of its time goes round in circles: one of 8 calls takes 25,000 at all, and 200 calls that wait
 * at other replicas 500,000 in each minute.
 */
const MOST_STEPS = 2_000_000;
const MINUTE_MS = 60_000;
const { timers, timerLists, runNextTicks } = internals;
const { processTimers, processImmediate } = timerLists.getTimerCallbacks(runNextTicks);
const immediatesAt = timerLists.immediateInfoFields.kCount;
const running = new AsyncLocalStorage<string>();
const RealDate = Date;
const NOBODY = 'nobody';
const realElapsed = performance.now.bind(performance);

let current: Simulation | null = null;
/** Timers of Node.js never go back: a simulation begins after the end of the one before. */
let beginMs = Math.ceil(realElapsed());

/** The simulation that runs, or `null`. */
export function runningSimulation(): Simulation | null {
  return current;
}

/** The simulation that runs. */
export function simulation(): Simulation {
  if (current === null) throw new Error('no simulation runs');
  return current;
}

/** The name of the process, in the simulation, that runs now. */
export function ownerNow(): string {
  return running.getStore() ?? NOBODY;
}

interface Step extends Due {
  readonly owner: string;
}

/** What the processes of a simulation have outside of the engine. */
interface Attached {
  /** Ends what a killed process had. */
  kill(owner: string): void;
  /** Ends what the whole simulation has left. */
  clear(): void;
}

/** The time of the machine, for who runs simulations. */
export { realElapsed };

export class Simulation {
  readonly seed: string;
  /** Whether the network has no noise: each message takes as long, and none is cut. */
  readonly isCalm: boolean;
  readonly lines: string[] = [];
  nowMs = 0;
  readonly #queue = new DueQueue<Step>();
  readonly #dead = new Set<string>();
  /** What waits until a frozen process goes on. */
  readonly #frozen = new Map<string, Step[]>();
  /** How far the wall clock of a process is ahead. */
  readonly #aheadMs = new Map<string, number>();
  readonly #randoms = new Map<string, Random>();
  readonly #attached: Attached[] = [];
  /** Called at each moment of the wire: what happened, and in which process. */
  onMoment: (moment: string, owner: string) => void = () => {};
  /** Exceptions that nobody caught. */
  readonly crashes: string[] = [];
  #order = 0;
  #isEnding = false;

  constructor(seed: string, { isCalm = false } = {}) {
    this.seed = seed;
    this.isCalm = isCalm;
  }

  /** Whether the run is over, and what is left of it is cleared. */
  get isEnding(): boolean {
    return this.#isEnding;
  }

  attach(part: Attached): void {
    this.#attached.push(part);
  }

  /** Calls `callback` as a process of this name. */
  as<Result>(owner: string, callback: () => Result): Result {
    return running.run(owner, callback);
  }

  /** From now on nothing reaches the process, and nothing that it does reaches anybody. */
  kill(owner: string): void {
    this.#dead.add(owner);
    this.#frozen.delete(owner);
    for (const part of this.#attached) part.kill(owner);
  }

  isDead(owner: string): boolean {
    return this.#dead.has(owner);
  }

  /** From now on the process does nothing, and all that it should do waits. Its connections stay. */
  freeze(owner: string): void {
    if (!this.isDead(owner) && !this.isFrozen(owner)) this.#frozen.set(owner, []);
  }

  /** Lets a frozen process go on: what has waited is due now, in its order. */
  thaw(owner: string): void {
    const waiting = this.#frozen.get(owner) ?? [];
    this.#frozen.delete(owner);
    for (const { run } of waiting) this.after(0, run, owner);
  }

  isFrozen(owner: string): boolean {
    return this.#frozen.has(owner);
  }

  get allRun(): boolean {
    return this.#dead.size + this.#frozen.size === 0;
  }

  /** Sets the wall clock of a process ahead (or behind), which its monotonic clock does not see. */
  setClockAhead(owner: string, aheadMs: number): void {
    this.#aheadMs.set(owner, aheadMs);
  }

  clockAheadMs(owner: string): number {
    return this.#aheadMs.get(owner) ?? 0;
  }

  /** Milliseconds since the epoch, as a process has them. */
  wallMs(owner: string): number {
    return Math.floor(START_MS + this.nowMs + this.clockAheadMs(owner));
  }

  /** The process that started a timer of Node.js. */
  ownerOf(timer: NodeTimer): string {
    return storedFor(timer, running) ?? NOBODY;
  }

  /** Runs `callback` as soon as a frozen process goes on. */
  later(callback: () => void, owner: string): void {
    this.after(0, callback, owner);
  }

  /** How many timers of Node.js a process has. */
  timersOf(owner: string): number {
    return countTimers(owner, this);
  }

  /** The random numbers of the process that runs now. */
  get random(): Random {
    const owner = ownerNow();
    let found = this.#randoms.get(owner);
    if (found === undefined) {
      this.#randoms.set(owner, (found = new Random(`${this.seed}:random:${owner}`)));
    }
    return found;
  }

  /** Runs `callback` as `owner`, `afterMs` from now. */
  after(afterMs: number, callback: () => void, owner: string = ownerNow()): void {
    this.at(this.nowMs + afterMs, callback, owner);
  }

  /** Runs `callback` as `owner` at a time, or now if that is over. */
  at(atMs: number, callback: () => void, owner: string = ownerNow()): void {
    this.#queue.add({
      atMs: Math.max(atMs, this.nowMs),
      order: this.#order++,
      run: callback,
      owner,
    });
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => this.after(ms, resolve));
  }

  /** A process has thrown what nobody caught. */
  crash(owner: string, error: unknown): void {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
    this.crashes.push(`${owner}: ${text}`);
    this.log(`${owner} crashes: ${text}`);
  }

  log(text: string): void {
    this.lines.push(`${this.nowMs.toFixed(3)} ${text}`);
  }

  /** The digest of the log. */
  digest(): string {
    return createHash('sha256').update(this.lines.join('\n')).digest('hex');
  }

  /** Runs `main` to its end. Call it from a macrotask: it is synchronous. */
  run(main: () => Promise<void>, untilMs = 3_600_000): void {
    begin(this);
    const immediatesBefore = timers.immediateInfo[immediatesAt] ?? 0;
    let end: { readonly error: unknown } | null = null;
    try {
      running.run('main', main).then(
        () => (end = { error: null }),
        (error: unknown) => (end = { error }),
      );
      settle(immediatesBefore);
      for (let steps = 0, sinceMs = this.nowMs; end === null && this.#step(untilMs); steps++) {
        if (this.nowMs - sinceMs >= MINUTE_MS) [steps, sinceMs] = [0, this.nowMs];
        if (steps === MOST_STEPS) throw new Error(`stuck after ${steps} steps in a minute`);
        settle(immediatesBefore);
      }
      const ended = end as { readonly error: unknown } | null;
      if (ended === null) throw new Error(`stuck after ${this.nowMs} ms, ${this.#queue.size} due`);
      if (ended.error !== null) throw ended.error as Error;
    } finally {
      this.#isEnding = true;
      for (const part of this.#attached) part.clear();
      settle(immediatesBefore);
      clearTimers();
      beginMs += Math.ceil(this.nowMs) + 1;
      current = null;
    }
  }

  #step(untilMs: number): boolean {
    const timerMs = nextTimerMs() - beginMs;
    const first = this.#queue.first();
    const atMs = Math.min(timerMs, first?.atMs ?? Infinity);
    if (atMs > untilMs) return false;
    this.nowMs = Math.max(this.nowMs, atMs);
    if (first !== undefined && first.atMs <= timerMs) {
      this.#queue.take();
      const waiting = this.#frozen.get(first.owner);
      if (waiting !== undefined) waiting.push(first);
      else if (!this.#dead.has(first.owner)) running.run(first.owner, first.run);
    } else {
      withholdTimers(virtualElapsed(), this);
      processTimers(virtualElapsed());
    }
    return true;
  }
}

function begin(next: Simulation): void {
  if (current !== null) throw new Error('a simulation runs');
  current = next;
}

/** Runs what needs no time. The immediates that were there before the simulation are not its own. */
function settle(immediatesBefore: number): void {
  runNextTicks();
  for (let rounds = 0; (timers.immediateInfo[immediatesAt] ?? 0) > immediatesBefore; rounds++) {
    if (rounds === MOST_IMMEDIATES) throw new Error('immediates without end');
    processImmediate();
    runNextTicks();
  }
}

function virtualElapsed(): number {
  return Math.floor(beginMs + (current?.nowMs ?? 0));
}

class VirtualDate extends RealDate {
  constructor(...parts: unknown[]) {
    super(...((parts.length === 0 ? [VirtualDate.now()] : parts) as [number]));
  }

  static override now(): number {
    return current?.wallMs(ownerNow()) ?? RealDate.now();
  }
}

bindTimersOfUndici(
  ownerNow,
  (owner, callback) => running.run(owner, callback),
  () => current,
);
// Else nobody could say which seed it was.
process.on('unhandledRejection', (error) => {
  if (current === null) throw error;
  current.crash(ownerNow(), error);
});
timers.getLibuvNow = virtualElapsed;
timers.scheduleTimer = () => {};
timers.toggleTimerRef = () => {};
globalThis.Date = VirtualDate as DateConstructor;
Object.defineProperty(performance, 'now', { value: virtualElapsed, configurable: true });
