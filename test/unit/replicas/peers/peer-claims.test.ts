/** Several gateways that decide which of them has a home, without sockets. */
import { describe, expect, test } from 'vitest';
import { agree, PeerClaims } from '../../../../src/replicas/peers/peer-claims.ts';
import type { Peer, Peers } from '../../../../src/replicas/peers/peers.ts';
import type { ClaimReply } from '../../../../src/replicas/directory/claim-table.ts';
import { ManualClock } from '../../../fixtures/manual-clock.ts';

const HOME = 'home:ada';
const TTL_MS = 60_000;

interface Gateway {
  readonly claims: PeerClaims;
  /** The gateways that it knows, in the order of their rank for every home. */
  knows: string[];
  isSilent: boolean;
}

/** Gateways of one process each, which is called as they are. */
function stage(...names: string[]) {
  const clock = new ManualClock();
  const gateways = new Map<string, Gateway>();
  for (const name of names) {
    let version = 0;
    let knows = names;
    const peerOf = (other: string): Peer => ({
      origin: other,
      name: other,
      boots: new Set([other]),
    });
    const peers: Pick<Peers, 'ask' | 'members' | 'ranked' | 'isHere' | 'isThere' | 'version'> = {
      get version() {
        return version;
      },
      get members() {
        return knows.filter((other) => other !== name).map(peerOf);
      },
      ranked: () => knows.map((other) => (other === name ? null : peerOf(other))),
      isHere: (boot) => boot === name,
      isThere: (boot) => knows.includes(boot),
      ask: async ({ origin }, request) => {
        const other = gateways.get(origin);
        if (other === undefined || other.isSilent) throw new Error('silent');
        return other.claims.serve(request, peerOf(name));
      },
    };
    gateways.set(name, {
      claims: new PeerClaims({ peers, clock }),
      isSilent: false,
      get knows() {
        return knows;
      },
      set knows(others) {
        knows = others;
        version += 1;
      },
    });
  }
  const at = (name: string) => gateways.get(name)!;
  const claim = (name: string): Promise<ClaimReply> =>
    at(name).claims.answer({ type: 'claim', id: HOME, ttlMs: TTL_MS }, { id: name, boot: name });
  const keep = (name: string, kept: string) =>
    at(name).claims.answer(
      { type: 'keep', id: HOME, text: kept, ttlMs: TTL_MS },
      { id: name, boot: name },
    );
  const kept = (name: string) =>
    at(name).claims.answer({ type: 'kept', id: HOME }, { id: name, boot: name });
  const release = (name: string, epoch: number) =>
    at(name).claims.answer({ type: 'release', id: HOME, epoch }, { id: name, boot: name });
  /** All others see that a gateway is dead. */
  const die = (dead: string) => {
    at(dead).isSilent = true;
    for (const [name, gateway] of gateways) {
      if (name !== dead) gateway.knows = gateway.knows.filter((other) => other !== dead);
    }
  };
  return { at, claim, keep, kept, release, die };
}

const heldBy = (name: string) =>
  expect.objectContaining({ type: 'held', by: { id: name, boot: name } });

describe('a home among peers', () => {
  test('is claimed by one of those that claim it at once', async () => {
    const { claim } = stage('a', 'b', 'c');
    const claims = await Promise.all(['b', 'c', 'a'].map(claim));
    expect(claims).toEqual([{ type: 'claimed', epoch: 1 }, heldBy('b'), heldBy('b')]);
  });

  test('stays where it is when its keeper dies, and when a new one comes', async () => {
    const { claim, die, at } = stage('a', 'b', 'c', 'd');
    for (const name of ['a', 'b', 'c']) at(name).knows = ['a', 'b', 'c'];
    expect(await claim('c')).toEqual({ type: 'claimed', epoch: 1 });
    die('a');
    expect(await claim('b')).toEqual(heldBy('c'));
    for (const name of ['b', 'c', 'd']) at(name).knows = ['d', 'b', 'c'];
    expect([await claim('b'), await claim('d')]).toEqual([heldBy('c'), heldBy('c')]);
    expect(await claim('c')).toEqual({ type: 'claimed', epoch: 1 });
  });

  test('goes on elsewhere with what was kept when its gateway dies, whoever that was', async () => {
    for (const dead of ['a', 'b', 'c']) {
      const { claim, keep, kept, die } = stage('a', 'b', 'c');
      const [next = '', last = ''] = ['a', 'b', 'c'].filter((name) => name !== dead);
      await claim(dead);
      await keep(dead, 'sealed');
      die(dead);
      expect(await claim(last)).toEqual({ type: 'claimed', epoch: 2 });
      expect(await kept(last)).toBe('sealed');
      expect(await claim(next)).toEqual(heldBy(last));
    }
  });

  test('is not given to another while its gateway is only silent', async () => {
    const { claim, keep, at, die } = stage('a', 'b', 'c');
    await claim('a');
    await keep('a', 'sealed');
    at('a').isSilent = true;
    expect([await claim('c'), await claim('b')]).toEqual([heldBy('a'), heldBy('a')]);
    die('a');
    expect(await claim('c')).toEqual({ type: 'claimed', epoch: 2 });
  });

  test('is free when it was released', async () => {
    const { claim, keep, kept, release } = stage('a', 'b', 'c');
    await claim('c');
    await keep('c', 'sealed');
    await release('c', 1);
    expect(await claim('b')).toEqual({ type: 'claimed', epoch: 2 });
    expect(await kept('b')).toBe('sealed');
  });

  test('is found by gateways that do not know of each other, at one that both know', async () => {
    const { claim, at } = stage('a', 'b', 'c');
    at('b').knows = ['b', 'a'];
    at('c').knows = ['c', 'a'];
    expect(await claim('a')).toEqual({ type: 'claimed', epoch: 1 });
    expect([await claim('b'), await claim('c')]).toEqual([heldBy('a'), heldBy('a')]);
  });
});

describe('what several gateways know of a home', () => {
  const entry = { holder: { id: 'a', boot: 'a' }, epoch: 2, revision: 1, text: 'new', ttlMs: 1 };

  test('is what that says which has the home, although another is newer', () => {
    const own = { entry: { ...entry, epoch: 1 }, isHere: true };
    expect(agree([{ entry, isHere: false }, own], () => false)).toEqual(own.entry);
  });

  test.each([
    ['free if its gateway says that it has it no longer', false, null],
    ['held if its gateway does not reply', true, entry.holder],
  ])('is the newest, and %s', (_title, isSilent, holder) => {
    const older = { entry: { ...entry, revision: 0, text: 'old' }, isHere: false };
    const said = [older, { entry, isHere: false }, { entry: null, isHere: false }];
    expect(agree(said, () => isSilent)).toEqual({ ...entry, holder });
  });
});
