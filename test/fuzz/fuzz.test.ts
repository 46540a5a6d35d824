/** A short run of each fuzz target, the same each time. `npm run fuzz` runs them for as long as one likes. */
import { expect, test } from 'vitest';
import { fuzz } from './target.ts';
import { TARGETS } from './targets.ts';

const SEED = 20_261_122;

const targets = TARGETS.map((target) => [target.name, target] as const);

test.each(targets)('finds nothing wrong: %s', { timeout: 60_000 }, async (_name, target) => {
  expect(await fuzz(target, { seed: SEED, runs: target.shortRuns })).toBe(target.shortRuns);
});
