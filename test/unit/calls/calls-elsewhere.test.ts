/** New calls whose caller has its home at another replica. */
import { describe, expect, test } from 'vitest';
import { serveAtHome } from '../../../src/calls/elsewhere.ts';
import type { CallServices } from '../../../src/calls/call/data.ts';
import { DirectoryUnavailable } from '../../../src/model/store.ts';
import type { RelayOutcome } from '../../../src/model/relay.ts';
import { waiterWithoutNotifications } from '../../../src/model/request.ts';
import type { PointerOwner } from '../../../src/seal/pointer.ts';
import { FIRST } from '../../fixtures/calls-testbed.ts';
import { ManualClock, advanceUntil } from '../../fixtures/manual-clock.ts';

const HOLDER: PointerOwner = { id: 'holder', instance: 'holder' };
const REPLIED: RelayOutcome = {
  type: 'replied',
  reply: { kind: 'result', result: { content: [] } },
};

/** @param outcomes of the relay, in turn @param holders who has the home when it is asked for again */
function serve(outcomes: RelayOutcome[], holders: (PointerOwner | null)[] = []) {
  const clock = new ManualClock();
  let relayed = 0;
  const services = {
    routeId: 'mcp',
    clock,
    log: { event: () => {} },
    pool: { holderOf: () => Promise.resolve(holders.shift() ?? null) },
    relay: {
      relay: async () => outcomes[relayed++] ?? REPLIED,
      sendClientsBack: () => {},
    },
  } as unknown as CallServices;
  const waiter = waiterWithoutNotifications();
  const reply = serveAtHome(services, Promise.resolve(HOLDER), FIRST, waiter);
  const beganMs = clock.elapsed();
  const waitedMs = () => clock.elapsed() - beganMs;
  return { reply: advanceUntil(clock, reply), relayed: () => relayed, waitedMs };
}

const reasonOf = (reply: Awaited<ReturnType<typeof serve>['reply']>) =>
  reply?.kind === 'failed' ? (reply.failure.error.data as { reason: string }).reason : reply?.kind;

describe('a new call whose home is at another replica', () => {
  test('gets the reply of that replica', async () => {
    const { reply, relayed } = serve([REPLIED]);
    expect([await reply, relayed()]).toEqual([REPLIED.type === 'replied' && REPLIED.reply, 1]);
  });

  test.each(['gone', 'silent', 'unreachable', 'unknown'] as const)(
    'is relayed again if it is %s and has not begun, and made here once the home is here',
    async (type) => {
      const outcome: RelayOutcome = { type, problem: 'no' };
      const { reply, relayed } = serve([outcome, outcome], [HOLDER, null]);
      expect([await reply, relayed()]).toEqual([null, 2]);
    },
  );

  test.each(['gone', 'silent', 'unreachable', 'released'] as const)(
    'is not made again if it may have begun, and the replica is %s',
    async (type) => {
      const { reply, relayed } = serve([{ type, problem: 'no', isConfirmed: true }], [null]);
      expect([reasonOf(await reply), relayed()]).toEqual(['call_lost', 1]);
    },
  );

  test('is refused at once by a replica that stops before it has begun', async () => {
    const { reply, relayed } = serve([{ type: 'released', problem: 'this replica stops' }], [null]);
    expect([reasonOf(await reply), relayed()]).toEqual(['stopping', 1]);
  });

  test('goes to another holder at once, if the one that was remembered has the home no more', async () => {
    const other = { id: 'other', instance: 'other' };
    const { reply, relayed, waitedMs } = serve([{ type: 'unknown', problem: 'no' }], [other]);
    expect([await reply, relayed()]).toEqual([REPLIED.type === 'replied' && REPLIED.reply, 2]);
    expect(waitedMs()).toBe(0);
  });

  test('is refused after eight seconds if the replica cannot be reached', async () => {
    const gone: RelayOutcome = { type: 'gone', problem: 'no' };
    const { reply, relayed } = serve(
      Array.from({ length: 100 }, () => gone),
      Array.from({ length: 100 }, () => HOLDER),
    );
    expect([reasonOf(await reply), relayed()]).toEqual(['coordination_unavailable', 33]);
  });
});

test('a call is made here while nobody can say where its home is', async () => {
  const events: string[] = [];
  const services = {
    routeId: 'mcp',
    clock: new ManualClock(),
    log: { event: (name: string) => events.push(name) },
    relay: null,
  } as unknown as CallServices;
  const waiter = waiterWithoutNotifications();
  const away = Promise.reject(new DirectoryUnavailable('timeout', 'Redis does not respond'));
  expect(await serveAtHome(services, away, FIRST, waiter)).toBeNull();
  expect(events).toEqual(['session.home_unknown']);
});
