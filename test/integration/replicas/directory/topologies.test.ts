/** The directory over TLS, in a Cluster and behind a Sentinel. */
import { readFile } from 'node:fs/promises';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { DirectoryUnavailable } from '../../../../src/model/store.ts';
import type { RedisOptions } from '../../../../src/fleet/redis/options.ts';
import { stopAfterTest } from '../../../fixtures/stop-after-test.ts';
import { freePort } from '../../../fixtures/processes.ts';
import {
  makeCertificate,
  startRedis,
  type Certificate,
  type RedisServer,
} from '../../../fixtures/redis/redis-server.ts';
import {
  commands,
  HEAL,
  holding,
  makeReplica,
  newHome,
  single,
  spy,
  startReplica,
  startServer,
  TTL_MS,
} from '../../../fixtures/redis/directory-testbed.ts';

describe('the directory in Redis', { tags: ['redis'] }, () => {
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
      expect(await directory.claim(newHome(), TTL_MS)).toMatchObject({ type: 'claimed' });
    });

    test('a certificate of an unknown authority is refused', async () => {
      const { directory } = makeReplica(single(server));
      await expect(directory.start(1000)).rejects.toMatchObject({
        failure: 'tls',
        message: expect.stringContaining('SELF_SIGNED_CERT') as unknown,
      });
    });

    test('a certificate for another name is refused', async () => {
      const url = new URL(server.url);
      url.hostname = 'localhost';
      const { directory } = makeReplica({ ...single({ url }), tls: { ca } });
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
      const call = newHome();
      expect(await a.directory.claim(call, TTL_MS)).toEqual({ type: 'claimed', fencingToken: 1 });
      expect(await b.directory.claim(call, TTL_MS)).toMatchObject({ type: 'held' });
      await a.directory.close();
      expect(await b.directory.claim(call, TTL_MS)).toEqual({ type: 'claimed', fencingToken: 2 });
      expect(await holding(b, call)).toEqual({ instance: b.instance, fencingToken: 2 });
      await b.directory.release(call, 2);
      expect(await b.directory.holderOf(call)).toBeNull();
      await b.directory.end(call, 'outcome', Buffer.from('sealed'), TTL_MS);
      expect(Buffer.from((await b.directory.read(call, 'outcome')) ?? []).toString()).toBe(
        'sealed',
      );
    });

    test('a silent node ends commands within their time, and is used again when it is back', async () => {
      const { directory } = await startReplica(options);
      server.pause();
      stopAfterTest(async () => server.resume());
      for (const [name, command] of commands) {
        await expect(command(directory), name).rejects.toBeInstanceOf(DirectoryUnavailable);
      }
      server.resume();
      await expect.poll(() => directory.up, HEAL).toBe(true);
    });

    test('an outage is seen and heals by itself', async () => {
      const { directory, instance } = await startReplica(options);
      await server.kill();
      await expect.poll(() => directory.up, HEAL).toBe(false);
      await expect(directory.claim(newHome(), TTL_MS)).rejects.toBeInstanceOf(DirectoryUnavailable);
      await server.restart();
      await expect.poll(() => directory.up, HEAL).toBe(true);
      expect(await directory.isAlive(instance)).toBe(true);
    });
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
      expect(await directory.claim(newHome(), TTL_MS)).toMatchObject({ type: 'claimed' });
      await master.kill();
      await expect.poll(() => directory.up, HEAL).toBe(false);
      await expect(directory.claim(newHome(), TTL_MS)).rejects.toBeInstanceOf(DirectoryUnavailable);
      await master.restart();
      await expect.poll(() => directory.up, HEAL).toBe(true);
    });

    test('the replica that a failover made the master is found', async () => {
      const master = await startServer();
      const replica = await startServer({ args: ['--replicaof', `127.0.0.1 ${master.port}`] });
      const monitor = ['--sentinel', 'monitor', 'store', '127.0.0.1', `${master.port}`, '1'];
      const sentinel = await startServer({ sentinel: true, args: monitor });
      const options = { ...single(sentinel), mode: 'sentinel', name: 'store', nodes: [] } as const;
      const { directory, instance } = await startReplica(options);

      const overseer = spy(sentinel);
      const failOver = () => overseer.call('SENTINEL', 'FAILOVER', 'store').catch(() => 'not yet');
      await expect.poll(failOver, { ...HEAL, interval: 200 }).toBe('OK');
      const promoted = spy(replica);
      await expect.poll(() => promoted.role(), HEAL).toContain('master');
      await master.kill();

      const leased = () => promoted.exists(`mrtr:fleet:{${instance}}:lease`);
      await expect.poll(leased, HEAL).toBe(1);
      await expect.poll(() => directory.up, HEAL).toBe(true);
      const call = newHome();
      expect(await directory.claim(call, TTL_MS)).toEqual({ type: 'claimed', fencingToken: 1 });
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
