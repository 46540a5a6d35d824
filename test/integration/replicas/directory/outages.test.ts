/** The directory while Redis is unreachable, silent or empty. */
import { describe, expect, test, vi } from 'vitest';
import { DirectoryUnavailable } from '../../../../src/model/store.ts';
import { ManualClock } from '../../../fixtures/manual-clock.ts';
import { Severable } from '../../../fixtures/network/flaky-proxy.ts';
import { stopAfterTest } from '../../../fixtures/stop-after-test.ts';
import { freePort } from '../../../fixtures/processes.ts';
import {
  commands,
  HEAL,
  makeReplica,
  newHome,
  RENEW_EVERY_MS,
  single,
  spy,
  startReplica,
  startServer,
  TTL_MS,
} from '../../../fixtures/redis/directory-testbed.ts';

describe('the directory in Redis', { tags: ['redis'] }, () => {
  describe('an outage', () => {
    test('fails commands at once while the store is gone, and heals by itself when it is back', async () => {
      const server = await startServer();
      const { directory, instance } = await startReplica(single(server));
      const changes: boolean[] = [];
      directory.onChange((up) => changes.push(up));
      const call = newHome();
      await directory.claim(call, TTL_MS);

      await server.kill();
      await expect.poll(() => directory.up, HEAL).toBe(false);
      for (const [name, command] of commands) {
        await expect(command(directory), name).rejects.toBeInstanceOf(DirectoryUnavailable);
      }

      await server.restart();
      await expect.poll(() => directory.up, HEAL).toBe(true);
      expect(changes).toEqual([false, true]);
      expect(await directory.isAlive(instance)).toBe(true);
      // The store came back empty: what we held is not ours until we claim it again.
      expect(await directory.holderOf(call)).toBeNull();
      expect(await directory.claim(call, TTL_MS)).toMatchObject({ type: 'claimed' });
    });

    test('is told with its cause, also while Redis only refuses writes', async () => {
      const server = await startServer();
      const { directory } = await startReplica(single(server));
      const problems: string[] = [];
      directory.outage.onCause((problem) => problems.push(problem));
      await spy(server).config('SET', 'maxmemory', '1');
      await expect
        .poll(() => problems, HEAL)
        .toEqual([`Redis at redis://127.0.0.1:${server.port} is out of memory (OOM)`]);
    });

    test('is told again with its cause, if that shows only when the gateway connects again', async () => {
      const server = await startServer();
      const { directory } = await startReplica(single(server));
      const problems: string[] = [];
      directory.outage.onCause((problem) => problems.push(problem));
      const redis = spy(server);
      await redis.config('SET', 'requirepass', 'another');
      await redis.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
      await expect
        .poll(() => problems.at(-1), HEAL)
        .toBe(`Redis at redis://127.0.0.1:${server.port} requires a username or password`);
      expect(problems).toHaveLength(2);
    });

    test('after which the data is gone is told to the replica, unlike one that its lease outlived', async () => {
      const redis = await startServer();
      const { directory } = await startReplica(single(redis));
      const restored = vi.fn();
      directory.onLeaseRestored(restored);
      redis.pause();
      await expect.poll(() => directory.up, HEAL).toBe(false);
      redis.resume();
      await expect.poll(() => directory.up, HEAL).toBe(true);
      expect(restored).not.toHaveBeenCalled();
      await redis.restart();
      await expect.poll(() => restored.mock.calls.length, HEAL).toBe(1);
      await directory.claim(newHome(), TTL_MS);
      expect(restored).toHaveBeenCalledOnce();
    });

    // Rule shared-8.
    test('in which the data is gone is told, although the reply to the renewal that met it is lost', async () => {
      const server = await startServer();
      const way = await Severable.to({ host: '127.0.0.1', port: server.port });
      stopAfterTest(() => way.stop());
      const clock = new ManualClock();
      const redis = single({ url: new URL(`redis://127.0.0.1:${way.port}`) });
      const { directory } = await startReplica(redis, 'a', { clock, renewEveryMs: 1500 });
      const restored = vi.fn();
      directory.onLeaseRestored(restored);
      way.cut('back');
      await spy(server).flushall();
      clock.advance(1500);
      await expect.poll(() => directory.up, HEAL).toBe(false);
      way.mend();
      await expect.poll(() => directory.up, HEAL).toBe(true);
      expect(restored).toHaveBeenCalledOnce();
    });

    test('says nothing of who is dead before every replica has had time to renew its lease', async () => {
      const server = await startServer();
      const clock = new ManualClock();
      const { directory } = await startReplica(single(server), 'a', { clock, leaseMs: 5000 });
      expect(await directory.isAlive('slow')).toBe(false);
      // It comes back empty, as after a failover that took longer than a lease.
      await server.restart();
      await expect.poll(() => directory.up, HEAL).toBe(true);
      const call = newHome();
      const claim = '{"v":1,"fencingToken":1,"owner":{"id":"slow","instance":"slow"}}';
      await spy(server).set(`mrtr:fleet:{${call}}:claim`, claim, 'PX', TTL_MS);
      await expect(directory.isAlive('slow')).rejects.toMatchObject({ failure: 'incomplete' });
      await expect(directory.renewedAgoMs('slow')).rejects.toMatchObject({ failure: 'incomplete' });
      await expect(directory.claim(call, TTL_MS)).rejects.toMatchObject({ failure: 'incomplete' });
      clock.advance(5000);
      expect(await directory.isAlive('slow')).toBe(false);
      expect(await directory.renewedAgoMs('slow')).toBeNull();
      expect(await directory.claim(call, TTL_MS)).toMatchObject({ type: 'claimed' });
    });

    // Rule sessions-24.
    test('leaves no trace of a claim of what a live replica may be about to claim again', async () => {
      const server = await startServer();
      const holder = await startReplica(single(server), 'a', { clock: new ManualClock() });
      const other = await startReplica(single(server), 'b', { clock: new ManualClock() });
      const home = newHome();
      const claimed = { claim: { type: 'claimed', fencingToken: 1 }, kept: null };
      expect(await holder.directory.claimAndRead(home, 'session', TTL_MS)).toEqual(claimed);
      // Neither connection breaks, and nobody has renewed a lease since.
      const redis = spy(server);
      await redis.flushall();
      await expect(other.directory.claimAndRead(home, 'session', TTL_MS)).rejects.toMatchObject({
        failure: 'incomplete',
      });
      expect(await redis.keys('*')).toEqual([]);
      expect(await holder.directory.claim(home, TTL_MS)).toEqual(claimed.claim);
    });

    test('of a store that falls silent ends each command within its time', async () => {
      const server = await startServer();
      // No heartbeat: the commands have to notice it themselves.
      const { directory } = await startReplica(single(server), 'a', { clock: new ManualClock() });
      server.pause();
      stopAfterTest(async () => server.resume());
      for (const [name, command] of commands) {
        await expect(command(directory), name).rejects.toMatchObject({
          code: 'coordination_unavailable',
          failure: 'timeout',
        });
        expect(directory.up).toBe(false);
      }
      server.resume();
      await expect.poll(() => directory.up, HEAL).toBe(true);
    });

    test('is noticed by the heartbeat when nobody asks for anything', async () => {
      const server = await startServer();
      const { directory } = await startReplica(single(server));
      server.pause();
      stopAfterTest(async () => server.resume());
      await expect.poll(() => directory.up, HEAL).toBe(false);
      server.resume();
      await expect.poll(() => directory.up, HEAL).toBe(true);
    });

    test('leaves a claim whose reply was lost to its claimer, and carries nothing out twice', async () => {
      const server = await startServer();
      const clock = new ManualClock();
      const { directory } = await startReplica(single(server), 'a', { clock });
      const redis = spy(server);
      const call = newHome();
      server.pause();
      // The command is in the server's socket when the client gives up.
      await expect(directory.claim(call, TTL_MS)).rejects.toBeInstanceOf(DirectoryUnavailable);
      server.resume();
      // The connection can outlive its command by a moment, and then stays: the next renewal shows that Redis is back.
      clock.advance(RENEW_EVERY_MS);
      await expect.poll(() => directory.up, HEAL).toBe(true);
      await expect.poll(() => redis.get(`mrtr:fleet:{${call}}:claim`), HEAL).not.toBeNull();
      expect(await directory.claim(call, TTL_MS)).toEqual({ type: 'claimed', fencingToken: 1 });
      expect(await redis.get(`mrtr:fleet:{${call}}:token`)).toContain('"fencingToken":1,');
    });

    test('ends a claim whose reply was lost, if its claimer gives the call up, and no claim of another', async () => {
      const server = await startServer();
      const clock = new ManualClock();
      const a = await startReplica(single(server), 'a', { clock });
      const b = await startReplica(single(server), 'b', { clock: new ManualClock() });
      const [own, other] = [newHome(), newHome()];
      await b.directory.claim(other, TTL_MS);
      server.pause();
      const claims = [own, other].map((call) => a.directory.claim(call, TTL_MS));
      for (const claim of claims) await expect(claim).rejects.toThrow(DirectoryUnavailable);
      for (const call of [own, other]) {
        await expect(a.directory.release(call, null)).rejects.toThrow(DirectoryUnavailable);
      }
      server.resume();
      clock.advance(RENEW_EVERY_MS);
      for (const { directory } of [a, b]) await expect.poll(() => directory.up, HEAL).toBe(true);
      await expect
        .poll(() => b.directory.claim(own, TTL_MS), HEAL)
        .toMatchObject({ fencingToken: 2 });
      expect((await b.directory.holderOf(other))?.owner.instance).toBe(b.instance);
    });

    test('that breaks the connection fails what was under way, which is not sent again', async () => {
      const server = await startServer();
      const { directory } = await startReplica(single(server), 'a', { clock: new ManualClock() });
      const call = newHome();
      server.pause();
      const kept = directory.end(call, 'outcome', Buffer.of(1), TTL_MS);
      const failed = expect(kept).rejects.toBeInstanceOf(DirectoryUnavailable);
      await server.restart();
      await failed;
      await expect.poll(() => directory.up, HEAL).toBe(true);
      expect(await directory.read(call, 'outcome')).toBeNull();
    });

    test('a store that takes no writes is not up, although it replies', async () => {
      const server = await startServer();
      const { directory } = await startReplica(single(server));
      const redis = spy(server);
      await redis.config('SET', 'min-replicas-to-write', '1');
      await expect.poll(() => directory.up, HEAL).toBe(false);
      await expect(directory.claim(newHome(), TTL_MS)).rejects.toMatchObject({ failure: 'store' });
      await redis.config('SET', 'min-replicas-to-write', '0');
      await expect.poll(() => directory.up, HEAL).toBe(true);
    });

    test('at the start is waited for', async () => {
      const url = new URL(`redis://127.0.0.1:${await freePort()}`);
      const { directory } = makeReplica(single({ url }));
      await expect(directory.start(100)).rejects.toMatchObject({ failure: 'refused' });
      expect(directory.up).toBe(false);
      const server = await startServer({ port: Number(url.port) });
      await directory.start(10_000);
      expect(directory.up).toBe(true);
      expect(server.port).toBe(Number(url.port));
    });
  });
});
