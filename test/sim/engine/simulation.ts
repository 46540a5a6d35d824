/**
 * One queue of virtual time for messages, clocks and the timers of Node.js. A step runs the earliest thing, and then all
 * that it made ready without time (ticks, microtasks, immediates).
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { createHash } from 'node:crypto';
import { internals } from './node-internals.ts';
import { type Due, DueQueue } from './queue.ts';

const START_MS = Date.UTC(2026, 0, 1);
const MOST_IMMEDIATES = 100_000;
const { timers, timerLists, runNextTicks } = internals;
const { processTimers, processImmediate } = timerLists.getTimerCallbacks(runNextTicks);
const immediatesAt = timerLists.immediateInfoFields.kCount;
const running = new AsyncLocalStorage<string>();
const RealDate = Date;
const realElapsed = performance.now.bind(performance);

let current: Simulation | null = null;
/** Timers of Node.js never go back: a simulation begins after the end of the one before. */
let beginMs = Math.ceil(realElapsed());

/** The simulation that runs. */
export function simulation(): Simulation {
  if (current === null) throw new Error('no simulation runs');
  return current;
}

/** The name of the process, in the simulation, that runs now. */
export function ownerNow(): string {
  return running.getStore() ?? 'nobody';
}

interface Step extends Due {
  readonly owner: string;
}

export class Simulation {
  readonly seed: string;
  readonly lines: string[] = [];
  nowMs = 0;
  readonly #queue = new DueQueue<Step>();
  #order = 0;

  constructor(seed: string) {
    this.seed = seed;
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
      while (end === null && this.#step(untilMs)) settle(immediatesBefore);
      const ended = end as { readonly error: unknown } | null;
      if (ended === null) throw new Error(`stuck after ${this.nowMs} ms, ${this.#queue.size} due`);
      if (ended.error !== null) throw ended.error;
    } finally {
      beginMs += Math.ceil(this.nowMs) + 1;
      current = null;
    }
  }

  #step(untilMs: number): boolean {
    const list = timerLists.timerListQueue.peek();
    const timerMs = list === undefined ? Infinity : list.expiry - beginMs;
    const first = this.#queue.first();
    const atMs = Math.min(timerMs, first?.atMs ?? Infinity);
    if (atMs > untilMs) return false;
    this.nowMs = Math.max(this.nowMs, atMs);
    if (first !== undefined && first.atMs <= timerMs) {
      this.#queue.take();
      running.run(first.owner, first.run);
    } else {
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
    return current === null ? RealDate.now() : Math.floor(START_MS + current.nowMs);
  }
}

timers.getLibuvNow = virtualElapsed;
timers.scheduleTimer = () => {};
timers.toggleTimerRef = () => {};
globalThis.Date = VirtualDate as DateConstructor;
Object.defineProperty(performance, 'now', { value: virtualElapsed, configurable: true });
