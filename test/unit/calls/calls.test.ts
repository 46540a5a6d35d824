/** What is left of a call whose client leaves before it begins. */
import { expect, test } from 'vitest';
import type { Call } from '../../../src/calls/call/call.ts';
import { CallRegistry, type CallRegistryOptions } from '../../../src/calls/calls.ts';
import { ParkedCalls } from '../../../src/calls/parked-calls.ts';
import { RunningCalls } from '../../../src/calls/running-calls.ts';
import { callId } from '../../../src/protocol/ids.ts';
import type { SessionPool } from '../../../src/upstream/pool/session-pool.ts';
import { RETRY } from '../../fixtures/clients/edge-request.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';

test('a client that leaves while its tool is looked up leaves no call behind', async () => {
  const lot = new ParkedCalls<Call>({ maxParked: 10, maxParkedPerPrincipal: 10 });
  const running = new RunningCalls(10);
  const client = new AbortController();
  const options: Partial<CallRegistryOptions> = {
    route: 'route',
    lot,
    running,
    pool: { lease: () => new Promise(() => {}) } as unknown as SessionPool,
    replica: { id: 'here', boot: 'here' },
    fleet: 'fleet',
    limits: LIMITS,
    keyNames: {},
    clock: new ManualClock(),
    log: { event: () => {} },
    randomCallId: () => callId('call'),
    relay: null,
    directory: null,
    mayReplay: async () => {
      client.abort();
      return true;
    },
  };
  const bridge = new CallRegistry(options as CallRegistryOptions);
  const leg = { closed: client.signal, backlog: null, notify: () => {} };
  const answer = await bridge.call({ ...RETRY, inputResponses: null, requestState: null }, leg);
  expect(lot.calls()).toHaveLength(0);
  expect(answer).toMatchObject({ failure: { error: { data: { reason: 'cancelled' } } } });
  expect(running.count).toBe(0);
});

const LIMITS = {
  gatherWindowMs: 1,
  gatherLimitMs: 1,
  maxDurationMs: 1_000,
  maxHoldMs: null,
  parkTtlMs: 1_000,
  callTtlMs: 1_000,
  cancelGraceMs: 1_000,
  redeliverMs: 1_000,
  maxRounds: 5,
  maxInputRequestsPerRound: 5,
};
