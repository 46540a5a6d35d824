import { expect, test } from 'vitest';
import type { Held } from '../../../soak/probe.ts';
import { checksOf, checksOutside, trend } from '../../../soak/verdict.ts';

const MIB = 1024 ** 2;
const HELD: Held = {
  ...{ heapBytes: 50 * MIB, codeBytes: 10 * MIB, rssBytes: 150 * MIB },
  ...{ openFiles: 30, handles: 12, timers: 4 },
};

const failing = (more: { after?: Held; heapAt?: (index: number) => number }) =>
  checksOf({
    replica: 'one',
    before: HELD,
    samples: Array.from({ length: 40 }, (_, index) => ({
      atMs: index * 15_000,
      held: { ...HELD, heapBytes: more.heapAt?.(index) ?? HELD.heapBytes },
    })),
    after: more.after ?? HELD,
  }).flatMap(({ what, passes }) => (passes ? [] : what));

test('a line through points has the values of its ends', () => {
  const { first, last } = trend([[0, 1], [10, 3], [20, 5]] as const); // prettier-ignore
  expect(first).toBeCloseTo(1);
  expect(last).toBeCloseTo(5);
  expect(trend([[5, 2]])).toEqual({ first: 2, last: 2 });
});

test('what comes back to where it was does not leak, also if it is more under load', () => {
  expect(failing({ heapAt: (index) => (80 + (index % 5)) * MIB })).toEqual([]);
  // Caches fill in the first quarter.
  expect(failing({ heapAt: (index) => Math.min(60, 50 + index) * MIB })).toEqual([]);
  expect(failing({ after: { ...HELD, openFiles: 32 } })).toEqual([]);
});

test('memory that grows under load leaks, and so does what is left without load', () => {
  expect(failing({ heapAt: (index) => (50 + index) * MIB })).toEqual([
    'one: heap, trend under load',
  ]);
  expect(failing({ after: { ...HELD, rssBytes: 180 * MIB, timers: 7 } })).toEqual([
    'one: RSS, without load',
    'one: timers',
  ]);
});

test('code may grow by half, as V8 compiles what is used', () => {
  expect(failing({ after: { ...HELD, codeBytes: 15 * MIB } })).toEqual([]);
  expect(failing({ after: { ...HELD, codeBytes: 16 * MIB } })).toEqual(['one: code, without load']);
});

test('no session, process or key may be left', () => {
  const none = { held: 0, sessions: 0, processes: 0, redisKeys: 3, lastingKeys: 0 };
  const checks = checksOutside(none, { ...none, redisKeys: 4 });
  expect(checks.flatMap(({ what, passes }) => (passes ? [] : what))).toEqual([
    'keys in Redis, without fencing tokens',
  ]);
  // A replica that crashed could not end its session, nor take back its claim.
  const lost = checksOutside(none, { ...none, sessions: 1, redisKeys: 4 }, 1);
  expect(lost.every(({ passes }) => passes)).toBe(true);
});
