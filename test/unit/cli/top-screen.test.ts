import { expect, test } from 'vitest';
import { screenOf } from '../../../src/cli/top-screen.ts';
import { busySnapshot, callOf, routeOf, snapshotOf } from '../../fixtures/live-snapshots.ts';

const WIDE = { columns: 200, rows: Infinity, isColored: false };

test('the screen shows totals, outcomes, routes and calls', () => {
  const lines = screenOf(busySnapshot(), WIDE);
  expect(lines.slice(0, 3)).toEqual([
    'mrtr-gateway 0.1.0: ready',
    '5 waiting, 3 running, 53 sessions, 1 server down, 2 processes',
    'Last 10 min: 304 succeeded, 14 failed, 4 abandoned, 5 stopped, 3 refused; people 1h16m, servers 1m45s',
  ]);
  expect(lines[3]).toMatch(/^[▁▂▃▄▅▆▇█ ]{50,60}$/);
  expect(lines.slice(5)).toEqual([
    'ROUTE    SERVER                  SESSIONS  RUNNING  WAITING  FAILED',
    'deploys  streamable-http         41/1000   3        5        6',
    'search   http-sse                12/1000   0        0        0',
    'billing  down (streamable-http)  0/1000    0        0        8',
    '',
    'TOOL         WAITS FOR         SINCE   WHO               CLIENT       ROUTE    ROUND         OWNER',
    'deploy       elicitation-form  23m11s  Zk3vQ8mB1xYt0LsW  claude-code  deploys  1             kX2f9a',
    'rotate-keys  elicitation-url   6m42s   p0QmVh7cR2dKfN5e  claude-code  deploys  2 (reattach)  kX2f9a',
    'summarise    sampling (task)   48s     Zk3vQ8mB1xYt0LsW  claude-code  deploys  1             Rw81bc',
    'drop-table   its client        31s     anonymous         claude-code  deploys  3 (here)      Rw81bc',
    'greet        elicitation-form  4s      local-user        claude-code  deploys  1             Rw81bc',
  ]);
});

test('the content fits on the screen, and no name is written beyond its line', () => {
  const hostile = '\u001b]0;title\u0007\u001b[2J\r\n\u202e';
  const calls = Array.from({ length: 50 }, () => callOf({ target: hostile, who: hostile }));
  const routes = [routeOf({ id: hostile, server: hostile, isUp: false })];
  const snapshot = snapshotOf({ calls, routes, missing: [hostile], version: hostile });
  const lines = screenOf(snapshot, { columns: 60, rows: 20, isColored: false });
  expect(lines).toHaveLength(20);
  for (const line of lines) {
    expect(line.length).toBeLessThanOrEqual(60);
    expect(line).not.toMatch(/[\p{C}]/u);
  }
});

test('the screen colors what is down, if it may', () => {
  const down = snapshotOf({ routes: [routeOf({ isUp: false })] });
  const colored = screenOf(down, { ...WIDE, isColored: true }).join('\n');
  expect(colored).toContain('\u001b[31mmcp');
  expect(screenOf(down, WIDE).join('\n')).not.toContain('\u001b');
});

test('the screen says how many are not shown, and what did not reply', () => {
  const snapshot = snapshotOf({ calls: [callOf()], allCalls: 31, missing: ['worker 2'] });
  const text = screenOf({ ...snapshot, allRoutes: 4 }, WIDE).join('\n');
  expect(text).toContain('and 30 more');
  expect(text).toContain('and 3 more');
  expect(text).toContain('No reply from worker 2');
});
