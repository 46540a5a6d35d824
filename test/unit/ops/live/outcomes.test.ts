import { expect, test } from 'vitest';
import { Outcomes } from '../../../../src/ops/live/outcomes.ts';
import { BUCKET_MS, BUCKETS } from '../../../../src/ops/live/snapshot.ts';
import { ManualClock } from '../../../fixtures/manual-clock.ts';

function outcomes() {
  const clock = new ManualClock();
  return { clock, outcomes: new Outcomes(clock) };
}

const lastOf = (plot: readonly number[], count: number) => plot.slice(-count);

test('each end of a call is in one plot, with the time of the server', () => {
  const { outcomes: recent } = outcomes();
  recent.ended('mcp', 'complete', null, 30);
  recent.ended('mcp', 'complete', 'tool_error', 20);
  recent.ended('mcp', 'lost', 'lost', 10);
  recent.ended('mcp', 'expired', 'expired', 5);
  recent.ended('mcp', 'declined', null, 0);
  recent.ended('mcp', 'cancelled', 'cancelled', 0);
  recent.ended('mcp', 'left', null, 99);
  recent.add('mcp', 'peopleMs', 4_000);
  recent.add('mcp', 'refused', 1);
  const plots = recent.of('mcp');
  expect(Object.entries(plots).map(([name, plot]) => [name, plot.at(-1)])).toEqual([
    ['succeeded', 1],
    ['failed', 2],
    ['abandoned', 1],
    ['stopped', 2],
    ['refused', 1],
    ['peopleMs', 4_000],
    ['serverMs', 65],
  ]);
  expect(recent.of('other').failed).toEqual(Array.from({ length: BUCKETS }, () => 0));
});

test('a plot moves with time, and forgets what is too old', () => {
  const { clock, outcomes: recent } = outcomes();
  const end = () => recent.ended('mcp', 'complete', null, 0);
  end();
  clock.advance(2 * BUCKET_MS);
  end();
  end();
  expect(lastOf(recent.of('mcp').succeeded, 4)).toEqual([0, 1, 0, 2]);
  clock.advance((BUCKETS - 2) * BUCKET_MS);
  expect(recent.of('mcp').succeeded.slice(0, 3)).toEqual([0, 2, 0]);
  end();
  expect(recent.of('mcp').succeeded.at(-1)).toBe(1);
  clock.advance(10 * BUCKETS * BUCKET_MS);
  expect(Math.max(...recent.of('mcp').succeeded)).toBe(0);
  end();
  expect(recent.of('mcp').succeeded.reduce((sum, value) => sum + value)).toBe(1);
});

test('a clock that is set back takes no end from a plot', () => {
  let now = 10 * BUCKET_MS;
  const recent = new Outcomes({ now: () => now });
  const end = () => recent.ended('mcp', 'complete', null, 0);
  end();
  now -= 2 * BUCKET_MS;
  end();
  expect(lastOf(recent.of('mcp').succeeded, 2)).toEqual([0, 1]);
  now += 2 * BUCKET_MS;
  expect(lastOf(recent.of('mcp').succeeded, 4)).toEqual([0, 1, 0, 1]);
});
