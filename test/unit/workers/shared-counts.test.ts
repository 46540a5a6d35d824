import { expect, test } from 'vitest';
import { CountSums, SharedCounts } from '../../../src/workers/shared-counts.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';

/** Workers and their primary, which pass messages on at once. */
function gateway(numbers: readonly number[]) {
  const clock = new ManualClock();
  const workers = new Map<number, SharedCounts>();
  const sums = new CountSums(clock, (number, entries) => workers.get(number)?.receive(entries));
  const join = (number: number) => {
    const counts = new SharedCounts(clock, (entries) => sums.report(number, entries));
    counts.receive(sums.join(number));
    workers.set(number, counts);
    return counts;
  };
  for (const number of numbers) join(number);
  const worker = (number: number) => workers.get(number) as SharedCounts;
  return { clock, sums, worker, join };
}

test('each worker knows the total, and its own part at once', () => {
  const { clock, worker } = gateway([1, 2, 3]);
  worker(1).add('parked', 2);
  worker(2).add('parked', 1);
  expect([1, 2, 3].map((number) => worker(number).total('parked'))).toEqual([2, 1, 0]);
  clock.advance(20);
  expect([1, 2, 3].map((number) => worker(number).total('parked'))).toEqual([3, 3, 3]);
  expect(worker(1).elsewhere('parked')).toBe(1);
});

test('what changes back is told to the others, too', () => {
  const { clock, worker } = gateway([1, 2]);
  worker(1).add('running', 1);
  clock.advance(20);
  worker(1).add('running', -1);
  expect(worker(2).total('running')).toBe(1);
  clock.advance(20);
  expect(worker(2).total('running')).toBe(0);
});

test('the counts of a worker that has ended are gone, and a late report brings none back', () => {
  const { clock, sums, worker } = gateway([1, 2]);
  worker(1).add('parked', 5);
  clock.advance(20);
  expect(worker(2).total('parked')).toBe(5);
  sums.leave(1);
  sums.report(1, [['parked', 5]]);
  clock.advance(20);
  expect(worker(2).total('parked')).toBe(0);
});

test('a worker that joins begins with the counts of the others', () => {
  const { clock, worker, join } = gateway([1]);
  worker(1).add('parked', 4);
  clock.advance(20);
  expect(join(2).total('parked')).toBe(4);
});
