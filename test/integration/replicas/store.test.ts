/** The contract of the store (`src/model/store.ts`), over each store that there is. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { MemoryStore } from '../../../src/fleet/store/memory-store.ts';
import { RemoteStore, serveStore } from '../../../src/fleet/store/remote-store.ts';
import { systemClock } from '../../../src/lib/clock.ts';
import {
  DirectoryUnavailable,
  type ClaimsAndBytes,
  type Written,
} from '../../../src/model/store.ts';
import { homeId, type HomeId } from '../../../src/protocol/ids.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';
import { single, spy, startReplica, TTL_MS } from '../../fixtures/redis/directory-testbed.ts';
import { startRedis, type RedisServer } from '../../fixtures/redis/redis-server.ts';

/** A process, and the store as it has it. */
interface Member {
  readonly instance: string;
  readonly store: ClaimsAndBytes;
  /** Ends the process, without a word to the store. */
  readonly end: () => Promise<void>;
}

interface SharedStore {
  readonly member: () => Promise<Member>;
  /** Lets so much time pass that claims of `TTL_MS` end, and what is kept for as long. */
  readonly expire: (home: HomeId) => Promise<void>;
}

/** A store in memory, which each process asks as `connect` says. */
function inMemory(connect: (store: ClaimsAndBytes) => ClaimsAndBytes): SharedStore {
  const ended = new Set<string>();
  const clock = new ManualClock();
  const memory = new MemoryStore(clock, (instance) => ended.has(instance));
  const member = async () => {
    const instance = randomUUID();
    const store = connect(memory.of({ id: 'a', instance }));
    return { instance, store, end: async () => void ended.add(instance) };
  };
  return { member, expire: async () => clock.advance(TTL_MS) };
}

/** Asks a store over a channel that carries JSON, as workers ask their primary. */
function overChannel(store: ClaimsAndBytes): ClaimsAndBytes {
  const throughJson = <Value>(value: Value): Value => JSON.parse(JSON.stringify(value)) as Value;
  const remote: RemoteStore = new RemoteStore(systemClock, (request, asked) => {
    const replied = serveStore(store, throughJson(asked));
    setImmediate(() => void replied.then((reply) => remote.receive(request, throughJson(reply))));
  });
  return remote;
}

const sealed = (text: string) => Buffer.from(text);
const newHome = () => homeId(`home:${randomUUID()}`);
const KEPT: Written = 'kept';

async function textOf({ store }: Member, home: HomeId): Promise<string | null> {
  const bytes = await store.read(home, 'session');
  return bytes && Buffer.from(bytes).toString();
}

function holdsTheContract({ member, expire }: SharedStore): void {
  /** Two processes, of which the first has claimed a home. */
  async function stage() {
    const [one, other] = [await member(), await member()];
    const home = newHome();
    expect(await one.store.claim(home, TTL_MS)).toEqual({ type: 'claimed', fencingToken: 1 });
    const state = ({ store }: Member, text: string, fencingToken: number | null) =>
      store.state(home, 'session', sealed(text), TTL_MS, fencingToken);
    const end = ({ store }: Member, text: string) =>
      store.end(home, 'session', sealed(text), TTL_MS);
    return { one, other, home, state, end };
  }

  describe('a claim', () => {
    test('is read with what is kept, whoever kept that last', async () => {
      const { one, other, home, state } = await stage();
      const reading = (store: ClaimsAndBytes) => store.claimAndRead(home, 'session', TTL_MS);
      const held = { type: 'held', by: { instance: one.instance } };
      expect(await reading(one.store)).toEqual({
        claim: { type: 'claimed', fencingToken: 1 },
        kept: null,
      });
      await state(one, 'a', 1);
      expect(await reading(other.store)).toMatchObject({ claim: held });
      await one.end();
      const { claim, kept } = await reading(other.store);
      expect(claim).toEqual({ type: 'claimed', fencingToken: 2 });
      expect(Buffer.from(kept ?? []).toString()).toBe('a');
    });

    test('is held until it is released, and is renewed with the same fencing token', async () => {
      const { one, other, home } = await stage();
      expect(await one.store.claim(home, TTL_MS)).toEqual({ type: 'claimed', fencingToken: 1 });
      const held = { type: 'held', by: { instance: one.instance } };
      expect(await other.store.claim(home, TTL_MS)).toMatchObject(held);
      expect(await other.store.holderOf(home)).toMatchObject({ owner: { instance: one.instance } });
      await one.store.release(home, 1);
      expect(await other.store.holderOf(home)).toBeNull();
      expect(await other.store.claim(home, TTL_MS)).toEqual({ type: 'claimed', fencingToken: 2 });
    });

    test('is not released by another process, nor with an earlier fencing token', async () => {
      const { one, other, home } = await stage();
      await other.store.release(home, 1);
      await other.store.release(home, null);
      expect((await other.store.holderOf(home))?.owner.instance).toBe(one.instance);
      await one.store.release(home, 1);
      await one.store.claim(home, TTL_MS);
      await one.store.release(home, 1);
      expect((await other.store.holderOf(home))?.fencingToken).toBe(2);
    });

    test('whose reply was lost is released whatever its fencing token is', async () => {
      const { one, other, home } = await stage();
      await one.store.release(home, null);
      expect(await other.store.holderOf(home)).toBeNull();
    });

    test('ends with its process, and what was kept stays for the next one', async () => {
      const { one, other, home, state } = await stage();
      expect(await state(one, 'session', 1)).toBe(KEPT);
      expect(await other.store.isAlive(one.instance)).toBe(true);
      await one.end();
      expect(await other.store.isAlive(one.instance)).toBe(false);
      expect(await other.store.claim(home, TTL_MS)).toEqual({ type: 'claimed', fencingToken: 2 });
      expect(await textOf(other, home)).toBe('session');
    });

    test('expires unless it is renewed, and the fencing token grows all the same', async () => {
      const { other, home } = await stage();
      await expire(home);
      expect(await other.store.holderOf(home)).toBeNull();
      expect(await other.store.claim(home, TTL_MS)).toEqual({ type: 'claimed', fencingToken: 2 });
    });

    test('of several processes that claim at once is that of exactly one', async () => {
      const processes = await Promise.all([member(), member(), member()]);
      const home = newHome();
      const claims = await Promise.all(processes.map(({ store }) => store.claim(home, TTL_MS)));
      expect(claims.map(({ type }) => type).toSorted()).toEqual(['claimed', 'held', 'held']);
    });

    test('is made for thousands of homes at once, and each time with the same fencing token', async () => {
      const { store } = await member();
      const homes = Array.from({ length: 3_000 }, newHome);
      for (let renewal = 0; renewal < 2; renewal += 1) {
        const claims = await Promise.all(homes.map((home) => store.claim(home, TTL_MS)));
        expect(claims.filter(({ type }) => type !== 'claimed')).toEqual([]);
        expect(new Set(claims.map((claim) => JSON.stringify(claim))).size).toBe(1);
      }
    });
  });

  describe('a state', () => {
    test('replaces the one before, and comes back byte for byte at any process', async () => {
      const { one, other, home, state } = await stage();
      expect(await state(one, 'first', 1)).toBe(KEPT);
      expect(await state(one, 'second', 1)).toBe(KEPT);
      expect(await textOf(other, home)).toBe('second');
      const bytes = Uint8Array.from({ length: 256 }, (_, value) => value);
      await one.store.state(home, 'session', bytes, TTL_MS, 1);
      expect(Uint8Array.from((await other.store.read(home, 'session')) ?? [])).toEqual(bytes);
    });

    test('of an earlier claim is never written over one of a later claim', async () => {
      const { one, other, home, state } = await stage();
      await one.end();
      await other.store.claim(home, TTL_MS);
      expect(await state(other, 'theirs', 2)).toBe(KEPT);
      expect(await state(one, 'mine', 1)).toBe('lost');
      await one.store.forget(home, 'session', 1);
      // Also if the later claim has been given up since.
      await other.store.release(home, 2);
      expect(await state(one, 'mine', 1)).toBe('lost');
      expect(await textOf(one, home)).toBe('theirs');
    });

    test('with the number of the claim of another process is not kept', async () => {
      const { one, other, home, state } = await stage();
      await state(one, 'mine', 1);
      expect(await state(other, 'theirs', 1)).toBe('lost');
      expect(await textOf(other, home)).toBe('mine');
    });

    test('is kept after its claim was given up or has expired, until somebody else claims', async () => {
      const { one, other, home, state } = await stage();
      await one.store.release(home, 1);
      expect(await state(one, 'left', 1)).toBe(KEPT);
      await other.store.claim(home, TTL_MS);
      expect(await state(one, 'too late', 1)).toBe('lost');
      expect(await textOf(other, home)).toBe('left');
    });

    test('without a claim is kept while nobody has claimed', async () => {
      const [one, other] = [await member(), await member()];
      const home = newHome();
      const free = (text: string) => one.store.state(home, 'session', sealed(text), TTL_MS, null);
      expect(await free('mine')).toBe(KEPT);
      await other.store.claim(home, TTL_MS);
      expect(await free('too late')).toBe('lost');
      expect(await textOf(other, home)).toBe('mine');
    });

    test('goes when it is forgotten by who has claimed, and by nobody else', async () => {
      const { one, other, home, state } = await stage();
      await state(one, 'mine', 1);
      await other.store.forget(home, 'session', null);
      expect(await textOf(other, home)).toBe('mine');
      await one.store.forget(home, 'session', 1);
      expect(await textOf(other, home)).toBeNull();
    });

    test('expires', async () => {
      const { one, other, home, state } = await stage();
      await state(one, 'mine', 1);
      await expire(home);
      expect(await textOf(other, home)).toBeNull();
    });
  });

  describe('an end', () => {
    test('is kept whoever has claimed, and no state replaces it', async () => {
      const { one, other, home, state, end } = await stage();
      await state(one, 'working', 1);
      expect(await end(other, 'over')).toBe(KEPT);
      expect(await state(one, 'working', 1)).toBe('ended');
      expect(await textOf(one, home)).toBe('over');
    });

    test('is that of who has it first, who can keep it again', async () => {
      const { one, other, home, end } = await stage();
      expect(await end(other, 'first')).toBe(KEPT);
      expect(await end(one, 'second')).toBe('ended');
      expect(await textOf(one, home)).toBe('first');
      expect(await end(other, 'again')).toBe(KEPT);
      expect(await textOf(one, home)).toBe('again');
    });

    test('leaves the other parts of the same home as they are', async () => {
      const { one, home, state, end } = await stage();
      await one.store.state(home, 'task', sealed('task'), TTL_MS, 1);
      await end(one, 'over');
      expect(await one.store.state(home, 'task', sealed('further'), TTL_MS, 1)).toBe(KEPT);
      expect(Buffer.from((await one.store.read(home, 'task')) ?? []).toString()).toBe('further');
      expect(await state(one, 'working', 1)).toBe('ended');
    });

    test('expires, and then states are kept again', async () => {
      const { one, home, state, end } = await stage();
      await end(one, 'over');
      await expire(home);
      expect(await state(one, 'mine', 1)).toBe(KEPT);
      expect(await textOf(one, home)).toBe('mine');
    });
  });
}

describe('the store in memory', () => holdsTheContract(inMemory((store) => store)));

describe('the store in memory, over the channel of a worker', () =>
  holdsTheContract(inMemory(overChannel)));

describe('the store in Redis', { tags: ['redis'] }, () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(() => server.stop());

  holdsTheContract({
    member: async () => {
      // A clock that stands still renews no lease: that ends with the process.
      const { directory, instance } = await startReplica(single(server), 'a', {
        clock: new ManualClock(),
        leaseMs: TTL_MS,
      });
      return { instance, store: directory, end: () => directory.endLease(instance) };
    },
    expire: async (home) => {
      const redis = spy(server);
      for (const name of ['claim', 'session'])
        await redis.pexpire(`mrtr:fleet:{${home}}:${name}`, 0);
    },
  });
});

test('a process that does not reply counts as a store that is unreachable', async () => {
  const clock = new ManualClock();
  const remote = new RemoteStore(clock, () => {});
  const claim = remote.claim(newHome(), TTL_MS);
  clock.advance(4_000);
  await expect(claim).rejects.toThrow(DirectoryUnavailable);
});
