/** What the live page shows: sums over processes, names that cannot mislead, and nothing beside the listed fields. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  livePart,
  BUCKETS,
  liveSnapshot,
  SERIES,
  shownName,
  shownProblem,
  sumParts,
  type LiveCall,
  type LivePart,
  type LiveRoute,
} from '../../../../src/ops/live/snapshot.ts';

const ABOUT = { version: '1.2.3', atMs: 1_000_000, actions: [] };
const number = fc.nat(1_000);
const name = fc.string({ unit: 'binary' }).map(shownName);
const plot = fc.array(number, { minLength: BUCKETS, maxLength: BUCKETS });

const route: fc.Arbitrary<LiveRoute> = fc.record({
  id: fc.constantFrom('a', 'b', 'c'),
  path: name,
  url: fc.constantFrom('', 'http://127.0.0.1:8080/mcp'),
  server: fc.string({ unit: 'binary', maxLength: 400 }).map(shownProblem),
  isUp: fc.boolean(),
  circuitsOpen: number,
  sessions: number,
  maxSessions: number,
  running: number,
  parked: number,
  released: number,
  tasks: fc.dictionary(fc.constantFrom('working', 'completed'), number),
  recent: fc.record(
    Object.fromEntries(SERIES.map((one) => [one, plot])) as Record<
      (typeof SERIES)[number],
      typeof plot
    >,
  ),
});

const call: fc.Arbitrary<LiveCall> = fc.record({
  id: name,
  route: name,
  method: name,
  target: name,
  who: name,
  client: name,
  kinds: fc.array(fc.constantFrom('elicitation-form', 'roots'), { maxLength: 2 }),
  state: fc.constantFrom('parked', 'runningDetached', 'resultReady', 'suspended'),
  round: number,
  startedAtMs: number,
  sinceMs: number,
  recoveredBy: fc.constantFrom(null, 'here', 'replay'),
  isTask: fc.boolean(),
  owner: name,
});

const part: fc.Arbitrary<LivePart> = fc
  .record({
    process: name,
    status: fc.constantFrom('ready', 'not ready', 'draining'),
    bucket: fc.integer({ min: 100, max: 102 }),
    routes: fc.uniqueArray(route, { selector: ({ id }) => id, maxLength: 3 }),
    calls: fc.array(call, { maxLength: 5 }),
  })
  .map((given) => ({
    ...given,
    allRoutes: given.routes.length,
    allCalls: given.calls.length + 7,
  }));

/** The longest waiting call, and how the plots of a route are moved, say the rest. */
function plotted(parts: readonly LivePart[], id: string): number {
  const newest = Math.max(...parts.map(({ bucket }) => bucket));
  return parts
    .flatMap(({ routes, bucket }) =>
      routes
        .filter((one) => one.id === id)
        .flatMap(({ recent }) => recent.failed.slice(newest - bucket)),
    )
    .reduce((sum, value) => sum + value, 0);
}

describe('the sum of what processes know', () => {
  test('has the listed fields only, adds up, and loses no bar of a plot but those that are too old', () => {
    fc.assert(
      fc.property(fc.array(part, { minLength: 1, maxLength: 4 }), (parts) => {
        const sum = sumParts(parts, ['worker 3'], ABOUT);
        expect(liveSnapshot.parse(JSON.parse(JSON.stringify(sum)))).toEqual(sum);
        for (const { id, parked, recent } of sum.routes) {
          const same = parts.flatMap(({ routes }) => routes.filter((one) => one.id === id));
          expect(parked).toBe(same.reduce((total, one) => total + one.parked, 0));
          expect(recent.failed.reduce((total, value) => total + value, 0)).toBe(plotted(parts, id));
        }
        const waiting = sum.calls.map(({ sinceMs }) => sinceMs);
        expect(waiting).toEqual(waiting.toSorted((a, b) => a - b));
      }),
    );
  });

  test('is up where all are, and ready where one is', () => {
    const [up = null, down = null] = [true, false].map(
      (isUp) =>
        fc.sample(part, 1).map((one) => ({
          ...one,
          status: isUp ? ('ready' as const) : ('draining' as const),
          routes: fc.sample(route, 1).map((given) => ({ ...given, id: 'a', isUp })),
        }))[0],
    );
    const sum = sumParts([up!, down!], [], ABOUT);
    expect(sum).toMatchObject({ status: 'ready', routes: [{ isUp: false }] });
    expect(sumParts([], ['worker 1'], ABOUT)).toMatchObject({
      status: 'not ready',
      missing: ['worker 1'],
    });
  });

  test('shows 100 calls and 100 routes, those first that need a look, and counts the others', () => {
    const [base] = fc.sample(part, 1);
    const [one] = fc.sample(route, 1);
    const [waiting] = fc.sample(call, 1);
    const routes = Array.from({ length: 100 }, (_, at) => ({ ...one!, id: `r${at}`, isUp: true }));
    const down = { ...one!, id: 'down', isUp: false };
    const calls = Array.from({ length: 100 }, (_, at) => ({ ...waiting!, sinceMs: at }));
    const sum = sumParts(
      [
        { ...base!, routes, calls, allRoutes: 100, allCalls: 100 },
        { ...base!, routes: [down], calls, allRoutes: 1, allCalls: 130 },
      ],
      [],
      ABOUT,
    );
    expect(sum.routes.map(({ id }) => id)).toHaveLength(100);
    expect(sum.routes[0]?.id).toBe('down');
    expect(sum).toMatchObject({ allRoutes: 101, allCalls: 230 });
    expect(sum.calls.map(({ sinceMs }) => sinceMs).at(-1)).toBe(49);
  });
});

describe('a name that others choose', () => {
  test('is short, and has no character that changes how the rest is shown', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 300 }), (text) => {
        const shown = shownName(text);
        expect(shown.length).toBeLessThanOrEqual(81);
        expect(shown).not.toMatch(/[\p{C}\p{Zl}\p{Zp}]/u);
      }),
    );
  });

  test.each([
    ['deploy', 'deploy'],
    ['a\u001b[2Jb', 'a\\u{1b}[2Jb'],
    ['a\u202eb', 'a\\u{202e}b'],
    ['<img src=x onerror=alert(1)>', '<img src=x onerror=alert(1)>'],
    ['x'.repeat(81), `${'x'.repeat(80)}…`],
  ])('%j is shown as %j', (text, shown) => {
    expect(shownName(text)).toBe(shown);
  });
});

test('the part of an older process has no client and no URL, and is read', () => {
  const older = { ...fc.sample(route, 1)[0], url: undefined };
  const before = { ...fc.sample(call, 1)[0], client: undefined };
  const given = { ...fc.sample(part, 1)[0], routes: [older], calls: [before] };
  const { routes, calls } = livePart.parse(given);
  expect([routes[0]?.url, calls[0]?.client]).toEqual(['', '']);
});
