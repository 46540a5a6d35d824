/** How long is waited before a stream is opened again. */
import { expect, test } from 'vitest';
import { ReconnectPauses } from '../../../../src/upstream/transport/reconnect-pauses.ts';

// Rule sessions-8.
test.each([
  [0, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]],
  [0.5, [750, 1_500, 3_000, 6_000, 12_000, 24_000, 45_000, 45_000]],
])('pauses double up to a limit, with random %d', (random, expected) => {
  const pauses = new ReconnectPauses(() => random);
  expect(expected.map(() => pauses.next())).toEqual(expected);
});

// Rule sessions-8.
test.each([
  ['an event came', true, 0, 500],
  ['the stream was open for a minute', false, 60_000, 500],
  ['nothing came in less', false, 59_999, 1_000],
])('pauses begin again or go on where %s', (_what, hasHeard, openMs, expected) => {
  const pauses = new ReconnectPauses(() => 0);
  pauses.next();
  pauses.ended(hasHeard, openMs);
  expect(pauses.next()).toBe(expected);
});
