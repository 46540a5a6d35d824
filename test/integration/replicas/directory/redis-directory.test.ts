/** What replicas keep in Redis: who has which call, who is alive, and outcomes. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { DirectoryUnavailable } from '../../../../src/model/store.ts';
import { ManualClock } from '../../../fixtures/manual-clock.ts';
import { startRedis, type RedisServer } from '../../../fixtures/redis/redis-server.ts';
import {
  commands,
  HEAL,
  holding,
  newHome,
  single,
  spy,
  startReplica,
  startServer,
  TTL_MS,
} from '../../../fixtures/redis/directory-testbed.ts';

describe('the directory in Redis', { tags: ['redis'] }, () => {
  describe('while the store works', () => {
    let server: RedisServer;
    beforeAll(async () => {
      server = await startRedis();
    });
    afterAll(() => server.stop());

    test('of two replicas that claim a call at once, exactly one gets it', async () => {
      const a = await startReplica(single(server), 'a');
      const b = await startReplica(single(server), 'b');
      const calls = Array.from({ length: 20 }, newHome);
      const races = await Promise.all(
        calls.map((call) =>
          Promise.all([a, b].map(({ directory }) => directory.claim(call, TTL_MS))),
        ),
      );
      for (const [i, race] of races.entries()) {
        const winner = race.findIndex((claim) => claim.type === 'claimed');
        expect(race[winner]).toEqual({ type: 'claimed', fencingToken: 1 });
        const holder = await a.directory.holderOf(calls[i] ?? newHome());
        expect(holder?.owner.instance).toBe([a, b][winner]?.instance);
        expect(race[1 - winner]).toEqual({
          type: 'held',
          by: { ...holder?.owner, address: expect.stringContaining('10.0.0.1:') },
        });
      }
    });

    test('claiming what is ours renews it under the same fencing token', async () => {
      const { directory, instance } = await startReplica(single(server));
      const redis = spy(server);
      const call = newHome();
      await directory.claim(call, 1000);
      expect(await directory.claim(call, TTL_MS)).toEqual({ type: 'claimed', fencingToken: 1 });
      expect(await redis.pttl(`mrtr:fleet:{${call}}:claim`)).toBeGreaterThan(1000);
      expect((await directory.holderOf(call))?.owner.instance).toBe(instance);
    });

    test('nobody holds a call that was never claimed, or was released', async () => {
      const { directory } = await startReplica(single(server));
      const call = newHome();
      expect(await directory.holderOf(call)).toBeNull();
      await directory.claim(call, TTL_MS);
      await directory.release(call, 1);
      expect(await directory.holderOf(call)).toBeNull();
    });

    test('a claim that could not be released while the store was unreachable is released when it is back', async () => {
      const a = await startReplica(single(server), 'a');
      const [released, claimedAgain] = [newHome(), newHome()];
      for (const call of [released, claimedAgain]) await a.directory.claim(call, TTL_MS);
      server.pause();
      await expect.poll(() => a.directory.up, HEAL).toBe(false);
      await expect(a.directory.release(released, 1)).rejects.toThrow(DirectoryUnavailable);
      // No claim takes the place of that release: it fails.
      await expect(a.directory.release(claimedAgain, 1)).rejects.toThrow(DirectoryUnavailable);
      await expect(a.directory.claim(claimedAgain, TTL_MS)).rejects.toThrow(DirectoryUnavailable);
      server.resume();
      await expect.poll(() => a.directory.up, HEAL).toBe(true);
      await expect.poll(() => a.directory.holderOf(released), HEAL).toBeNull();
      await expect.poll(() => a.directory.holderOf(claimedAgain), HEAL).toBeNull();
    });

    test('a claim that could not be released is not released once it is claimed again', async () => {
      const clock = new ManualClock();
      const store = await startServer();
      const a = await startReplica(single(store), 'a', { clock });
      const redis = spy(store);
      const call = newHome();
      await a.directory.claim(call, TTL_MS);
      await redis.config('SET', 'min-replicas-to-write', '1');
      await expect(a.directory.release(call, 1)).rejects.toThrow(DirectoryUnavailable);
      await expect(a.directory.claim(call, TTL_MS)).rejects.toThrow(DirectoryUnavailable);
      await redis.config('SET', 'min-replicas-to-write', '0');
      expect(await a.directory.claim(call, TTL_MS)).toEqual({ type: 'claimed', fencingToken: 1 });
      clock.advance(100);
      await expect.poll(() => a.directory.up, HEAL).toBe(true);
      expect((await a.directory.holderOf(call))?.fencingToken).toBe(1);
    });

    test('a call that is claimed after its release gets a higher fencing token', async () => {
      const a = await startReplica(single(server), 'a');
      const b = await startReplica(single(server), 'b');
      const call = newHome();
      await a.directory.claim(call, TTL_MS);
      await a.directory.release(call, 1);
      expect(await b.directory.claim(call, TTL_MS)).toEqual({ type: 'claimed', fencingToken: 2 });
    });

    test('a claim of a replica whose lease ran out is taken over, and the former holder is fenced', async () => {
      // Its clock stands still: it never renews.
      const stuck = await startReplica(single(server), 'a', {
        clock: new ManualClock(),
        leaseMs: 1000,
      });
      const b = await startReplica(single(server), 'b');
      const call = newHome();
      expect(await stuck.directory.claim(call, TTL_MS)).toEqual({
        type: 'claimed',
        fencingToken: 1,
      });
      expect(await holding(stuck, call)).toEqual({ instance: stuck.instance, fencingToken: 1 });

      await expect.poll(() => b.directory.isAlive(stuck.instance), HEAL).toBe(false);
      expect(await b.directory.claim(call, TTL_MS)).toEqual({ type: 'claimed', fencingToken: 2 });
      expect(await holding(stuck, call)).toEqual({ instance: b.instance, fencingToken: 2 });

      await stuck.directory.release(call, 1);
      expect(await holding(b, call)).toEqual({ instance: b.instance, fencingToken: 2 });
      expect(await stuck.directory.claim(call, TTL_MS)).toMatchObject({
        type: 'held',
        by: { instance: b.instance },
      });
    });

    // Rule store-1.
    test('of several replicas that find the holder dead, exactly one takes over', async () => {
      const dead = await startReplica(single(server), 'dead');
      const others = await Promise.all(
        ['b', 'c', 'd'].map((id) => startReplica(single(server), id)),
      );
      const calls = Array.from({ length: 20 }, newHome);
      for (const call of calls) await dead.directory.claim(call, TTL_MS);
      await dead.directory.close();
      for (const call of calls) {
        const claims = await Promise.all(
          others.map(({ directory }) => directory.claim(call, TTL_MS)),
        );
        expect(claims.filter(({ type }) => type === 'claimed')).toEqual([
          { type: 'claimed', fencingToken: 2 },
        ]);
      }
    });

    test('a replica is alive from its start to its end', async () => {
      const a = await startReplica(single(server), 'a');
      const b = await startReplica(single(server), 'b');
      expect(await b.directory.isAlive(a.instance)).toBe(true);
      expect(await b.directory.isAlive('never-started')).toBe(false);
      await a.directory.close();
      expect(await b.directory.isAlive(a.instance)).toBe(false);
    });

    test('a lease that was lost is there again with the next renewal', async () => {
      const clock = new ManualClock();
      const a = await startReplica(single(server), 'a', { clock, renewEveryMs: 1500 });
      const redis = spy(server);
      await redis.del(`mrtr:fleet:{${a.instance}}:lease`);
      expect(await a.directory.isAlive(a.instance)).toBe(false);
      clock.advance(1500);
      await expect.poll(() => a.directory.isAlive(a.instance), HEAL).toBe(true);
    });

    // Rule store-6.
    test('a lease that seems to last longer than any lasts no longer, as after the clock of the store was set back', async () => {
      const { directory } = await startReplica(single(server), 'a', { leaseMs: 300 });
      const redis = spy(server);
      const key = 'mrtr:fleet:{dead}:lease';
      await redis.set(key, JSON.stringify({ id: 'dead', instance: 'dead' }), 'PX', 60_000);
      expect(await directory.renewedAgoMs('dead')).toBe(0);
      expect(await redis.pttl(key)).toBeLessThanOrEqual(300);
      await expect.poll(() => directory.isAlive('dead'), HEAL).toBe(false);
    });

    // Rule store-12.
    test('what is wrong with one key does not count as an outage of the store', async () => {
      const { directory } = await startReplica(single(server));
      const heard: boolean[] = [];
      directory.onChange((up) => heard.push(up));
      const redis = spy(server);
      const call = newHome();
      for (const kind of ['claim', 'token', 'outcome']) {
        await redis.rpush(`mrtr:fleet:{${call}}:${kind}`, 'garbage');
      }
      const data = { failure: 'data' };
      await expect(directory.claim(call, TTL_MS)).rejects.toMatchObject(data);
      await expect(directory.holderOf(call)).rejects.toMatchObject(data);
      await expect(directory.release(call, 1)).rejects.toMatchObject(data);
      await expect(directory.read(call, 'outcome')).rejects.toMatchObject(data);
      await redis.set(`mrtr:fleet:{${call}}:token`, 'garbage');
      await redis.del(`mrtr:fleet:{${call}}:claim`);
      await expect(directory.claim(call, TTL_MS)).rejects.toMatchObject(data);
      expect(await directory.claim(newHome(), TTL_MS)).toMatchObject({ type: 'claimed' });
      expect([directory.up, heard]).toEqual([true, []]);
      await redis.rpush('mrtr:fleet:{odd}:lease', 'garbage');
      expect(await directory.replicas()).not.toEqual([]);
    });

    test('an outcome comes back byte for byte, from any replica', async () => {
      const a = await startReplica(single(server), 'a');
      const b = await startReplica(single(server), 'b');
      const call = newHome();
      const sealed = Uint8Array.from({ length: 256 }, (_, i) => i);
      expect(await b.directory.read(call, 'outcome')).toBeNull();
      await a.directory.end(call, 'outcome', sealed, TTL_MS);
      expect(Uint8Array.from((await b.directory.read(call, 'outcome')) ?? [])).toEqual(sealed);
      await b.directory.forget(call, 'outcome', null);
      expect(await a.directory.read(call, 'outcome')).toBeNull();
    });

    test('fleets that share a store do not see each other', async () => {
      const a = await startReplica(single(server), 'a');
      const b = await startReplica(single(server), 'b', { audience: 'other}{fleet' });
      const call = newHome();
      await a.directory.claim(call, TTL_MS);
      expect(await b.directory.claim(call, TTL_MS)).toMatchObject({ type: 'claimed' });
      expect(await b.directory.isAlive(a.instance)).toBe(false);
    });

    // Rule shared-17.
    test('an address that no replica wrote of itself is one of nobody', async () => {
      const a = await startReplica(single(server), '1');
      const b = await startReplica(single(server), '2');
      const redis = spy(server);
      const forged = { v: 1, id: 'x', instance: 'x', address: 'http://10.0.0.1:80' };
      await redis.set('mrtr:fleet:{x}:lease', JSON.stringify(forged), 'PX', TTL_MS);
      const moved = String(await redis.get(`mrtr:fleet:{${a.instance}}:lease`)).replace(
        a.instance,
        'y',
      );
      await redis.set('mrtr:fleet:{y}:lease', moved, 'PX', TTL_MS);
      const found = (await b.directory.replicas()).map(({ address }) => address);
      expect(found.toSorted()).toEqual(['10.0.0.1:1', '10.0.0.1:2']);
      for (const instance of ['x', 'y']) {
        const call = newHome();
        const claim = JSON.stringify({ v: 1, fencingToken: 1, owner: { id: 'x', instance } });
        await redis.set(`mrtr:fleet:{${call}}:claim`, claim, 'PX', TTL_MS);
        const held = await b.directory.claim(call, TTL_MS);
        expect(held).toEqual({ type: 'held', by: { id: 'x', instance } });
      }
    });

    test('a claim that cannot be read is ignored', async () => {
      const { directory } = await startReplica(single(server));
      const redis = spy(server);
      const owner = { id: 'b', instance: 'b' };
      const unknown = [
        { v: 1, fencingToken: 0, owner },
        { v: 2, fencingToken: 1, owner },
      ];
      for (const odd of ['', 'x', '{}', ...unknown.map((each) => JSON.stringify(each))]) {
        const call = newHome();
        await redis.set(`mrtr:fleet:{${call}}:claim`, odd, 'PX', TTL_MS);
        await expect(directory.claim(call, TTL_MS)).rejects.toMatchObject({ failure: 'data' });
        await expect(directory.holderOf(call)).rejects.toMatchObject({ failure: 'data' });
      }
    });
  });

  test('every key expires by itself, whatever happened to it', async () => {
    const server = await startServer();
    const a = await startReplica(single(server), 'a');
    const b = await startReplica(single(server), 'b');
    const dead = await startReplica(single(server), 'dead');
    const [claimed, renewed, released, takenOver] = [newHome(), newHome(), newHome(), newHome()];
    await a.directory.claim(claimed, TTL_MS);
    await a.directory.claim(renewed, TTL_MS);
    await a.directory.claim(renewed, TTL_MS);
    await a.directory.claim(released, TTL_MS);
    await a.directory.release(released, 1);
    await dead.directory.claim(takenOver, TTL_MS);
    await dead.directory.close();
    await b.directory.claim(takenOver, TTL_MS);
    await a.directory.end(claimed, 'outcome', Buffer.of(1), TTL_MS);

    const redis = spy(server);
    const keys = await redis.keys('*');
    // Two leases; three claims, four fencing tokens and an outcome.
    expect(keys).toHaveLength(10);
    for (const key of keys) {
      expect(key).toMatch(/^mrtr:fleet:\{[^{}]+\}:(lease|claim|token|outcome)$/);
      expect(await redis.pttl(key), key).toBeGreaterThan(0);
    }
  });

  test('after its end a directory fails every command and holds no timer', async () => {
    const server = await startServer();
    const clock = new ManualClock();
    const { directory } = await startReplica(single(server), 'a', { clock });
    await directory.close();
    expect(directory.up).toBe(false);
    expect(clock.pending).toBe(0);
    for (const [name, command] of commands) {
      await expect(command(directory), name).rejects.toMatchObject({ failure: 'closed' });
    }
  });

  test('the database of the URL is the one that is used', async () => {
    const server = await startServer();
    const url = new URL('/3', server.url);
    await startReplica({ ...single(server), url });
    const redis = spy(server);
    expect(await redis.dbsize()).toBe(0);
    await redis.select(3);
    expect(await redis.dbsize()).toBe(1);
  });
});
