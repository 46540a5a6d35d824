/** Finds out whether the memory of this process is nearly used up. */
import { totalmem } from 'node:os';
import { getHeapSpaceStatistics, getHeapStatistics } from 'node:v8';
import type { Clock } from '../lib/clock.ts';

/** How often the memory is looked at, at most. */
const MEMORY_INTERVAL_MS = 250;
/** How far memory has to fall below the limit until any number of calls can come, as a part of all of it. */
const RELIEF = 0.05;
/** The part of the heap's limit that is the old generation's, at least, if V8 divides it. */
const OLD_PART = 32 / 35;

/** Returns how much is used of what can be used, from 0 to 1. */
type MemoryMeter = () => number;

/**
 * Measures the memory of this process: the old generation of its heap by the limit of V8, and all of it by the limit of its
 * control group, or by what the machine has.
 * @param workers returns how many workers share the control group with their primary; 1 for a process without workers
 */
export function processMemory(workers: () => number): MemoryMeter {
  const maxHeap = maxOldGeneration();
  const maxAll = usableMemory();
  const maxGroup = process.constrainedMemory() || Infinity;
  let resident = 0;
  return () => {
    resident = residentBytes() ?? resident;
    const all = resident * processesOf(workers());
    // The kernel can take back what the group has of files that nobody has in memory, and counts that as used.
    const group = maxGroup > maxAll ? Infinity : maxGroup - process.availableMemory();
    return Math.max(Math.min(all, group) / maxAll, oldGeneration() / maxHeap);
  };
}

/** Returns how many workers take as much memory as all processes of a gateway. A primary takes half of what a worker takes. */
export function processesOf(workers: number): number {
  return workers <= 1 ? 1 : workers + 0.5;
}

/** Returns the limit of the control group, or what the machine has, in bytes. */
export function usableMemory(): number {
  return Math.min(process.constrainedMemory() || Infinity, totalmem());
}

/** @returns `null` if the process has no open file left for what the system says of its memory */
function residentBytes(): number | null {
  try {
    return process.memoryUsage.rss();
  } catch {
    return null;
  }
}

/**
 * Returns the bytes in the old generation. With garbage, but V8 collects that in time: it begins when half of what was free
 * after the last time is used.
 */
function oldGeneration(): number {
  const young = getHeapSpaceStatistics()
    .filter(({ space_name: name }) => name.startsWith('new_'))
    .reduce((bytes, { space_used_size: used }) => bytes + used, 0);
  return getHeapStatistics().used_heap_size - young;
}

/** Returns the bytes that the old generation can have. V8 tells only what it and the young generation can have together. */
function maxOldGeneration(): number {
  const flags = [process.env['NODE_OPTIONS'] ?? '', ...process.execArgv].join(' ');
  const set = [...flags.matchAll(/--max[-_]old[-_]space[-_]size[= ](\d+)/g)].at(-1)?.[1];
  return set === undefined
    ? getHeapStatistics().heap_size_limit * OLD_PART
    : Number(set) * 1024 * 1024;
}

/**
 * Finds out how many calls there is room for when memory is nearly used up: as many as there were when the limit was reached,
 * and fewer the more is used. Memory that ended calls have freed is used for the next ones, but often not given back to the
 * system, so it is the number of calls that has to fall.
 */
export class MemoryMonitor {
  readonly #meter: MemoryMeter;
  readonly #calls: () => number;
  readonly #clock: Pick<Clock, 'elapsed'>;
  #readAtMs = -Infinity;
  /** The calls that there were when the limit was reached; `null` if it is not. */
  #callsAtLimit: number | null = null;
  #room = Infinity;

  /** @param calls counts those that are running or parked in this process */
  constructor(meter: MemoryMeter, calls: () => number, clock: Pick<Clock, 'elapsed'>) {
    this.#meter = meter;
    this.#calls = calls;
    this.#clock = clock;
  }

  /**
   * Call it for each request.
   * @param maxPercent how much can be used until calls are refused; less than 100
   * @returns whether there is no room for another call. There is always room for one
   */
  isShort(maxPercent: number): boolean {
    const now = this.#clock.elapsed();
    if (now - this.#readAtMs >= MEMORY_INTERVAL_MS) {
      this.#readAtMs = now;
      this.#room = this.#roomFor(this.#meter(), maxPercent / 100);
    }
    return this.#room !== Infinity && this.#calls() >= this.#room;
  }

  #roomFor(used: number, max: number): number {
    if (used > max) this.#callsAtLimit ??= this.#calls();
    else if (used < max - RELIEF) this.#callsAtLimit = null;
    if (this.#callsAtLimit === null) return Infinity;
    return Math.max(1, (this.#callsAtLimit * (1 - used)) / (1 - max));
  }
}
