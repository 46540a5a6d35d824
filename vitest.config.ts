import { defineConfig } from 'vitest/config';
import { LENGTHS } from './test/run/lengths.ts';
import { NEEDS } from './test/run/needs.ts';

const UNIT_TESTS = ['test/unit/**/*.test.ts'];

export default defineConfig({
  test: {
    setupFiles: ['./test/run/search-outputs.ts'],
    // Neither tests nor sources keep state in modules, so the files of a project share its processes: to load the sources
    // anew for each file takes as long as the tests.
    isolate: false,
    projects: [
      { extends: true, test: { name: 'unit', include: UNIT_TESTS } },
      {
        extends: true,
        test: {
          name: 'wire',
          include: ['test/**/*.test.ts'],
          exclude: UNIT_TESTS,
          globalSetup: ['./test/run/program.ts'],
        },
      },
    ],
    testTimeout: 60_000,
    hookTimeout: 120_000,
    // Two cores are the least we support. Tests over the wire wait for half of their time, so a third worker pays, and for
    // `npm test` a fourth. Of the longest tests, which it leaves out, some need much memory.
    maxWorkers: 3,
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
