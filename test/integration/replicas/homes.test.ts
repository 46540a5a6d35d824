/** The home of a caller over several processes: whichever of them a call reaches, it finds what the server keeps. */
import { describe, expect, test } from 'vitest';
import {
  callTool,
  send,
  type Exchanged,
  type SendOptions,
} from '../../fixtures/clients/modern-client.ts';
import type {
  GatewayProcess,
  GatewayProcessOptions,
} from '../../fixtures/gateways/gateway-process.ts';
import {
  answersOf,
  legacyServer,
  reasonOf,
  redisServer,
  replica,
  replicas,
  text,
} from '../../fixtures/gateways/replica-testbed.ts';
import { openDoor } from '../../fixtures/network/door.ts';
import { freePort } from '../../fixtures/processes.ts';
import { overseer } from '../../fixtures/redis/redis-topologies.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';
import { SubscribingServer } from '../../fixtures/servers/subscribing-server.ts';
import { askName } from '../../fixtures/servers/legacy-server.ts';
import { countingServer } from '../../fixtures/servers/counting-server.ts';

const ADA: SendOptions = { headers: { authorization: 'Bearer ada' } };
const BOB: SendOptions = { headers: { authorization: 'Bearer bob' } };

function call(
  gateway: GatewayProcess,
  name: string,
  options: SendOptions = ADA,
  more: object = {},
): Promise<Exchanged> {
  return callTool(gateway.url, name, more, options);
}

/** The names of the tools that a caller is shown. */
async function listed(gateway: GatewayProcess, options: SendOptions = ADA): Promise<string[]> {
  const { response } = await send(gateway.url, 'tools/list', {}, options);
  return response.result.tools.map(({ name }: { name: string }) => name);
}

/** Two replicas in front of a server that counts. */
async function stage(options: Partial<GatewayProcessOptions> = {}) {
  const redis = await redisServer();
  const counting = await countingServer();
  const [a, b] = await replicas(counting.server, 2, { redis: redis.url, ...options });
  return { ...counting, a, b };
}

/** Two replicas with Redis, of which the first has a home and cannot be reached. */
async function unreachableHome() {
  const redis = await redisServer();
  const { server } = await countingServer();
  const config = { relay: { listen: '127.0.0.1:0', advertise: 'http://127.0.0.1:9' } };
  const a = await replica(server, { redis: redis.url, relay: false, config });
  const b = await replica(server, { redis: redis.url });
  expect(text(await call(a, 'count'))).toBe('1');
  return { a, b };
}

const THROUGH_REDIS = { relay: false, config: { relay: { via: 'redis' } } };

describe.each([
  ['http', {}],
  ['redis', THROUGH_REDIS],
])('two replicas with Redis and relay.via: %s', { tags: ['redis'] }, (_via, options) => {
  // Rule sessions-16: With Redis and `relay`, and among workers, requests reach the home of their caller from
  // anywhere. If its process ends, another one continues the session.
  test('share the home of a caller: in turns, at once, and with a question between', async () => {
    const { a, b, server } = await stage(options);
    expect(await a.saw('gateway.homes')).toMatchObject([{ shared: 'redis' }]);
    const counts = [];
    for (const gateway of [a, b, b, a]) counts.push(text(await call(gateway, 'count')));
    expect(counts).toEqual(['1', '2', '3', '4']);
    const atOnce = await Promise.all([a, b, a, b].map((gateway) => call(gateway, 'count')));
    expect(atOnce.map(text).sort()).toEqual(['5', '6', '7', '8']);
    const asked = await call(b, 'ask');
    expect(text(await call(a, 'count'))).toBe('9');
    expect(text(await call(a, 'ask', ADA, answersOf(asked, 'Ada')))).toBe('Ada 10');
    expect(server.methods().filter((method) => method === 'initialize')).toHaveLength(3);
  });

  // Rule sessions-16.
  test('list at each of them what the server lists in the session of the caller', async () => {
    const { a, b, server } = await stage(options);
    expect(await listed(b)).not.toContain('forget');
    expect(text(await call(a, 'count'))).toBe('1');
    expect(await listed(b)).toContain('forget');
    expect(await listed(a)).toContain('forget');
    expect(await listed(a, BOB)).not.toContain('forget');
    // One for each caller, and the one with which each replica got to know the server.
    expect(server.methods().filter((method) => method === 'initialize')).toHaveLength(4);
  });

  test('make a call that its client leaves once, and cancel it where it is', async () => {
    const { a, b, server, open } = await stage(options);
    expect(text(await call(a, 'count'))).toBe('1');
    const leaving = new AbortController();
    const left = call(b, 'slow', { ...ADA, signal: leaving.signal });
    await server.saw('tools/call', 2);
    leaving.abort();
    await expect(left).rejects.toThrow();
    await server.saw('notifications/cancelled');
    open();
    expect(text(await call(b, 'count'))).toBe('3');
    // That is not a fault of a replica.
    expect(b.named('relay.failed')).toEqual([]);
  });
});

// Rule sessions-18: The log says at start how calls reach homes. Replicas with `relay` and without Redis have
// separate homes, and warn.
test('two replicas without Redis say at start that each has its own homes', async () => {
  const { server } = await countingServer();
  const [a, b] = await replicas(server, 2);
  expect([await call(a, 'count'), await call(b, 'count')].map(text)).toEqual(['1', '1']);
  expect(await a.saw('gateway.sessions_not_shared')).toHaveLength(1);
  expect(await a.saw('gateway.homes')).toMatchObject([{ shared: 'nothing' }]);
});

describe('two replicas with Redis', { tags: ['redis'] }, () => {
  // Rule sessions-17: If the replica of the home does not respond, a list uses another session. A call fails with
  // `coordination_unavailable` and `data.mayHaveActed` `no`.
  test('list in another session while the replica of the home cannot be reached', async () => {
    const { b } = await unreachableHome();
    const tools = await listed(b);
    expect([tools.includes('count'), tools.includes('forget')]).toEqual([true, false]);
    expect(b.named('relay.failed')).toHaveLength(1);
  });

  // Rules sessions-16, questions-2.
  test('go on with a session that a resumed call uses, and ask each call its own questions', async () => {
    const redis = await redisServer();
    const working = Promise.withResolvers<void>();
    stopAfterTest(async () => working.resolve());
    const server = await legacyServer({
      tools: {
        works: async (asking) => {
          const name = await askName(asking);
          await working.promise;
          return name;
        },
        asks: async ({ server }) => {
          const requestedSchema = {
            type: 'object',
            properties: { name: { type: 'string' } },
          } as const;
          const { content } = await server.elicitInput({ message: 'Who?', requestedSchema });
          return String(content?.['name']);
        },
      },
      keepsEvents: true,
    });
    const [a, b] = await replicas(server, 2, { redis: redis.url });
    const asked = await call(a, 'works');
    await a.kill();
    // The home is that of the replica that was killed, until its lease ends.
    const works = call(b, 'works', ADA, answersOf(asked, 'Ada'));
    await server.saw('response');
    const asks = call(b, 'asks');
    await server.saw('tools/call', 2);
    working.resolve();
    expect(text(await works)).toBe('Ada');
    expect(text(await call(b, 'asks', ADA, answersOf(await asks, 'Bob')))).toBe('Bob');
  });

  test('keep the homes of two callers apart', async () => {
    const { a, b } = await stage();
    const counts = [];
    for (const [gateway, caller] of [
      [a, ADA],
      [b, BOB],
      [b, ADA],
      [a, BOB],
    ] as const) {
      counts.push(text(await call(gateway, 'count', caller)));
    }
    expect(counts).toEqual(['1', '1', '2', '2']);
  });

  // Rule sessions-16.
  test('go on with the session of a replica that was killed', async () => {
    const { a, b } = await stage();
    expect(text(await call(a, 'count'))).toBe('1');
    await a.kill();
    expect(text(await call(b, 'count'))).toBe('2');
  });

  // Rule sessions-24: After an outage or a data loss of Redis, callers keep their homes.
  test('go on with the session when Redis has lost its data', async () => {
    const redis = await redisServer();
    const { server } = await countingServer();
    const [a, b] = await replicas(server, 2, { redis: redis.url });
    expect(text(await call(a, 'count'))).toBe('1');
    await redis.restart();
    const stored = overseer(redis);
    await expect.poll(() => stored.keys('*:session'), { timeout: 10_000 }).toHaveLength(1);
    // One that has not reached Redis again has a session of its own meanwhile.
    await expect.poll(() => stored.keys('*:lease'), { timeout: 10_000 }).toHaveLength(2);
    expect(text(await call(b, 'count'))).toBe('2');
    expect(text(await call(a, 'count'))).toBe('3');
    await a.kill();
    expect(text(await call(b, 'count'))).toBe('4');
  });

  // Rule sessions-16.
  test('go on with the session of a replica that stops', async () => {
    const { a, b } = await stage({ config: { drain: { delay: '0s' } } });
    expect(text(await call(a, 'count'))).toBe('1');
    await a.drain();
    expect(text(await call(b, 'count'))).toBe('2');
  });

  // Rule sessions-16.
  test('go on with the session also if the server cannot be reached at first', async () => {
    const redis = await redisServer();
    const { server } = await countingServer();
    const config = { drain: { delay: '0s' } };
    const a = await replica(server, { redis: redis.url, config });
    expect(text(await call(a, 'count'))).toBe('1');
    const port = await freePort();
    // Nothing listens there yet, so that the replica has not got to know the server when it is called.
    const b = await replica({ url: `http://127.0.0.1:${port}/mcp` }, { redis: redis.url, config });
    await a.drain();
    expect(reasonOf(await call(b, 'count'))).toBe('upstream_unavailable');
    const way = await openDoor(port, Number(new URL(server.url).port));
    stopAfterTest(async () => void way.close());
    expect(text(await call(b, 'count'))).toBe('2');
  });

  // Rule sessions-17.
  test('say that a call was not made whose replica is alive and cannot be reached', async () => {
    const { a, b } = await unreachableHome();
    expect((await call(b, 'count')).response.error.data).toMatchObject({
      reason: 'coordination_unavailable',
      mayHaveActed: 'no',
    });
    expect(text(await call(a, 'count'))).toBe('2');
  });

  test('do not make a call again whose replica died with it', async () => {
    const { a, b, server } = await stage();
    expect(text(await call(a, 'count'))).toBe('1');
    const lost = call(b, 'slow');
    await server.saw('tools/call', 2);
    await a.kill();
    expect((await lost).response.error.data).toMatchObject({
      reason: 'call_lost',
      mayHaveActed: 'unknown',
    });
    expect(server.methods().filter((method) => method === 'tools/call')).toHaveLength(2);
  });
});

describe('the workers of one gateway', () => {
  const NEW_CONNECTION = { headers: { ...ADA.headers, connection: 'close' } };

  // Rule sessions-16.
  test('share the home of a caller, and go on with it when its worker was killed', async () => {
    const { server } = await countingServer();
    const gateway = await replica(server, { config: { workers: 2 }, relay: false });
    for (let at = 1; at <= 8; at += 1) {
      expect(text(await call(gateway, 'count', NEW_CONNECTION))).toBe(String(at));
    }
    const holder = gateway.named('session.opened').at(-1)?.['worker'];
    const started = gateway.named('worker.started').find(({ worker }) => worker === holder);
    process.kill(Number(started?.['pid']), 'SIGKILL');
    await gateway.saw('worker.ended');
    expect(text(await call(gateway, 'count', NEW_CONNECTION))).toBe('9');
  });

  // Rule sessions-23: A process that stops leaves its homes to replicas with Redis, or else ends their sessions.
  test('end the sessions of homes when the gateway stops', async () => {
    const server = await SubscribingServer.start();
    stopAfterTest(() => server.stop());
    const gateway = await replica(server, { config: { workers: 2 }, relay: false });
    for (const caller of [ADA, BOB]) await call(gateway, 'change', caller);
    expect(server.sessions.size).toBe(2);
    await gateway.drain();
    expect(server.sessions.size).toBe(0);
  });
});
