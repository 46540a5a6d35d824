/** Which process has a home, while homes come and go. */
import { expect, test } from 'vitest';
import { DirectoryUnavailable, type Store, type Written } from '../../../src/model/store.ts';
import { MemoryStore } from '../../../src/fleet/store/memory-store.ts';
import { RemoteStore, serveStore } from '../../../src/fleet/store/remote-store.ts';
import { sessionId, upstreamRequestId } from '../../../src/protocol/ids.ts';
import { createKeyRing, generateKey } from '../../../src/seal/key-ring.ts';
import { HomePlacement } from '../../../src/sessions/placement.ts';
import { settled } from '../../fixtures/calls-testbed.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';

const TTL_MS = 600_000;

/** Two processes with one table, which takes what it is told in the order in which it was sent. */
function processes() {
  const clock = new ManualClock();
  const memory = new MemoryStore(clock, () => false);
  const ring = createKeyRing([generateKey()], 'home');
  const placementOf = (instance: string) => {
    const own = memory.of({ id: instance, instance });
    const store: RemoteStore = new RemoteStore(clock, (request, asked) => {
      const replied = serveStore(own, asked);
      setImmediate(() => void replied.then((reply) => store.receive(request, reply)));
    });
    const hasSuccessor = true;
    return new HomePlacement({
      store,
      ring,
      audience: 'fleet',
      route: 'mcp',
      ttlMs: TTL_MS,
      hasSuccessor,
      clock,
    });
  };
  return { clock, one: placementOf('one'), two: placementOf('two') };
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

// Rule questions-14.
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
      clock.advance(TTL_MS / 3);
      await settled();
    }
    expect(await two.claim('ada')).toEqual({ type: 'here', session: null });
  },
);

/** A process with a store that can be away: then it does nothing that it is told. */
function withStore() {
  const clock = new ManualClock();
  const claimed = new Set<unknown>();
  /** The fencing tokens of what is claimed: one that is not there any more is not released. */
  const fencingTokens = new Map<unknown, number>();
  const kept = new Map<unknown, Uint8Array>();
  const state = {
    ...{ isAway: false, isSilent: false, refuses: null as unknown, nextFencingToken: 1 },
    term: 1 as number | null,
  };
  const taking = async (take: () => void) => {
    if (state.isAway) throw new DirectoryUnavailable('timeout', 'away');
    take();
  };
  const keep: Store['end'] = async (id, _part, sealed): Promise<Written> => {
    await taking(() => kept.set(id, sealed));
    return 'kept';
  };
  const store: Store = {
    get up() {
      return !state.isAway;
    },
    get term() {
      return state.term;
    },
    claim: async (id) => {
      if (id === state.refuses) throw new DirectoryUnavailable('store', 'unreadable');
      const fencingToken = claimed.has(id) ? (fencingTokens.get(id) ?? 1) : state.nextFencingToken;
      fencingTokens.set(id, fencingToken);
      await taking(() => claimed.add(id));
      return { type: 'claimed', fencingToken };
    },
    release: (id, fencingToken) =>
      taking(() => fencingToken === fencingTokens.get(id) && claimed.delete(id)),
    state: keep,
    end: keep,
    holderOf: async () => null,
    isAlive: async () => true,
    read: async (id) => {
      if (state.isSilent) throw new DirectoryUnavailable('timeout', 'silent');
      return kept.get(id) ?? null;
    },
    forget: (id) => taking(() => kept.delete(id)),
    requireComplete: () => taking(() => {}),
  };
  const ring = createKeyRing([generateKey()], 'home');
  const options = {
    store,
    ring,
    audience: 'fleet',
    route: 'mcp',
    ttlMs: TTL_MS,
    hasSuccessor: true,
    clock,
  };
  return { clock, claimed, kept, state, placementOf: () => new HomePlacement(options) };
}

/** A process that claims its home again in a store that has lost it, and is unreachable. */
async function claimingAgain() {
  const { placementOf, ...stored } = withStore();
  const placement = placementOf();
  await placement.claim('ada');
  stored.claimed.clear();
  stored.state.isAway = true;
  const again = placement.claimAgain();
  await settled();
  return { ...stored, placement, again };
}

// Rule sessions-24.
test('homes are claimed again until the store takes them', async () => {
  const { clock, claimed, state, again } = await claimingAgain();
  state.isAway = false;
  clock.advance(250);
  await again;
  expect(claimed.size).toBe(1);
});

// Rule sessions-24.
test('a home that closes while the store is unreachable is not claimed again', async () => {
  const { clock, claimed, placement, again } = await claimingAgain();
  placement.close();
  await again;
  expect([claimed.size, clock.pending]).toEqual([0, 0]);
});

// Rule sessions-24.
test('a home that cannot be claimed again keeps no other home waiting, and is tried again by the next renewal', async () => {
  const { clock, claimed, state, placementOf } = withStore();
  const placement = placementOf();
  await placement.claim('ada');
  const [ada] = claimed;
  await placement.claim('bob');
  claimed.clear();
  state.refuses = ada;
  const again = placement.claimAgain();
  await settled();
  expect(claimed.size).toBe(1);
  for (let waitMs = 250; waitMs <= 8_000; waitMs *= 2) {
    clock.advance(waitMs);
    await settled();
  }
  await again;
  state.refuses = null;
  clock.advance(TTL_MS / 3);
  await settled();
  expect(claimed.size).toBe(2);
});

// Rule sessions-24.
test('homes that are tried again are claimed at once when the lease is there again, and as often as before', async () => {
  const { clock, claimed, state, placement, again } = await claimingAgain();
  for (let waitMs = 250; waitMs < 8_000; waitMs *= 2) {
    clock.advance(waitMs);
    await settled();
  }
  // Now it waits for 8 s. The data was lost meanwhile.
  void placement.claimAgain();
  await settled();
  state.isAway = false;
  clock.advance(250);
  await again;
  expect(claimed.size).toBe(1);
  expect(clock.pending).toBe(1);
});

// Rule sessions-24.
test('homes are claimed again as often as that is asked for, however soon', async () => {
  for (let turns = 0; turns < 20; turns += 1) {
    const { claimed, placementOf } = withStore();
    const placement = placementOf();
    await placement.claim('ada');
    void placement.claimAgain();
    for (let turn = 0; turn < turns; turn += 1) await Promise.resolve();
    claimed.clear();
    void placement.claimAgain();
    await settled();
    expect([turns, claimed.size]).toEqual([turns, 1]);
  }
});

// Rule sessions-16.
test('a home that is given up while it is claimed again is free for others', async () => {
  const { claimed, state, placementOf } = withStore();
  const placement = placementOf();
  await placement.claim('ada');
  claimed.clear();
  state.nextFencingToken = 2;
  void placement.claimAgain();
  placement.giveUp('ada', false);
  await settled();
  expect(claimed.size).toBe(0);
});

// Rule sessions-16.
test('a home that is wanted again while it is claimed again stays here', async () => {
  const { claimed, state, placementOf } = withStore();
  const placement = placementOf();
  await placement.claim('ada');
  claimed.clear();
  state.nextFencingToken = 2;
  void placement.claimAgain();
  placement.giveUp('ada', false);
  await placement.claim('ada');
  await settled();
  expect([claimed.size, placement.isHere('ada')]).toEqual([1, true]);
});

// Rule sessions-16.
test('a home whose session cannot be looked up is free for others', async () => {
  const { claimed, state, placementOf } = withStore();
  const placement = placementOf();
  state.isSilent = true;
  await expect(placement.claim('ada')).rejects.toThrow(DirectoryUnavailable);
  await settled();
  expect([claimed.size, placement.isHere('ada')]).toEqual([0, false]);
});

// Rule questions-10.
test('a home whose holder may have lost its lease is confirmed again once it is claimed again', async () => {
  const { state, placementOf } = withStore();
  const placement = placementOf();
  const claimed: string[] = [];
  placement.listen({ claimed: (key) => claimed.push(key), lost: () => {} });
  await placement.claim('ada');
  expect(placement.isConfirmed('ada')).toBe(true);
  state.term = null;
  expect(placement.isConfirmed('ada')).toBe(false);
  // The lease is there again, and another process can have taken the home over meanwhile.
  state.term = 2;
  expect([placement.isHere('ada'), placement.isConfirmed('ada')]).toEqual([true, false]);
  await placement.claimAgain();
  expect(placement.isConfirmed('ada')).toBe(true);
  expect(claimed).toEqual(['ada', 'ada']);
});

/** A process that has a home, and whose lease has been over for a moment. */
async function afterItsLease() {
  const { placementOf, ...stored } = withStore();
  const placement = placementOf();
  const lost: string[] = [];
  placement.listen({ claimed: () => {}, lost: (key) => lost.push(key) });
  await placement.claim('ada');
  stored.state.term = null;
  return { ...stored, placement, lost };
}

// Rule questions-11: A process whose lease was over asks the store whether it still has a home before it begins a call
// there. A home that another process had meanwhile does not come back: what runs here goes on, no question that names no
// call is shown in it, and the stream for such questions is left to the other process.
test('a process whose lease was over asks the store before it uses a home', async () => {
  const { placement, state, lost } = await afterItsLease();
  expect(await placement.stillHere('ada')).toBe(true);
  state.term = 2;
  expect(await placement.stillHere('ada')).toBe(true);
  // Now that is certain.
  expect(placement.stillHere('ada')).toBeNull();
  expect(placement.stillHere('bob')).toBeNull();
  expect(lost).toEqual([]);
});

// Rule questions-11.
test('a home that another process had meanwhile is not here any more, although it is free again', async () => {
  const { placement, state, claimed, lost } = await afterItsLease();
  claimed.clear();
  state.nextFencingToken += 1;
  expect(await placement.stillHere('ada')).toBe(false);
  expect([placement.isHere('ada'), placement.isConfirmed('ada'), lost]).toEqual([
    false,
    false,
    ['ada'],
  ]);
  await settled();
  expect(claimed.size).toBe(0);
});

// Rule questions-10.
test('the store is asked whether a home is still here, also while the lease is not over', async () => {
  const { placementOf, claimed, state } = withStore();
  const placement = placementOf();
  const lost: string[] = [];
  placement.listen({ claimed: () => {}, lost: (key) => lost.push(key) });
  await placement.claim('ada');
  expect(await placement.askStore('ada')).toBe(true);
  expect(placement.askStore('bob')).toBeNull();
  // Another process had the home meanwhile, as after the clock of the store was set.
  claimed.clear();
  state.nextFencingToken += 1;
  expect([await placement.askStore('ada'), lost]).toEqual([false, ['ada']]);
  state.isAway = true;
  expect(placement.askStore('ada')).toBeNull();
});

// Rule questions-11.
test('while the store cannot be reached, a home is used without asking', async () => {
  const { placement, state } = await afterItsLease();
  state.isAway = true;
  expect(placement.stillHere('ada')).toBeNull();
  expect(placement.isHere('ada')).toBe(true);
});

// Rule questions-10.
test('the sessions of a home that was given up for other settings are known here only, while the lease lasts', async () => {
  const { state, placementOf } = withStore();
  const placement = placementOf();
  await placement.claim('ada');
  placement.abandon();
  expect([placement.isHere('ada'), placement.isConfirmed('ada')]).toEqual([false, true]);
  expect(placement.isConfirmed('bob')).toBe(false);
  state.term = 2;
  expect(placement.isConfirmed('ada')).toBe(false);
});
