/** What a server said of itself in a session that another process opened, at a server that greets nobody without credentials. */
import { describe, expect, test } from 'vitest';
import { callTool, send, type SendOptions } from '../../fixtures/clients/modern-client.ts';
import {
  answersOf,
  redisServer,
  replica,
  replicas,
  text,
  whileRetryable,
} from '../../fixtures/gateways/replica-testbed.ts';
import { pidOf } from '../../fixtures/gateways/two-workers.ts';
import type { GatewayProcess } from '../../fixtures/gateways/gateway-process.ts';
import { countingServer } from '../../fixtures/servers/counting-server.ts';

const ADA: SendOptions = { headers: { authorization: 'Bearer ada' } };
const BOB: SendOptions = { headers: { authorization: 'Bearer bob' } };

/** A server behind OAuth, whose transport the operator wrote down. */
async function stage(instructions = 'Ask nicely.') {
  const counting = await countingServer({
    keepsEvents: true,
    greets: (authorization) =>
      authorization === undefined ? null : `${instructions} You are ${authorization}.`,
  });
  const { url } = counting.server;
  const route = { upstream: { url, transport: 'streamable-http' } };
  return { ...counting, route };
}

/** Asks again, as a client does, while the gateway still asks the server: such a result is not to be kept. */
async function discovered(gateway: GatewayProcess, options: SendOptions) {
  for (;;) {
    const { response } = await send(gateway.url, 'server/discover', {}, options);
    if (response.result.ttlMs !== 0) return response.result;
  }
}

async function listed(gateway: GatewayProcess, options: SendOptions): Promise<string[]> {
  const { response } = await send(gateway.url, 'tools/list', {}, options);
  return response.result.tools.map(({ name }: { name: string }) => name);
}

const logging = { ...ADA, meta: { 'io.modelcontextprotocol/logLevel': 'info' } };

describe('a gateway that goes on with the session of one before it', { tags: ['redis'] }, () => {
  // Rule sessions-29: What a server said in `initialize` holds for the session in every process.
  test('tells a caller what the server said of itself in that session', async () => {
    const redis = await redisServer();
    const { server, route } = await stage();
    const a = await replica(server, { redis: redis.url, route });
    expect(text(await callTool(a.url, 'count', {}, ADA))).toBe('1');
    const told = await discovered(a, ADA);
    await a.drain();
    const b = await replica(server, { redis: redis.url, route });
    expect(await discovered(b, ADA)).toEqual(told);
    expect(await listed(b, ADA)).toContain('forget');
    expect(text(await callTool(b.url, 'count', {}, logging))).toBe('2');
    await server.saw('logging/setLevel');
    const sessions = server.received.filter(({ method }) => method === 'tools/call');
    expect(new Set(sessions.map(({ session }) => session)).size).toBe(1);
  });

  // Rule sessions-29.
  test('tells no caller what the server said to another one', async () => {
    const redis = await redisServer();
    const { server, route } = await stage();
    const a = await replica(server, { redis: redis.url, route });
    expect(text(await callTool(a.url, 'count', {}, ADA))).toBe('1');
    await a.drain();
    const b = await replica(server, { redis: redis.url, route });
    expect(text(await callTool(b.url, 'count', {}, BOB))).toBe('1');
    expect((await discovered(b, ADA)).instructions).toBe('Ask nicely. You are Bearer ada.');
    expect((await discovered(b, BOB)).instructions).toBe('Ask nicely. You are Bearer bob.');
  });

  // Rule sessions-29.
  test('asks the server again for what was too large to keep', async () => {
    const redis = await redisServer();
    const { server, route } = await stage('Long. '.repeat(20_000));
    const a = await replica(server, { redis: redis.url, route });
    expect(text(await callTool(a.url, 'count', {}, ADA))).toBe('1');
    const told = await discovered(a, ADA);
    await a.drain();
    const b = await replica(server, { redis: redis.url, route });
    expect(await discovered(b, ADA)).toEqual(told);
    expect(text(await callTool(b.url, 'count', {}, ADA))).toBe('2');
    expect(await listed(b, ADA)).toContain('forget');
  });
});

// Rule sessions-29.
test('a gateway that resumes a parked call of one before it lists in that session', async () => {
  const { server, route } = await stage();
  const [a, b] = await replicas(server, 2, { route });
  const asked = await callTool(a.url, 'ask', {}, ADA);
  await a.kill();
  const retry = () => callTool(b.url, 'ask', answersOf(asked, 'Ada'), ADA);
  expect(text(await whileRetryable(retry))).toBe('Ada 1');
  expect((await discovered(b, ADA)).instructions).toBe('Ask nicely. You are Bearer ada.');
  expect(await listed(b, ADA)).toContain('forget');
});

// Rule sessions-29.
test('a worker that goes on with the session of one that was killed tells what the server said there', async () => {
  const { server, route } = await stage();
  const gateway = await replica(server, { relay: false, config: { workers: 2 }, route });
  expect(text(await callTool(gateway.url, 'count', {}, ADA))).toBe('1');
  const told = await discovered(gateway, ADA);
  const [began] = await gateway.saw('call.started');
  process.kill(pidOf(gateway, Number(began?.['worker'])), 'SIGKILL');
  await gateway.saw('worker.started', 3);
  const elsewhere = { headers: { ...ADA.headers, connection: 'close' } };
  for (let times = 0; times < 8; times += 1) {
    expect(await discovered(gateway, elsewhere)).toEqual(told);
    expect(await listed(gateway, elsewhere)).toContain('forget');
  }
  expect(text(await callTool(gateway.url, 'count', {}, elsewhere))).toBe('2');
});
