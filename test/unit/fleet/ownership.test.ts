/** The homes that a process has, while homes come and go. */
import { expect, test } from 'vitest';
import { CLAIM_MS, Ownership } from '../../../src/fleet/ownership.ts';
import { DirectoryUnavailable, type Store, type Written } from '../../../src/model/store.ts';
import { homeId } from '../../../src/protocol/ids.ts';
import { settled } from '../../fixtures/calls-testbed.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';

const [ADA, BOB] = [homeId('home:ada'), homeId('home:bob')];
const SILENT = { claimed: () => {}, lost: () => {} };

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
    claimAndRead: async (id, part, ttlMs) => ({
      claim: await store.claim(id, ttlMs),
      kept: await store.read(id, part),
    }),
    release: (id, fencingToken) =>
      taking(() => [null, fencingTokens.get(id)].includes(fencingToken) && claimed.delete(id)),
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
  return { clock, claimed, kept, state, ownershipOf: () => new Ownership(store, clock, 'here') };
}

/** A process that claims its home again in a store that has lost it, and is unreachable. */
async function claimingAgain() {
  const { ownershipOf, ...stored } = withStore();
  const ownership = ownershipOf();
  await ownership.claim(ADA, SILENT);
  stored.claimed.clear();
  stored.state.isAway = true;
  const again = ownership.claimAgain();
  await settled();
  return { ...stored, ownership, again };
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
test('a home that is let go while the store is unreachable is not claimed again', async () => {
  const { clock, claimed, ownership, again } = await claimingAgain();
  ownership.letGo(ADA);
  await again;
  expect([claimed.size, clock.pending]).toEqual([0, 0]);
});

// Rule sessions-24.
test('a home that cannot be claimed again keeps no other home waiting, and is tried again by the next renewal', async () => {
  const { clock, claimed, state, ownershipOf } = withStore();
  const ownership = ownershipOf();
  await ownership.claim(ADA, SILENT);
  const [ada] = claimed;
  await ownership.claim(BOB, SILENT);
  claimed.clear();
  state.refuses = ada;
  const again = ownership.claimAgain();
  await settled();
  expect(claimed.size).toBe(1);
  for (let waitMs = 250; waitMs <= 8_000; waitMs *= 2) {
    clock.advance(waitMs);
    await settled();
  }
  await again;
  state.refuses = null;
  clock.advance(CLAIM_MS / 3);
  await settled();
  expect(claimed.size).toBe(2);
});

// Rule sessions-24.
test('homes that are tried again are claimed at once when the lease is there again, and as often as before', async () => {
  const { clock, claimed, state, ownership, again } = await claimingAgain();
  for (let waitMs = 250; waitMs < 8_000; waitMs *= 2) {
    clock.advance(waitMs);
    await settled();
  }
  // Now it waits for 8 s. The data was lost meanwhile.
  void ownership.claimAgain();
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
    const { claimed, ownershipOf } = withStore();
    const ownership = ownershipOf();
    await ownership.claim(ADA, SILENT);
    void ownership.claimAgain();
    for (let turn = 0; turn < turns; turn += 1) await Promise.resolve();
    claimed.clear();
    void ownership.claimAgain();
    await settled();
    expect([turns, claimed.size]).toEqual([turns, 1]);
  }
});

// Rule sessions-16.
test('a home that is given up while it is claimed again is free for others', async () => {
  const { claimed, state, ownershipOf } = withStore();
  const ownership = ownershipOf();
  await ownership.claim(ADA, SILENT);
  claimed.clear();
  state.nextFencingToken = 2;
  void ownership.claimAgain();
  ownership.giveUp(ADA, false);
  await settled();
  expect(claimed.size).toBe(0);
});

// Rule sessions-16.
test('a home that is wanted again while it is claimed again stays here', async () => {
  const { claimed, state, ownershipOf } = withStore();
  const ownership = ownershipOf();
  await ownership.claim(ADA, SILENT);
  claimed.clear();
  state.nextFencingToken = 2;
  void ownership.claimAgain();
  ownership.giveUp(ADA, false);
  await ownership.claim(ADA, SILENT);
  await settled();
  expect([claimed.size, ownership.isHere(ADA)]).toEqual([1, true]);
});

// Rule sessions-16.
test('a home whose session cannot be looked up is free for others', async () => {
  const { claimed, state, ownershipOf } = withStore();
  const ownership = ownershipOf();
  state.isSilent = true;
  await expect(ownership.claim(ADA, SILENT)).rejects.toThrow(DirectoryUnavailable);
  await settled();
  expect([claimed.size, ownership.isHere(ADA)]).toEqual([0, false]);
});

// Rule questions-10.
test('a home whose holder may have lost its lease is confirmed again once it is claimed again', async () => {
  const { state, ownershipOf } = withStore();
  const ownership = ownershipOf();
  const claimed: string[] = [];
  await ownership.claim(ADA, { ...SILENT, claimed: (id) => claimed.push(id) });
  expect(ownership.isConfirmed(ADA)).toBe(true);
  state.term = null;
  expect(ownership.isConfirmed(ADA)).toBe(false);
  // The lease is there again, and another process can have taken the home over meanwhile.
  state.term = 2;
  expect([ownership.isHere(ADA), ownership.isConfirmed(ADA)]).toEqual([true, false]);
  await ownership.claimAgain();
  expect(ownership.isConfirmed(ADA)).toBe(true);
  expect(claimed).toEqual([ADA, ADA]);
});

/** A process that has a home, and whose lease has been over for a moment. */
async function afterItsLease() {
  const { ownershipOf, ...stored } = withStore();
  const ownership = ownershipOf();
  const lost: string[] = [];
  await ownership.claim(ADA, { ...SILENT, lost: (id) => lost.push(id) });
  stored.state.term = null;
  return { ...stored, ownership, lost };
}

// Rule questions-10.
test('a process whose lease was over asks the store before it uses a home', async () => {
  const { ownership, state, lost } = await afterItsLease();
  expect(await ownership.stillHere(ADA)).toBe(true);
  state.term = 2;
  expect(await ownership.stillHere(ADA)).toBe(true);
  // Now that is certain.
  expect(ownership.stillHere(ADA)).toBeNull();
  expect(await ownership.stillHere(BOB)).toBe(true);
  expect(lost).toEqual([]);
});

// Rule questions-10.
test('a home that another process had meanwhile is not here any more, although it is free again', async () => {
  const { ownership, state, claimed, lost } = await afterItsLease();
  claimed.clear();
  state.nextFencingToken += 1;
  expect(await ownership.stillHere(ADA)).toBe(false);
  expect([ownership.isHere(ADA), ownership.isConfirmed(ADA), lost]).toEqual([false, false, [ADA]]);
  await settled();
  expect(claimed.size).toBe(0);
});

// Rule questions-10.
test('the store is asked whether a home is still here, also while the lease is not over', async () => {
  const { ownershipOf, claimed, state } = withStore();
  const ownership = ownershipOf();
  const lost: string[] = [];
  await ownership.claim(ADA, { ...SILENT, lost: (id) => lost.push(id) });
  expect(await ownership.askStore(ADA)).toBe(true);
  expect(ownership.askStore(BOB)).toBeNull();
  // Another process had the home meanwhile, as after the clock of the store was set.
  claimed.clear();
  state.nextFencingToken += 1;
  expect([await ownership.askStore(ADA), lost]).toEqual([false, [ADA]]);
  state.isAway = true;
  expect(ownership.askStore(ADA)).toBeNull();
});

// Rule questions-10.
test('while the store cannot be reached, a home is used without asking', async () => {
  const { ownership, state } = await afterItsLease();
  state.isAway = true;
  expect(ownership.stillHere(ADA)).toBeNull();
  expect(ownership.isHere(ADA)).toBe(true);
});

// Rule sessions-24.
test('thousands of homes are claimed again in a few turns, and one that fails keeps no other one waiting', async () => {
  const { claimed, kept, state, ownershipOf } = withStore();
  const ownership = ownershipOf();
  const homes = Array.from({ length: 2_500 }, (_, index) => homeId(`home:${index}`));
  for (const home of homes) {
    await ownership.claim(home, SILENT);
    ownership.keep(home, () => Uint8Array.of(1));
  }
  claimed.clear();
  kept.clear();
  [state.refuses] = homes;
  void ownership.claimAgain();
  await settled();
  expect([claimed.size, kept.size]).toEqual([2_499, 2_499]);
});
