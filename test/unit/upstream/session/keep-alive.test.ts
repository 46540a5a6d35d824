import { describe, expect, test } from 'vitest';
import { KeepAlive } from '../../../../src/upstream/session/keep-alive.ts';
import {
  UpstreamFailure,
  type UpstreamFailureCode,
} from '../../../../src/model/upstream-failure.ts';
import { ManualClock } from '../../../fixtures/manual-clock.ts';

const INTERVAL_MS = 60_000;

/** Pings whose fates are given: answered, or failed with a code. */
function pinging(...fates: ('answered' | UpstreamFailureCode)[]) {
  return pingingWhile(() => false, ...fates);
}

function pingingWhile(isWorking: () => boolean, ...fates: ('answered' | UpstreamFailureCode)[]) {
  const clock = new ManualClock();
  const gone: UpstreamFailureCode[] = [];
  let pings = 0;
  const keepAlive = new KeepAlive({
    clock,
    intervalMs: INTERVAL_MS,
    ping: async () => {
      const fate = fates[pings] ?? 'answered';
      pings += 1;
      if (fate !== 'answered') throw new UpstreamFailure(fate, 'test', { mayHaveActed: true });
    },
    isDead: () => gone.length > 0,
    isWorking,
    gone: ({ code }) => gone.push(code),
  });
  keepAlive.set(true);
  const pass = async (intervals: number) => {
    for (let passed = 0; passed < intervals; passed += 1) {
      clock.advance(INTERVAL_MS);
      await new Promise(setImmediate);
    }
  };
  return { clock, gone, keepAlive, pass, pings: () => pings };
}

// Rule keep-alive-2.
describe('a server counts as gone', () => {
  // Rule keep-alive-2 (2025-11-25 ping, "Behavior Requirements"): If two pings in a row get no response, 500, 502 or
  // 504, the call is lost. A busy server over stdio misses no ping.
  test.each(['upstream_unavailable', 'upstream_timeout'] as const)(
    'when it misses two pings in a row: %s',
    async (code) => {
      const { gone, pass } = pinging(code, code);
      await pass(1);
      expect(gone).toEqual([]);
      await pass(1);
      expect(gone).toEqual([code]);
    },
  );
});

describe('a server counts as alive', () => {
  // Rule keep-alive-2.
  test.each(['upstream_busy', 'upstream_protocol_error'] as const)(
    'when it answers in whatever way: %s',
    async (code) => {
      const { gone, pass, pings } = pinging(code, code, code);
      await pass(4);
      expect(gone).toEqual([]);
      expect(pings()).toBe(4);
    },
  );

  // Rule keep-alive-2.
  test.each(['answered', 'upstream_busy'] as const)(
    'again when it missed one ping and not the next: %s',
    async (fate) => {
      const { gone, pass } = pinging('upstream_timeout', fate, 'upstream_timeout', fate);
      await pass(4);
      expect(gone).toEqual([]);
    },
  );
});

describe('a server over stdio that works on another call', () => {
  // Rule keep-alive-2.
  test('may leave pings without a reply', async () => {
    let isWorking = true;
    const { gone, pass } = pingingWhile(() => isWorking, ...repeated('upstream_timeout', 9));
    await pass(5);
    expect(gone).toEqual([]);
    isWorking = false;
    await pass(2);
    expect(gone).toEqual(['upstream_timeout']);
  });

  // Rule keep-alive-2.
  test('is gone all the same if it cannot be reached', async () => {
    const { gone, pass } = pingingWhile(() => true, ...repeated('upstream_unavailable', 2));
    await pass(2);
    expect(gone).toEqual(['upstream_unavailable']);
  });
});

function repeated(code: UpstreamFailureCode, times: number): UpstreamFailureCode[] {
  return Array.from({ length: times }, () => code);
}

describe('credentials that are refused', () => {
  // Rule keep-alive-3: Credentials that a ping shows to be refused are not sent again. The call goes on.
  // Rule keep-alive-2.
  test('are not sent again, and end nothing', async () => {
    const { clock, gone, keepAlive, pass, pings } = pinging('unauthorized');
    await pass(3);
    keepAlive.set(true);
    await pass(3);
    expect({ gone, pings: pings(), timers: clock.pending }).toEqual({
      gone: [],
      pings: 1,
      timers: 0,
    });
  });

  // Rule keep-alive-3.
  test('are forgotten when others come', async () => {
    const { keepAlive, pass, pings } = pinging('unauthorized');
    await pass(2);
    keepAlive.renewed();
    keepAlive.set(true);
    await pass(2);
    expect(pings()).toBe(3);
  });
});
