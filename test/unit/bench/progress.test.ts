/** The progress line of the benchmark. */
import { expect, onTestFinished, test } from 'vitest';
import { Progress } from '../../../bench/report/progress.ts';

const STEPS = [
  { name: 'calls', estimateMs: 60_000 },
  { name: 'parked', estimateMs: 180_000 },
];

/** A screen that keeps what is written, and a clock that is set. */
function start(isTTY: boolean) {
  const written: string[] = [];
  const clock = { ms: 0 };
  const screen = { isTTY, columns: 80, write: (text: string) => written.push(text) };
  const progress = new Progress(STEPS, screen, () => clock.ms);
  onTestFinished(() => progress.end());
  return { progress, clock, written };
}

test('where output is piped nothing is written', () => {
  const { progress, written } = start(false);
  progress.begin(0);
  progress.done(0.5);
  progress.end();
  expect(written).toEqual([]);
});

test('shows the part, the time that went by, and about how long is left', () => {
  const { progress, written } = start(true);
  progress.begin(0);
  expect(written.at(-1)).toContain('[1/2] calls 0 %, 0:00 elapsed, about 4:00 left');
});

test('what is left follows the pace of the machine', () => {
  const { progress, clock, written } = start(true);
  progress.begin(0);
  clock.ms = 120_000;
  progress.begin(1);
  expect(written.at(-1)).toContain('[2/2] parked 0 %, 2:00 elapsed, about 6:00 left');
  clock.ms = 300_000;
  progress.done(0.5);
  expect(written.at(-1)).toContain('[2/2] parked 50 %, 5:00 elapsed, about 3:00 left');
});

test('the line is removed at the end', () => {
  const { progress, written } = start(true);
  progress.begin(0);
  progress.end();
  expect(written.at(-1)).toBe('\r\u001B[2K');
});
