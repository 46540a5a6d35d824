import { expect, test } from 'vitest';
import { limitLog } from '../../../src/ops/throttled-log.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';

test('refusals by one limit are one line in a minute, with their number since the line before', () => {
  const clock = new ManualClock();
  const lines: [string, number][] = [];
  const refused = limitLog<string>(clock, (limit, times) => lines.push([limit, times]));
  for (const limit of ['rate', 'rate', 'busy', 'rate']) refused(limit);
  clock.advance(59_999);
  refused('rate');
  expect(lines).toEqual([
    ['rate', 1],
    ['busy', 1],
  ]);
  clock.advance(1);
  refused('rate');
  expect(lines.slice(2)).toEqual([['rate', 4]]);
});
