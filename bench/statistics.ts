/** The few numbers that a benchmark is told in. */

/** The middle and the extremes of what several repetitions gave. */
export interface Spread {
  readonly median: number;
  readonly least: number;
  readonly most: number;
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
    least: percentile(samples, 0),
    most: percentile(samples, 1),
  };
}

/** The mean of the two in the middle when there is no one middle. Throws RangeError without samples. */
export function median(samples: readonly number[]): number {
  const low = percentile(samples, 0.5);
  if (samples.length % 2 === 1) return low;
  const sorted = Float64Array.from(samples).sort();
  return (low + (sorted[samples.length / 2] ?? low)) / 2;
}
