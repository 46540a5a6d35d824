import { expect, test, vi } from 'vitest';
import { systemClock, timeLeftMs, TimerQueues } from '../../../src/lib/clock.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';

function queues() {
  const clock = new ManualClock();
  const timers = new TimerQueues(clock);
  const fired: string[] = [];
  const start = (name: string, afterMs: number) => timers.start(afterMs, () => fired.push(name));
  return { clock, timers, fired, start };
}

test('timers of one length fire each at its time, with one timer of the clock', () => {
  const { clock, fired, start } = queues();
  start('first', 1_000);
  clock.advance(400);
  start('second', 1_000);
  expect(clock.pending).toBe(1);
  clock.advance(600);
  expect(fired).toEqual(['first']);
  clock.advance(399);
  expect(fired).toEqual(['first']);
  clock.advance(1);
  expect(fired).toEqual(['first', 'second']);
  expect(clock.pending).toBe(0);
});

test('timers of different lengths do not wait for each other', () => {
  const { clock, fired, start } = queues();
  start('long', 5_000);
  start('short', 1_000);
  clock.advance(1_000);
  expect(fired).toEqual(['short']);
});

test('a cancelled timer does not fire, and the clock is asked for no further tick', () => {
  const { clock, fired, start } = queues();
  const [first, second] = [start('first', 1_000), start('second', 1_000)];
  first.cancel();
  clock.advance(999);
  second.cancel();
  clock.advance(1);
  expect(clock.pending).toBe(0);
  clock.advance(10_000);
  expect(fired).toEqual([]);
});

test('a timer that is started after others were cancelled fires at its own time', () => {
  const { clock, fired, start } = queues();
  start('first', 1_000).cancel();
  clock.advance(600);
  start('second', 1_000);
  expect(clock.pending).toBe(1);
  clock.advance(999);
  expect(fired).toEqual([]);
  clock.advance(1);
  expect(fired).toEqual(['second']);
  expect(clock.pending).toBe(0);
});

test('a timer that another one cancels or starts when both are due is cancelled, or waits its time', () => {
  const { clock, timers, fired, start } = queues();
  const cancelled: { cancel?: () => void } = {};
  timers.start(1_000, () => {
    cancelled.cancel?.();
    start('started', 1_000);
  });
  const later = start('cancelled', 1_000);
  cancelled.cancel = () => later.cancel();
  clock.advance(1_000);
  expect(fired).toEqual([]);
  clock.advance(1_000);
  expect(fired).toEqual(['started']);
});

test('a timer of a month is one that Node.js can wait for', () => {
  const started = vi.spyOn(globalThis, 'setTimeout');
  const timer = systemClock.setTimer(30 * 86_400_000, () => {});
  expect(started.mock.calls.map(([, afterMs]) => afterMs)).toEqual([2_147_483_647]);
  timer.cancel();
  started.mockRestore();
});

test('a timer of 0 ms fires after what is under way, and not if it is cancelled', async () => {
  const fired: string[] = [];
  systemClock.setTimer(0, () => fired.push('cancelled')).cancel();
  await new Promise<void>((done) => {
    systemClock.setTimer(0, () => {
      fired.push('timer');
      done();
    });
    process.nextTick(() => fired.push('tick'));
    queueMicrotask(() => fired.push('microtask'));
  });
  expect(fired).toEqual(['microtask', 'tick', 'timer']);
});

test('what is left of a time is never more than all of it, nor less than nothing, wherever the clock is set', () => {
  const leftAt = (nowMs: number) => timeLeftMs({ now: () => nowMs }, 1_000, 500);
  expect([leftAt(1_200), leftAt(1_500), leftAt(90_000), leftAt(0)]).toEqual([300, 0, 0, 500]);
});

test('of cancelled timers of always other lengths nothing is left', () => {
  const { clock, timers, fired, start } = queues();
  for (let ms = 0; ms < 1_000; ms += 1) start('cancelled', 3_600_000 + ms).cancel();
  expect(clock.pending).toBe(0);
  const [first, second] = [start('first', 3_600_000), start('second', 3_600_000)];
  first.cancel();
  first.cancel();
  expect(clock.pending).toBe(1);
  clock.advance(3_600_000);
  expect(fired).toEqual(['second']);
  second.cancel();
  timers.start(3_600_000, () => fired.push('third'));
  clock.advance(3_600_000);
  expect([fired, clock.pending]).toEqual([['second', 'third'], 0]);
});

test('a timer whose callback throws keeps no other one from firing', () => {
  const { clock, timers, fired, start } = queues();
  timers.start(1_000, () => {
    throw new Error('a defect');
  });
  start('second', 1_000);
  start('third', 1_000);
  expect(() => clock.advance(1_000)).toThrow('a defect');
  expect(fired).toEqual(['second', 'third']);
});
