/**
 * Bounds the young generation of V8's heap. Left alone, V8 doubles it under load up to what more than 100 MiB of resident memory
 * hold, and keeps it; a call needs none of that (docs/adr/0046). The command starts with a factor of growth of 1, so that the
 * garbage of the start does not let it grow either.
 */
import { PerformanceObserver } from 'node:perf_hooks';
import { getHeapSpaceStatistics, setFlagsFromString } from 'node:v8';

/** Both halves together, in bytes. Half of that takes more CPU for each call; twice as much gains nothing. */
const MAX_BYTES = 32 * 2 ** 20;
/** As the command sets it, before anything is loaded. */
const AT_START = 1;
/** If an operator sets one of these, the gateway changes none. */
const CHOSEN = /--(?:(?:min|max)[-_]semi[-_]space[-_]size|semi[-_]space[-_]growth[-_]factor)\b/;

type Growth = 1 | 2;

/** The part of V8 that is needed. */
export interface YoungGeneration {
  /** @returns the committed bytes of both halves */
  bytes(): number;
  /** Sets by what V8 multiplies the size when it lets the generation grow. */
  setGrowth(factor: Growth): void;
}

/** V8 in this process. */
const OWN: YoungGeneration = {
  bytes: () =>
    getHeapSpaceStatistics().find(({ space_name: name }) => name === 'new_space')?.space_size ?? 0,
  // V8 reads it each time it lets the generation grow, so it can be set while the process runs.
  setGrowth: (factor) => setFlagsFromString(`--semi-space-growth-factor=${factor}`),
};

/** Creates a function to call after each garbage collection. It lets the generation grow to its bound, and no further. */
export function growthTo(maxBytes: number, { bytes, setGrowth }: YoungGeneration): () => void {
  let current: Growth | null = null;
  return () => {
    // V8 makes it smaller again in a process that has little to do.
    const wanted = bytes() < maxBytes ? 2 : 1;
    if (wanted === current) return;
    current = wanted;
    setGrowth(wanted);
  };
}

/**
 * Lets the young generation of this process grow to the bound, until the process ends. Call it once, when the process has
 * started.
 * @param flags what the process was started with: nothing is changed if they set its size
 */
export function growYoungGeneration(
  flags: string = [process.env['NODE_OPTIONS'] ?? '', ...process.execArgv].join(' '),
): void {
  // Code that is cached at the end is only used by a start with the same flags.
  process.once('exit', () => OWN.setGrowth(AT_START));
  if (CHOSEN.test(flags)) return OWN.setGrowth(2);
  const adjust = growthTo(MAX_BYTES, OWN);
  adjust();
  new PerformanceObserver(adjust).observe({ entryTypes: ['gc'] });
}
