import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { inspect } from 'node:util';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { systemClock } from '../../../../src/lib/clock.ts';
import { DirectoryUnavailable, type Directory } from '../../../../src/model/directory.ts';
import type { RedisOptions } from '../../../../src/replicas/redis/options.ts';
import {
  RedisDirectory,
  type RedisDirectoryOptions,
} from '../../../../src/replicas/directory/redis-directory.ts';
import { callId, type CallId } from '../../../../src/protocol/ids.ts';
import { ManualClock } from '../../../fixtures/manual-clock.ts';
import { Severable } from '../../../fixtures/network/flaky-proxy.ts';
import { freePort } from '../../../fixtures/processes.ts';
import {
  makeCertificate,
  startRedis,
  type Certificate,
  type RedisServer,
} from '../../../fixtures/redis/redis-server.ts';

const TTL_MS = 60_000;
const COMMAND_TIMEOUT_MS = 500;
/** The time within which the store has to be back after an outage, or an outage to be seen. */
const HEAL = { timeout: 10_000, interval: 20 };

const undone: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const undo of undone.splice(0).reverse()) await undo();
});

interface Replica {
  readonly directory: Directory;
  readonly boot: string;
}

function single(server: Pick<RedisServer, 'url'>): RedisOptions {
  return {
    mode: 'single',
    url: server.url,
    connectTimeoutMs: 1000,
    commandTimeoutMs: COMMAND_TIMEOUT_MS,
  };
}

function makeReplica(
  redis: RedisOptions,
  id = 'a',
  options: Partial<RedisDirectoryOptions> = {},
): Replica {
  const boot = `${id}-${randomUUID()}`;
  const directory = new RedisDirectory({
    redis,
    audience: 'fleet',
    owner: { id, boot, address: `10.0.0.1:${id}` },
    clock: systemClock,
    random: Math.random,
    renewEveryMs: 100,
    ...options,
  });
  undone.push(() => directory.close());
  return { directory, boot };
}

async function startReplica(...args: Parameters<typeof makeReplica>): Promise<Replica> {
  const replica = makeReplica(...args);
  await replica.directory.start(10_000);
  return replica;
}

async function startServer(...args: Parameters<typeof startRedis>): Promise<RedisServer> {
  const server = await startRedis(...args);
  undone.push(() => server.stop());
  return server;
}

/** A plain connection, for looking at what the directories do and for getting in their way. */
function spy(server: RedisServer): Redis {
  const redis = new Redis(server.port, '127.0.0.1');
  undone.push(async () => redis.disconnect());
  return redis;
}

const newCall = () => callId(randomUUID());

/** Who holds the call and since which takeover, as this replica sees it. */
async function holding({ directory }: Replica, call: CallId) {
  const holder = await directory.holderOf(call);
  return holder === null ? null : { boot: holder.owner.boot, epoch: holder.epoch };
}

/** Every command of the interface that asks the store something. */
const commands: [string, (directory: Directory) => Promise<unknown>][] = [
  ['claim', (directory) => directory.claim(newCall(), TTL_MS)],
  ['holderOf', (directory) => directory.holderOf(newCall())],
  ['release', (directory) => directory.release(newCall(), 1)],
  ['isAlive', (directory) => directory.isAlive('b')],
  ['keep', (directory) => directory.keep(newCall(), Buffer.of(1), TTL_MS)],
  ['kept', (directory) => directory.kept(newCall())],
  ['forget', (directory) => directory.forget(newCall())],
];

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
      const calls = Array.from({ length: 20 }, newCall);
      const races = await Promise.all(
        calls.map((call) =>
          Promise.all([a, b].map(({ directory }) => directory.claim(call, TTL_MS))),
        ),
      );
      for (const [i, race] of races.entries()) {
        const winner = race.findIndex((claim) => claim.type === 'claimed');
        expect(race[winner]).toEqual({ type: 'claimed', epoch: 1 });
        const holder = await a.directory.holderOf(calls[i] ?? newCall());
        expect(holder?.owner.boot).toBe([a, b][winner]?.boot);
        expect(race[1 - winner]).toEqual({ type: 'held', by: holder?.owner });
      }
    });

    test('claiming what is ours renews it under the same epoch', async () => {
      const { directory, boot } = await startReplica(single(server));
      const redis = spy(server);
      const call = newCall();
      await directory.claim(call, 1000);
      expect(await directory.claim(call, TTL_MS)).toEqual({ type: 'claimed', epoch: 1 });
      expect(await redis.pttl(`mrtr:fleet:{${call}}:claim`)).toBeGreaterThan(1000);
      expect((await directory.holderOf(call))?.owner.boot).toBe(boot);
    });

    test('nobody holds a call that was never claimed, or was released', async () => {
      const { directory } = await startReplica(single(server));
      const call = newCall();
      expect(await directory.holderOf(call)).toBeNull();
      await directory.claim(call, TTL_MS);
      await directory.release(call, 1);
      expect(await directory.holderOf(call)).toBeNull();
    });

    test('a claim that could not be released while the store was away is released when it is back', async () => {
      const a = await startReplica(single(server), 'a');
      const [released, claimedAgain] = [newCall(), newCall()];
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
      const call = newCall();
      await a.directory.claim(call, TTL_MS);
      await redis.config('SET', 'min-replicas-to-write', '1');
      await expect(a.directory.release(call, 1)).rejects.toThrow(DirectoryUnavailable);
      await expect(a.directory.claim(call, TTL_MS)).rejects.toThrow(DirectoryUnavailable);
      await redis.config('SET', 'min-replicas-to-write', '0');
      expect(await a.directory.claim(call, TTL_MS)).toEqual({ type: 'claimed', epoch: 1 });
      clock.advance(100);
      await expect.poll(() => a.directory.up, HEAL).toBe(true);
      expect((await a.directory.holderOf(call))?.epoch).toBe(1);
    });

    test('a call that is claimed after its release gets a higher epoch', async () => {
      const a = await startReplica(single(server), 'a');
      const b = await startReplica(single(server), 'b');
      const call = newCall();
      await a.directory.claim(call, TTL_MS);
      await a.directory.release(call, 1);
      expect(await b.directory.claim(call, TTL_MS)).toEqual({ type: 'claimed', epoch: 2 });
    });

    test('a claim of a replica whose lease ran out is taken over, and the former holder is fenced', async () => {
      // Its clock stands still: it never renews.
      const stuck = await startReplica(single(server), 'a', {
        clock: new ManualClock(),
        leaseMs: 1000,
      });
      const b = await startReplica(single(server), 'b');
      const call = newCall();
      expect(await stuck.directory.claim(call, TTL_MS)).toEqual({ type: 'claimed', epoch: 1 });
      expect(await holding(stuck, call)).toEqual({ boot: stuck.boot, epoch: 1 });

      await expect.poll(() => b.directory.isAlive(stuck.boot), HEAL).toBe(false);
      expect(await b.directory.claim(call, TTL_MS)).toEqual({ type: 'claimed', epoch: 2 });
      expect(await holding(stuck, call)).toEqual({ boot: b.boot, epoch: 2 });

      await stuck.directory.release(call, 1);
      expect(await holding(b, call)).toEqual({ boot: b.boot, epoch: 2 });
      expect(await stuck.directory.claim(call, TTL_MS)).toMatchObject({
        type: 'held',
        by: { boot: b.boot },
      });
    });

    // Rule store-1.
    test('of several replicas that find the holder dead, exactly one takes over', async () => {
      const dead = await startReplica(single(server), 'dead');
      const others = await Promise.all(
        ['b', 'c', 'd'].map((id) => startReplica(single(server), id)),
      );
      const calls = Array.from({ length: 20 }, newCall);
      for (const call of calls) await dead.directory.claim(call, TTL_MS);
      await dead.directory.close();
      for (const call of calls) {
        const claims = await Promise.all(
          others.map(({ directory }) => directory.claim(call, TTL_MS)),
        );
        expect(claims.filter(({ type }) => type === 'claimed')).toEqual([
          { type: 'claimed', epoch: 2 },
        ]);
      }
    });

    test('a replica is alive from its start to its end', async () => {
      const a = await startReplica(single(server), 'a');
      const b = await startReplica(single(server), 'b');
      expect(await b.directory.isAlive(a.boot)).toBe(true);
      expect(await b.directory.isAlive('never-started')).toBe(false);
      await a.directory.close();
      expect(await b.directory.isAlive(a.boot)).toBe(false);
    });

    test('a lease that was lost is there again with the next renewal', async () => {
      const clock = new ManualClock();
      const a = await startReplica(single(server), 'a', { clock, renewEveryMs: 1500 });
      const redis = spy(server);
      await redis.del(`mrtr:fleet:{${a.boot}}:lease`);
      expect(await a.directory.isAlive(a.boot)).toBe(false);
      clock.advance(1500);
      await expect.poll(() => a.directory.isAlive(a.boot), HEAL).toBe(true);
    });

    test('an outcome comes back byte for byte, from any replica', async () => {
      const a = await startReplica(single(server), 'a');
      const b = await startReplica(single(server), 'b');
      const call = newCall();
      const sealed = Uint8Array.from({ length: 256 }, (_, i) => i);
      expect(await b.directory.kept(call)).toBeNull();
      await a.directory.keep(call, sealed, TTL_MS);
      expect(Uint8Array.from((await b.directory.kept(call)) ?? [])).toEqual(sealed);
      await b.directory.forget(call);
      expect(await a.directory.kept(call)).toBeNull();
    });

    test('fleets that share a store do not see each other', async () => {
      const a = await startReplica(single(server), 'a');
      const b = await startReplica(single(server), 'b', { audience: 'other}{fleet' });
      const call = newCall();
      await a.directory.claim(call, TTL_MS);
      expect(await b.directory.claim(call, TTL_MS)).toMatchObject({ type: 'claimed' });
      expect(await b.directory.isAlive(a.boot)).toBe(false);
    });

    test('a claim that cannot be read is ignored', async () => {
      const { directory } = await startReplica(single(server));
      const redis = spy(server);
      for (const odd of ['', 'x', '{}', '{"epoch":0,"owner":{"id":"b","boot":"b"}}']) {
        const call = newCall();
        await redis.set(`mrtr:fleet:{${call}}:claim`, odd, 'PX', TTL_MS);
        await expect(directory.claim(call, TTL_MS)).rejects.toMatchObject({ failure: 'store' });
        await expect(directory.holderOf(call)).rejects.toMatchObject({ failure: 'store' });
      }
    });
  });

  test('every key expires by itself, whatever happened to it', async () => {
    const server = await startServer();
    const a = await startReplica(single(server), 'a');
    const b = await startReplica(single(server), 'b');
    const dead = await startReplica(single(server), 'dead');
    const [claimed, renewed, released, takenOver] = [newCall(), newCall(), newCall(), newCall()];
    await a.directory.claim(claimed, TTL_MS);
    await a.directory.claim(renewed, TTL_MS);
    await a.directory.claim(renewed, TTL_MS);
    await a.directory.claim(released, TTL_MS);
    await a.directory.release(released, 1);
    await dead.directory.claim(takenOver, TTL_MS);
    await dead.directory.close();
    await b.directory.claim(takenOver, TTL_MS);
    await a.directory.keep(claimed, Buffer.of(1), TTL_MS);

    const redis = spy(server);
    const keys = await redis.keys('*');
    // Two leases; three claims, four epochs and an outcome.
    expect(keys).toHaveLength(10);
    for (const key of keys) {
      expect(key).toMatch(/^mrtr:fleet:\{[^{}]+\}:(lease|claim|epoch|outcome)$/);
      expect(await redis.pttl(key), key).toBeGreaterThan(0);
    }
  });

  describe('an outage', () => {
    test('fails commands at once while the store is gone, and heals by itself when it is back', async () => {
      const server = await startServer();
      const { directory, boot } = await startReplica(single(server));
      const changes: boolean[] = [];
      directory.onChange((up) => changes.push(up));
      const call = newCall();
      await directory.claim(call, TTL_MS);

      await server.kill();
      await expect.poll(() => directory.up, HEAL).toBe(false);
      for (const [name, command] of commands) {
        await expect(command(directory), name).rejects.toBeInstanceOf(DirectoryUnavailable);
      }

      await server.restart();
      await expect.poll(() => directory.up, HEAL).toBe(true);
      expect(changes).toEqual([false, true]);
      expect(await directory.isAlive(boot)).toBe(true);
      // The store came back empty: what we held is not ours until we claim it again.
      expect(await directory.holderOf(call)).toBeNull();
      expect(await directory.claim(call, TTL_MS)).toMatchObject({ type: 'claimed' });
    });

    test('is told with its cause, also while Redis only refuses writes', async () => {
      const server = await startServer();
      const { directory } = await startReplica(single(server));
      const problems: (string | null)[] = [];
      directory.onChange((_up, problem) => problems.push(problem));
      await spy(server).config('SET', 'maxmemory', '1');
      await expect
        .poll(() => problems, HEAL)
        .toEqual([`Redis at redis://127.0.0.1:${server.port} is out of memory (OOM)`]);
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
      await directory.claim(newCall(), TTL_MS);
      expect(restored).toHaveBeenCalledOnce();
    });

    // Rule shared-12.
    test('in which the data is gone is told, although the reply to the renewal that met it is lost', async () => {
      const server = await startServer();
      const way = await Severable.to({ host: '127.0.0.1', port: server.port });
      undone.push(() => way.stop());
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
      const call = newCall();
      const claim = '{"epoch":1,"owner":{"id":"slow","boot":"slow"}}';
      await spy(server).set(`mrtr:fleet:{${call}}:claim`, claim, 'PX', TTL_MS);
      await expect(directory.isAlive('slow')).rejects.toMatchObject({ failure: 'store' });
      await expect(directory.renewedAgoMs('slow')).rejects.toMatchObject({ failure: 'store' });
      await expect(directory.claim(call, TTL_MS)).rejects.toMatchObject({ failure: 'store' });
      clock.advance(5000);
      expect(await directory.isAlive('slow')).toBe(false);
      expect(await directory.renewedAgoMs('slow')).toBeNull();
      expect(await directory.claim(call, TTL_MS)).toMatchObject({ type: 'claimed' });
    });

    test('of a store that falls silent ends each command within its time', async () => {
      const server = await startServer();
      // No heartbeat: the commands have to notice it themselves.
      const { directory } = await startReplica(single(server), 'a', { clock: new ManualClock() });
      server.pause();
      undone.push(async () => server.resume());
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
      undone.push(async () => server.resume());
      await expect.poll(() => directory.up, HEAL).toBe(false);
      server.resume();
      await expect.poll(() => directory.up, HEAL).toBe(true);
    });

    test('leaves a claim whose reply was lost to its claimer, and carries nothing out twice', async () => {
      const server = await startServer();
      const { directory } = await startReplica(single(server), 'a', { clock: new ManualClock() });
      const redis = spy(server);
      const call = newCall();
      server.pause();
      // The command is in the server's socket when the client gives up.
      await expect(directory.claim(call, TTL_MS)).rejects.toBeInstanceOf(DirectoryUnavailable);
      server.resume();
      await expect.poll(() => directory.up, HEAL).toBe(true);
      await expect.poll(() => redis.get(`mrtr:fleet:{${call}}:claim`), HEAL).not.toBeNull();
      expect(await directory.claim(call, TTL_MS)).toEqual({ type: 'claimed', epoch: 1 });
      expect(await redis.get(`mrtr:fleet:{${call}}:epoch`)).toBe('1');
    });

    test('ends a claim whose reply was lost, if its claimer gives the call up, and no claim of another', async () => {
      const server = await startServer();
      const a = await startReplica(single(server), 'a', { clock: new ManualClock() });
      const b = await startReplica(single(server), 'b', { clock: new ManualClock() });
      const [own, other] = [newCall(), newCall()];
      await b.directory.claim(other, TTL_MS);
      server.pause();
      const claims = [own, other].map((call) => a.directory.claim(call, TTL_MS));
      for (const claim of claims) await expect(claim).rejects.toThrow(DirectoryUnavailable);
      for (const call of [own, other]) {
        await expect(a.directory.release(call, null)).rejects.toThrow(DirectoryUnavailable);
      }
      server.resume();
      for (const { directory } of [a, b]) await expect.poll(() => directory.up, HEAL).toBe(true);
      await expect.poll(() => b.directory.claim(own, TTL_MS), HEAL).toMatchObject({ epoch: 2 });
      expect((await b.directory.holderOf(other))?.owner.boot).toBe(b.boot);
    });

    test('that breaks the connection fails what was under way, which is not sent again', async () => {
      const server = await startServer();
      const { directory } = await startReplica(single(server), 'a', { clock: new ManualClock() });
      const call = newCall();
      server.pause();
      const kept = directory.keep(call, Buffer.of(1), TTL_MS);
      const failed = expect(kept).rejects.toBeInstanceOf(DirectoryUnavailable);
      await server.restart();
      await failed;
      await expect.poll(() => directory.up, HEAL).toBe(true);
      expect(await directory.kept(call)).toBeNull();
    });

    test('a store that takes no writes is not up, although it replies', async () => {
      const server = await startServer();
      const { directory } = await startReplica(single(server));
      const redis = spy(server);
      await redis.config('SET', 'min-replicas-to-write', '1');
      await expect.poll(() => directory.up, HEAL).toBe(false);
      await expect(directory.claim(newCall(), TTL_MS)).rejects.toMatchObject({ failure: 'store' });
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

  describe('a start that cannot succeed says why, and never the password', () => {
    const SECRET = 'correct-horse-battery';

    async function failure(options: RedisOptions, waitMs = 10_000): Promise<DirectoryUnavailable> {
      const { directory } = makeReplica(options);
      const error = await directory.start(waitMs).catch((thrown: unknown) => thrown);
      if (!(error instanceof DirectoryUnavailable)) throw new Error(`it gave ${inspect(error)}`);
      expect(error.code).toBe('coordination_unavailable');
      expect(inspect(error, { depth: 10, showHidden: true })).not.toContain(SECRET);
      return error;
    }

    function withPassword(url: URL, password = SECRET, username = ''): URL {
      const changed = new URL(url);
      changed.password = encodeURIComponent(password);
      changed.username = username;
      return changed;
    }

    test('a wrong password', async () => {
      const server = await startServer({ args: ['--requirepass', 'another'] });
      const error = await failure({ ...single(server), url: withPassword(server.url) });
      expect(error.failure).toBe('auth');
      expect(error.message).toContain(`127.0.0.1:${server.port} refused the username or password`);
    });

    test('no password where one is wanted', async () => {
      const server = await startServer({ args: ['--requirepass', SECRET] });
      const error = await failure(single(server));
      expect(error.failure).toBe('auth');
      expect(error.message).toContain('requires a username or password');
    });

    test('a server that repeats the command that it does not know', async () => {
      // Renaming AUTH away makes the server answer with the command's arguments.
      const server = await startServer({ args: ['--rename-command', 'AUTH', ''] });
      const error = await failure({ ...single(server), url: withPassword(server.url) }, 500);
      expect(error.failure).toBe('store');
    });

    test('nobody at the port', async () => {
      const url = withPassword(new URL(`redis://127.0.0.1:${await freePort()}`));
      const error = await failure(single({ url }), 200);
      expect(error.failure).toBe('refused');
      expect(error.message).toContain(`${url.host} refused the connection`);
    });

    test('the right password is taken, with characters that a URL has to escape', async () => {
      const password = 'p@ss/w:rd%#?';
      const server = await startServer({ args: ['--requirepass', password] });
      const url = withPassword(server.url, password);
      const { directory } = await startReplica({ ...single(server), url });
      expect(directory.up).toBe(true);
    });

    test('a user of an access list is let in by name', async () => {
      const server = await startServer({
        args: [
          '--user',
          'gateway',
          'on',
          `>${SECRET}`,
          '~mrtr:*',
          '+@all',
          '--user',
          'default',
          'off',
        ],
      });
      const url = withPassword(server.url, SECRET, 'gateway');
      const { directory } = await startReplica({ ...single(server), url });
      expect(await directory.claim(newCall(), TTL_MS)).toMatchObject({ type: 'claimed' });
    });
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

  describe('over TLS', { tags: ['redis-tls'] }, () => {
    let certificate: Certificate;
    let server: RedisServer;
    let ca: string;
    beforeAll(async () => {
      certificate = await makeCertificate();
      const { certFile, keyFile } = certificate;
      ca = await readFile(certFile, 'utf8');
      server = await startRedis({
        scheme: 'rediss',
        args: [
          '--tls-cert-file',
          certFile,
          '--tls-key-file',
          keyFile,
          '--tls-ca-cert-file',
          certFile,
        ],
      });
    });
    afterAll(async () => {
      await server.stop();
      await certificate.remove();
    });

    test('a server and a replica that show the right certificates work together', async () => {
      const key = await readFile(certificate.keyFile, 'utf8');
      const { directory } = await startReplica({ ...single(server), tls: { ca, cert: ca, key } });
      expect(await directory.claim(newCall(), TTL_MS)).toMatchObject({ type: 'claimed' });
    });

    test('a certificate of an unknown authority is refused', async () => {
      const { directory } = makeReplica(single(server));
      await expect(directory.start(1000)).rejects.toMatchObject({
        failure: 'tls',
        message: expect.stringContaining('SELF_SIGNED_CERT') as unknown,
      });
    });

    test('a certificate for another name is refused', async () => {
      const { directory } = makeReplica({
        ...single(server),
        tls: { ca, servername: 'store.example' },
      });
      await expect(directory.start(1000)).rejects.toMatchObject({ failure: 'tls' });
    });
  });

  describe('in a Cluster', () => {
    let server: RedisServer;
    let options: RedisOptions;
    beforeAll(async () => {
      const cluster = ['--cluster-enabled', 'yes', '--cluster-announce-ip', '127.0.0.1'];
      server = await startRedis({ args: [...cluster, '--cluster-port', `${await freePort()}`] });
      const redis = new Redis(server.port, '127.0.0.1');
      await redis.call('CLUSTER', 'ADDSLOTSRANGE', '0', '16383');
      await vi.waitUntil(
        async () => (await redis.cluster('INFO')).includes('cluster_state:ok'),
        HEAL,
      );
      redis.disconnect();
      options = { ...single(server), mode: 'cluster', nodes: [] };
    });
    afterAll(() => server.stop());

    test('calls are claimed, fenced, taken over and released; outcomes kept', async () => {
      const a = await startReplica(options, 'a');
      const b = await startReplica(options, 'b');
      const call = newCall();
      expect(await a.directory.claim(call, TTL_MS)).toEqual({ type: 'claimed', epoch: 1 });
      expect(await b.directory.claim(call, TTL_MS)).toMatchObject({ type: 'held' });
      await a.directory.close();
      expect(await b.directory.claim(call, TTL_MS)).toEqual({ type: 'claimed', epoch: 2 });
      expect(await holding(b, call)).toEqual({ boot: b.boot, epoch: 2 });
      await b.directory.release(call, 2);
      expect(await b.directory.holderOf(call)).toBeNull();
      await b.directory.keep(call, Buffer.from('sealed'), TTL_MS);
      expect(Buffer.from((await b.directory.kept(call)) ?? []).toString()).toBe('sealed');
    });

    test('a silent node ends commands within their time, and is used again when it is back', async () => {
      const { directory } = await startReplica(options);
      server.pause();
      undone.push(async () => server.resume());
      for (const [name, command] of commands) {
        await expect(command(directory), name).rejects.toBeInstanceOf(DirectoryUnavailable);
      }
      server.resume();
      await expect.poll(() => directory.up, HEAL).toBe(true);
    });

    test('an outage is seen and heals by itself', async () => {
      const { directory, boot } = await startReplica(options);
      await server.kill();
      await expect.poll(() => directory.up, HEAL).toBe(false);
      await expect(directory.claim(newCall(), TTL_MS)).rejects.toBeInstanceOf(DirectoryUnavailable);
      await server.restart();
      await expect.poll(() => directory.up, HEAL).toBe(true);
      expect(await directory.isAlive(boot)).toBe(true);
    });
  });

  test('a Cluster that refuses the login fails the start with the reason', async () => {
    const server = await startServer({
      args: [
        '--cluster-enabled',
        'yes',
        '--requirepass',
        'x',
        '--cluster-port',
        `${await freePort()}`,
      ],
    });
    const { directory } = makeReplica({ ...single(server), mode: 'cluster', nodes: [] });
    await expect(directory.start(500)).rejects.toMatchObject({ failure: 'auth' });
  });

  test('a Cluster whose nodes are gone fails the start with the reason', async () => {
    const url = new URL(`redis://127.0.0.1:${await freePort()}`);
    const { directory } = makeReplica({ ...single({ url }), mode: 'cluster', nodes: [] });
    await expect(directory.start(500)).rejects.toMatchObject({ failure: 'refused' });
  });

  describe('behind a Sentinel', () => {
    test('the master is found, and an outage of it heals', async () => {
      const master = await startServer();
      const monitor = ['--sentinel', 'monitor', 'store', '127.0.0.1', `${master.port}`, '1'];
      const sentinel = await startServer({ sentinel: true, args: monitor });
      const options: RedisOptions = {
        ...single(sentinel),
        mode: 'sentinel',
        name: 'store',
        nodes: [{ host: '127.0.0.1', port: sentinel.port }],
      };
      const { directory } = await startReplica(options);
      expect(await directory.claim(newCall(), TTL_MS)).toMatchObject({ type: 'claimed' });
      await master.kill();
      await expect.poll(() => directory.up, HEAL).toBe(false);
      await expect(directory.claim(newCall(), TTL_MS)).rejects.toBeInstanceOf(DirectoryUnavailable);
      await master.restart();
      await expect.poll(() => directory.up, HEAL).toBe(true);
    });

    test('the replica that a failover made the master is found', async () => {
      const master = await startServer();
      const replica = await startServer({ args: ['--replicaof', `127.0.0.1 ${master.port}`] });
      const monitor = ['--sentinel', 'monitor', 'store', '127.0.0.1', `${master.port}`, '1'];
      const sentinel = await startServer({ sentinel: true, args: monitor });
      const options = { ...single(sentinel), mode: 'sentinel', name: 'store', nodes: [] } as const;
      const { directory, boot } = await startReplica(options);

      const overseer = spy(sentinel);
      const failOver = () => overseer.call('SENTINEL', 'FAILOVER', 'store').catch(() => 'not yet');
      await expect.poll(failOver, { ...HEAL, interval: 200 }).toBe('OK');
      const promoted = spy(replica);
      await expect.poll(() => promoted.role(), HEAL).toContain('master');
      await master.kill();

      const leased = () => promoted.exists(`mrtr:fleet:{${boot}}:lease`);
      await expect.poll(leased, HEAL).toBe(1);
      await expect.poll(() => directory.up, HEAL).toBe(true);
      const call = newCall();
      expect(await directory.claim(call, TTL_MS)).toEqual({ type: 'claimed', epoch: 1 });
      expect(await promoted.exists(`mrtr:fleet:{${call}}:claim`)).toBe(1);
    });

    test('Sentinels that are gone fail the start with the reason', async () => {
      const url = new URL(`redis://127.0.0.1:${await freePort()}`);
      const options = { ...single({ url }), mode: 'sentinel', name: 'store', nodes: [] } as const;
      const { directory } = makeReplica(options);
      await expect(directory.start(500)).rejects.toMatchObject({ failure: 'refused' });
    });
  });
});
