/** How the benchmark learns how long a question was on its way. */
import { expect, test } from 'vitest';
import { onItsWayMs, timedMessage } from '../../../bench/clients/timed-question.ts';

test('the time from the message to its receipt is read from the response, in ms', () => {
  const before = process.hrtime.bigint();
  const text = JSON.stringify({ params: { message: timedMessage() } });
  const tookMs = onItsWayMs(text, process.hrtime.bigint() + 5_000_000n);
  expect(tookMs).toBeGreaterThanOrEqual(5);
  expect(tookMs).toBeLessThanOrEqual(Number(process.hrtime.bigint() - before) / 1e6 + 5);
});

test('a response without such a message is an error', () => {
  expect(() => onItsWayMs('{"message":"Which name?"}', 1n)).toThrow(/no question that is timed/);
});
