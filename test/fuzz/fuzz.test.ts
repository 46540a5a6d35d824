/** A short run of each fuzz target, the same each time. `npm run fuzz` runs them for as long as one likes. */
import { expect, test } from 'vitest';
import { fuzz } from './target.ts';
import { TARGETS } from './targets.ts';

const SEED = 20_261_122;

test.each(TARGETS)('$name', { timeout: 60_000 }, async (target) => {
  expect(await fuzz(target, { seed: SEED, runs: target.shortRuns })).toBe(target.shortRuns);
});
