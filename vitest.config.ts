import { defineConfig } from 'vitest/config';
import { LENGTHS } from './test/run/lengths.ts';
import { NEEDS } from './test/run/needs.ts';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    testTimeout: 30_000,
    hookTimeout: 60_000,
    // Two cores are the least we support; whole gateways and servers run beside the tests.
    maxWorkers: 2,
    reporters: ['default', './test/run/left-out.ts'],
    tags: [
      ...LENGTHS.map(({ tag, what }) => ({ name: tag, description: what })),
      ...NEEDS.map(({ tag, what, isThere }) => ({
        name: tag,
        description: `needs ${what}`,
        skip: !isThere,
      })),
    ],
  },
});
