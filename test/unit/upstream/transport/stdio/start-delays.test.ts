import { describe, expect, test } from 'vitest';
import { StartDelays } from '../../../../../src/upstream/transport/stdio/start-delays.ts';
import { ManualClock } from '../../../../fixtures/manual-clock.ts';

const CRASH = { problem: 'exit code 1', isCrash: true, hasSpoken: true, livedMs: 10 };

/** For how long a start is refused after each of these ends, in ms. */
function delays(ends: readonly object[]): number[] {
  const clock = new ManualClock();
  const starts = new StartDelays(clock);
  return ends.map((end) => {
    starts.ended('ada', { ...CRASH, ...end });
    for (let waitedMs = 0; ; waitedMs += 250, clock.advance(250)) {
      try {
        starts.check('ada');
        return waitedMs;
      } catch (error) {
        expect(error).toMatchObject({
          code: 'upstream_unavailable',
          details: { mayHaveActed: false },
        });
      }
    }
  });
}

describe('the start of a process is delayed', () => {
  test('from the second crash on, for longer each time, up to half a minute', () => {
    const many = Array.from({ length: 9 }, () => ({}));
    expect(delays(many)).toEqual([0, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]);
  });

  test('at once if the first one has said nothing', () => {
    expect(delays([{ hasSpoken: false }, { hasSpoken: false }])).toEqual([500, 1_000]);
  });

  test('from the shortest delay again if a process has lived for a minute', () => {
    expect(delays([{}, {}, { livedMs: 60_000 }, {}])).toEqual([0, 1_000, 0, 1_000]);
  });

  test('not if the gateway ended it', () => {
    expect(delays([{}, { isCrash: false }, { isCrash: false }])).toEqual([0, 0, 0]);
  });
});

test('who crashes a server delays nobody else, and is told for how long', () => {
  const starts = new StartDelays(new ManualClock());
  for (let crash = 0; crash < 3; crash += 1) starts.ended('ada', CRASH);
  expect(() => starts.check('ada')).toThrow(
    'exit code 1 (3 times in a row; the next start is allowed in 2000 ms)',
  );
  expect(() => starts.check('grace')).not.toThrow();
});
