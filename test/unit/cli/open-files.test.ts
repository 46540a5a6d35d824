import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { openFilesNeeded, readOpenFileLimit } from '../../../src/cli/open-files.ts';
import { configFromFlags } from '../../../src/config/load/from-flags.ts';
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

test('every limit that is set counts: clients, calls and sessions', () => {
  const limits = { maxConnections: 100, maxRunningCalls: 20, maxParkedCalls: 30 };
  const config = testConfig('http://127.0.0.1:1/mcp', { limits, sessions: { max: 5 } });
  expect(openFilesNeeded(config)).toBe(100 + (20 + 30) + 5 + 256);
});

describe('a limit that is at its default is no plan of the operator', () => {
  const DEFAULTS = configFromFlags({ upstream: 'http://127.0.0.1:1/mcp' });
  const [route] = DEFAULTS.routes;
  const withSessions = (...max: (number | null)[]) => ({
    limits: DEFAULTS.limits,
    routes: max.map((value) => ({
      ...route!,
      sessions: { ...route!.sessions, max: value ?? route!.sessions.max },
    })),
  });

  test('an ordinary machine has enough with nothing configured, and 1024 files are few', () => {
    expect(openFilesNeeded(DEFAULTS)).toBe(4096);
    expect(openFilesNeeded(withSessions(null, null, null))).toBe(4096);
  });

  test.each(['maxConnections', 'maxRunningCalls', 'maxParkedCalls'] as const)(
    '%s counts as soon as it is set, higher or lower',
    (key) => {
      for (const value of [50_000, 1]) {
        const config = { ...DEFAULTS, limits: { ...DEFAULTS.limits, [key]: value } };
        expect(openFilesNeeded(config)).toBe(4096 - 960 + value);
      }
    },
  );

  test('the sessions of each route that has a maximum count', () => {
    expect(openFilesNeeded(withSessions(50_000, null, 1))).toBe(4096 + 50_001);
    expect(openFilesNeeded(withSessions(50_000, 1))).toBe(4096 - 960 + 50_001);
  });
});
