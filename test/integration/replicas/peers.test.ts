/** The home of a caller over replicas without Redis: whichever of them a call reaches, it finds what the server keeps. */
import { createServer } from 'node:net';
import { once } from 'node:events';
import { describe, expect, test } from 'vitest';
import { callTool, send, type SendOptions } from '../../fixtures/clients/modern-client.ts';
import type {
  GatewayProcess,
  GatewayProcessOptions,
} from '../../fixtures/gateways/gateway-process.ts';
import { answersOf, replica, text } from '../../fixtures/gateways/replica-testbed.ts';
import { countingServer } from '../../fixtures/servers/counting-server.ts';
import type { LegacyServer } from '../../fixtures/servers/legacy-server.ts';

const ADA: SendOptions = { headers: { authorization: 'Bearer ada' } };
const BOB: SendOptions = { headers: { authorization: 'Bearer bob' } };

async function count(gateway: GatewayProcess, options: SendOptions = ADA): Promise<unknown> {
  const called = await callTool(gateway.url, 'count', {}, options);
  return text(called) ?? called.response;
}

/** Ports of the loopback that nobody uses. */
async function freePorts(number: number): Promise<number[]> {
  const servers = Array.from({ length: number }, () => createServer().listen(0, '127.0.0.1'));
  await Promise.all(servers.map((server) => once(server, 'listening')));
  const ports = servers.map((server) => Object(server.address()).port as number);
  await Promise.all(servers.map((server) => once(server.close(), 'close')));
  return ports;
}

/** Replicas that know each other, in front of a server that counts. */
async function stage<Names extends readonly string[]>(names: Names, config: object = {}) {
  const counting = await countingServer();
  const ports = await freePorts(names.length);
  const peers = ports.map((port) => `http://127.0.0.1:${port}`);
  const startAt = (index: number) => {
    const relay = { listen: `127.0.0.1:${ports[index]}`, peers };
    return startReplica(counting.server, { config: { relay, ...config } });
  };
  const gateways = await Promise.all(names.map((_, index) => startAt(index)));
  return { ...counting, gateways, startAt };
}

function startReplica(server: LegacyServer, options: Partial<GatewayProcessOptions>) {
  return replica(server, { relay: false, ...options });
}

// Up to four gateways start in a test.
describe('replicas with relay.peers and without Redis', { timeout: 60_000 }, () => {
  // Rule sessions-16.
  test('share the home of a caller: in turns, at once, with a question between, and in lists', async () => {
    const { gateways, server } = await stage(['a', 'b']);
    const [a, b] = gateways as [GatewayProcess, GatewayProcess];
    expect(await a.saw('gateway.homes')).toMatchObject([{ shared: 'peers' }]);
    const counts = [];
    for (const gateway of [a, b, b, a]) counts.push(await count(gateway));
    expect(counts).toEqual(['1', '2', '3', '4']);
    const atOnce = await Promise.all([a, b, a, b].map((gateway) => count(gateway)));
    expect(atOnce.sort()).toEqual(['5', '6', '7', '8']);
    const asked = await callTool(b.url, 'ask', {}, ADA);
    expect(await count(a)).toBe('9');
    expect(text(await callTool(a.url, 'ask', answersOf(asked, 'Ada'), ADA))).toBe('Ada 10');
    for (const gateway of [a, b]) {
      const { response } = await send(gateway.url, 'tools/list', {}, ADA);
      expect(response.result.tools.map(({ name }: { name: string }) => name)).toContain('forget');
    }
    // One for the caller, and the one with which each replica got to know the server.
    expect(server.methods().filter((method) => method === 'initialize')).toHaveLength(3);
  });

  // Rules sessions-1, sessions-16.
  test('keep callers apart, and go on with the sessions of a replica that dies, comes back, or stops', async () => {
    const { gateways, startAt } = await stage(['a', 'b', 'c']);
    const [a, b, c] = gateways as [GatewayProcess, GatewayProcess, GatewayProcess];
    const counts = [];
    for (const gateway of [a, b, c]) {
      counts.push(await count(gateway, ADA), await count(gateway, BOB));
    }
    expect(counts).toEqual(['1', '1', '2', '2', '3', '3']);
    await a.kill();
    expect([await count(b), await count(c, BOB)]).toEqual(['4', '4']);
    const again = await startAt(0);
    expect([await count(again), await count(c), await count(again, BOB)]).toEqual(['5', '6', '5']);
    expect(again.named('peer.up')).toHaveLength(2);
    expect(again.named('session.opened')).toEqual([]);
    await b.drain();
    expect([await count(again), await count(c), await count(again, BOB)]).toEqual(['7', '8', '6']);
  });

  // Rule sessions-16.
  test('find the home at any worker of any replica', { tags: ['long'] }, async () => {
    const { gateways } = await stage(['a', 'b'], { workers: 2 });
    const [a, b] = gateways as [GatewayProcess, GatewayProcess];
    const counts = [];
    for (let at = 0; at < 8; at += 1) {
      const options = { headers: { ...ADA.headers, connection: 'close' } };
      counts.push(await count(at % 2 === 0 ? a : b, options));
    }
    expect(counts).toEqual(['1', '2', '3', '4', '5', '6', '7', '8']);
    const holder = a.named('session.opened').at(-1)?.['worker'];
    const started = a.named('worker.started').find(({ worker }) => worker === holder);
    process.kill(Number(started?.['pid']), 'SIGKILL');
    await a.saw('worker.ended');
    expect(await count(b)).toBe('9');
  });
});
