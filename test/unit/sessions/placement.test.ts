/** Which process has a home, while homes come and go. */
import { expect, test } from 'vitest';
import { CLAIM_MS, Ownership } from '../../../src/fleet/ownership.ts';
import { MemoryStore } from '../../../src/fleet/store/memory-store.ts';
import { RemoteStore, serveStore } from '../../../src/fleet/store/remote-store.ts';
import { sessionId, upstreamRequestId } from '../../../src/protocol/ids.ts';
import { createKeyRing, generateKey } from '../../../src/seal/key-ring.ts';
import { HomePlacement } from '../../../src/sessions/placement.ts';
import { settled } from '../../fixtures/calls-testbed.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';

/** Two processes with one table, which takes what it is told in the order in which it was sent. */
function processes() {
  const clock = new ManualClock();
  let asks = 0;
  const memory = new MemoryStore(clock, () => false);
  const ring = createKeyRing([generateKey()], 'home');
  const processOf = (instance: string) => {
    const own = memory.of({ id: instance, instance });
    const store: RemoteStore = new RemoteStore(clock, (request, asked) => {
      asks += 1;
      const replied = serveStore(own, asked);
      setImmediate(() => void replied.then((reply) => store.receive(request, reply)));
    });
    const hasSuccessor = true;
    const ownership = new Ownership(store, clock, instance);
    const options = { ownership, ring, audience: 'fleet', route: 'mcp', hasSuccessor, clock };
    return { store, placement: () => new HomePlacement(options) };
  };
  const [one, two] = [processOf('one'), processOf('two')];
  return {
    clock,
    one: one.placement(),
    two: two.placement(),
    /** The route of the first one, with other settings. */
    newSettings: one.placement,
    /** How often the table was asked. */
    asks: () => asks,
    endTerm: () => void Object.assign(one.store, { term: 2 }),
  };
}

// Rule sessions-16.
test.each([
  ['its session has ended', false],
  ['its session is left to the server', true],
])('a home that is wanted again in the moment in which %s stays here', async (_, isLeft) => {
  const { one, two } = processes();
  await one.claim('ada');
  one.giveUp('ada', isLeft);
  expect(await one.claim('ada')).toEqual({ type: 'here', session: null });
  await settled();
  expect(await two.claim('ada')).toEqual({
    type: 'elsewhere',
    holder: { id: 'one', instance: 'one' },
  });
});

// Rule questions-10.
test('the next process is told which calls can ask in the session of a home', async () => {
  const { one, two } = processes();
  await one.claim('ada');
  const session = { sessionId: sessionId('s1'), revision: '2025-06-18' as const };
  const calls = [
    { id: upstreamRequestId(7), waitsSinceMs: null },
    { id: upstreamRequestId('8'), waitsSinceMs: -1_000 },
  ];
  one.keep('ada', { ...session, calls });
  one.giveUp('ada', true);
  expect(await two.claim('ada')).toEqual({ type: 'here', session: { ...session, calls } });
  two.keep('ada', session);
  two.giveUp('ada', true);
  expect(await one.claim('ada')).toEqual({ type: 'here', session });
});

// Rule sessions-16.
test.each(['close', 'abandon'] as const)(
  'a home that is being claimed in the moment of %s is not claimed again and again',
  async (end) => {
    const { clock, one, two } = processes();
    const claiming = one.claim('ada');
    one[end]();
    expect(await claiming).toEqual({ type: 'here', session: null });
    expect(one.isHere('ada')).toBe(false);
    for (let third = 0; third < 3; third += 1) {
      clock.advance(CLAIM_MS / 3);
      await settled();
    }
    expect(await two.claim('ada')).toEqual({ type: 'here', session: null });
  },
);

// Rule questions-10.
test('the sessions of a home that was given up for other settings are known here only, while the lease lasts', async () => {
  const { one, endTerm } = processes();
  await one.claim('ada');
  one.abandon();
  expect([one.isHere('ada'), one.isConfirmed('ada')]).toEqual([false, true]);
  expect(one.isConfirmed('bob')).toBe(false);
  endTerm();
  expect(one.isConfirmed('ada')).toBe(false);
});

// Rule sessions-16.
test('a home that a route with other settings is just claiming is claimed for the one with the new settings', async () => {
  const { one, newSettings } = processes();
  const claiming = one.claim('ada');
  one.abandon();
  const later = newSettings();
  await Promise.all([claiming, later.claim('ada')]);
  expect([one.isHere('ada'), later.isHere('ada'), later.isConfirmed('ada')]).toEqual([
    false,
    true,
    true,
  ]);
});

test('who has a home is remembered until it is asked for', async () => {
  const { one, two, asks } = processes();
  await one.claim('ada');
  const elsewhere = { type: 'elsewhere', holder: { id: 'one', instance: 'one' } };
  expect(await two.claim('ada', true)).toEqual(elsewhere);
  const before = asks();
  expect(await two.claim('ada', true)).toEqual(elsewhere);
  expect(asks()).toBe(before);
  one.giveUp('ada', true);
  await settled();
  expect(await two.claim('ada', true)).toEqual(elsewhere);
  expect(await two.claim('ada')).toEqual({ type: 'here', session: null });
  expect(await one.claim('ada', true)).toMatchObject({ holder: { id: 'two' } });
});
