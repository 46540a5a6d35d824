/** What limits refuse takes nothing of a server that was down: only one request is tried there. */
import { describe, expect, test } from 'vitest';
import { LocalCounts } from '../../../src/lib/counts.ts';
import { Admission, type RouteLimits, CircuitBreaker } from '../../../src/limits/admission.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';

const ONE = { requests: 1, windowMs: 3_600_000 };
const NO_LIMITS = { rate: null, ratePerPrincipal: null };

function admission(limits: Partial<RouteLimits>) {
  const clock = new ManualClock();
  const circuit = new CircuitBreaker(
    {
      ...{ consecutiveFailures: 1, onOpened: () => {}, onClosed: () => {}, random: () => 0.5 },
    },
    clock,
  );
  const route = new Admission({
    ...{ route: 'mcp', limits: { ...NO_LIMITS, tools: {}, ...limits }, circuit },
    ...{ overloadedBy: () => null, store: null, counts: new LocalCounts(), onRefused: () => {} },
  });
  const ask = (principalKey: string, hasMore = false) =>
    route.admit({ principalKey, tool: 'slow', isCall: true, isRetry: false, hasMore });
  const halfOpen = () => {
    circuit.ended(503);
    clock.advance(1_000);
  };
  return { clock, circuit, ask, halfOpen };
}

describe('the request that is tried at a server that was down', () => {
  test('is none that a rate refuses', async () => {
    const { ask, halfOpen } = admission({ ratePerPrincipal: ONE });
    await ask('Ada');
    halfOpen();
    expect(await ask('Ada')).toMatchObject({ limit: 'limits.ratePerPrincipal' });
    expect(await ask('Eve')).toMatchObject({ type: 'admitted' });
    expect(await ask('Bob')).toMatchObject({ limit: 'upstream.circuitBreaker' });
  });

  test('is none of a tool that is busy, and takes no place if another one is tried', async () => {
    const tools = { slow: { ...NO_LIMITS, maxRunning: 1 } };
    const { circuit, ask, halfOpen } = admission({ tools });
    const running = await ask('Ada');
    halfOpen();
    expect(await ask('Eve')).toMatchObject({ limit: 'limits.tools.maxRunning' });
    if (running.type === 'admitted') running.done?.();
    const tried = await ask('Eve');
    expect(tried).toMatchObject({ type: 'admitted' });
    if (tried.type === 'admitted') tried.done?.();
    expect(await ask('Bob')).toMatchObject({ limit: 'upstream.circuitBreaker' });
    circuit.ended(200);
    expect(await ask('Bob')).toMatchObject({ type: 'admitted' });
  });

  test('is the last one of those that are sent together', async () => {
    const { ask, halfOpen } = admission({});
    halfOpen();
    expect(await ask('Ada', true)).toMatchObject({ type: 'admitted' });
    expect(await ask('Ada')).toMatchObject({ type: 'admitted' });
    expect(await ask('Bob', true)).toMatchObject({ limit: 'upstream.circuitBreaker' });
  });

  test('is not counted by a rate before its time', async () => {
    const { circuit, ask } = admission({ ratePerPrincipal: ONE });
    circuit.ended(503);
    expect(await ask('Ada')).toMatchObject({ limit: 'upstream.circuitBreaker' });
    circuit.ended(200);
    expect(await ask('Ada')).toMatchObject({ type: 'admitted' });
  });
});
