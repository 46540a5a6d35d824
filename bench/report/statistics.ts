/** The few numbers that a benchmark is told in. */

/** The middle of what several rounds gave, and between which values the middle half of them lies. */
export interface Spread {
  readonly median: number;
  readonly lower: number;
  readonly upper: number;
  /** How many rounds. */
  readonly rounds: number;
}

/**
 * The value below which this share of the samples lies (nearest rank).
 * @param share 0.5 for the median, 0.99 for the 99th percentile
 * @throws RangeError when there are no samples
 */
export function percentile(samples: readonly number[], share: number): number {
  const sorted = Float64Array.from(samples).sort();
  const rank = Math.min(sorted.length, Math.max(1, Math.ceil(share * sorted.length)));
  const value = sorted[rank - 1];
  if (value === undefined) throw new RangeError('no samples');
  return value;
}

/** Throws RangeError when there are no samples. */
export function spreadOf(samples: readonly number[]): Spread {
  return {
    median: median(samples),
    lower: percentile(samples, 0.25),
    upper: percentile(samples, 0.75),
    rounds: samples.length,
  };
}

/** The mean of the two in the middle when there is no one middle. Throws RangeError without samples. */
export function median(samples: readonly number[]): number {
  const low = percentile(samples, 0.5);
  if (samples.length % 2 === 1) return low;
  const sorted = Float64Array.from(samples).sort();
  return (low + (sorted[samples.length / 2] ?? low)) / 2;
}

/**
 * How many times the other value this one is; `null` where that says nothing, because the other is not
 * above zero: a difference of two measured times can come out so when it is smaller than the noise.
 */
export function ratio(value: number | null, to: number | null): number | null {
  return value === null || to === null || !(to > 0) ? null : value / to;
}
