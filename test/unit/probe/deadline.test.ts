import { expect, test } from 'vitest';
import { sleep } from '../../../src/lib/clock.ts';
import { Deadline } from '../../../src/probe/ask.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';

test('a timer fires in its own time, if that comes first', () => {
  const clock = new ManualClock();
  const fired: string[] = [];
  new Deadline(clock, 1000).setTimer(400, () => fired.push('timer'));
  clock.advance(399);
  expect(fired).toEqual([]);
  clock.advance(1);
  expect(fired).toEqual(['timer']);
});

test('no timer fires later than the deadline', () => {
  const clock = new ManualClock();
  const deadline = new Deadline(clock, 1000);
  const fired: string[] = [];
  deadline.setTimer(60_000, () => fired.push('timer'));
  clock.advance(1000);
  expect(fired).toEqual(['timer']);
  expect(deadline.passed).toBe(true);
});

test('a deadline that expires ends all waiting at once, and each only once', async () => {
  const clock = new ManualClock();
  const deadline = new Deadline(clock, 1000);
  let fired = 0;
  deadline.setTimer(500, () => (fired += 1));
  deadline.setTimer(500, () => (fired += 1)).cancel();
  const asleep = sleep(deadline, 700);
  deadline.expire();
  await asleep;
  clock.advance(1000);
  expect(fired).toBe(1);
  expect(deadline.passed).toBe(true);
});

test('a timer that starts after the deadline has time for the end of the session', () => {
  const clock = new ManualClock();
  const deadline = new Deadline(clock, 1000);
  deadline.expire();
  const fired: string[] = [];
  deadline.setTimer(2_000, () => fired.push('delete'));
  deadline.setTimer(60_000, () => fired.push('other'));
  clock.advance(1_999);
  expect(fired).toEqual([]);
  clock.advance(1);
  expect(fired).toEqual(['delete']);
  clock.advance(500);
  expect(fired).toEqual(['delete', 'other']);
});

test('work within a time is aborted when that is over, and leaves no timer behind', async () => {
  const clock = new ManualClock();
  const deadline = new Deadline(clock, 1000);
  const aborted = deadline.within(
    300,
    (signal) =>
      new Promise<string>((resolve) => signal.addEventListener('abort', () => resolve('aborted'))),
  );
  clock.advance(300);
  expect(await aborted).toBe('aborted');
  await deadline.within(300, async () => 'done');
  expect(clock.pending).toBe(0);
});
