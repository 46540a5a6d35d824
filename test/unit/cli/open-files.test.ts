import fc from 'fast-check';
import { expect, test } from 'vitest';
import { openFilesNeeded, readOpenFileLimit } from '../../../src/cli/serve.ts';
import { testConfig } from '../../fixtures/gateways/gateway.ts';

const LIMITS = (
  soft: string,
  hard: string,
) => `Limit                     Soft Limit           Hard Limit           Units
Max processes             15373                15373                processes
Max open files            ${soft.padEnd(20)} ${hard.padEnd(20)} files
Max locked memory         8388608              8388608              bytes
`;

test('the limit that holds is the soft one', () => {
  fc.assert(
    fc.property(fc.nat(), (limit) => {
      expect(readOpenFileLimit(LIMITS(String(limit), 'unlimited'))).toBe(limit);
    }),
  );
});

test('without a limit, or where none is told, there is none', () => {
  expect(readOpenFileLimit(LIMITS('unlimited', 'unlimited'))).toBeNull();
  expect(readOpenFileLimit('')).toBeNull();
});

test('every limit counts: clients, calls and sessions', () => {
  const limits = { maxConnections: 100, maxRunningCalls: 20, maxParkedCalls: 30 };
  const config = testConfig('http://127.0.0.1:1/mcp', { limits, sessions: { max: 5 } });
  expect(openFilesNeeded(config)).toBe(100 + (20 + 30) + 5 + 256);
});
