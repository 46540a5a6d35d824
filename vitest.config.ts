import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    testTimeout: 30_000,
    hookTimeout: 60_000,
    // Two cores are the least we support; whole gateways and servers run beside the tests.
    maxWorkers: 2,
  },
});
