/** Gateways that find each other, over real sockets. */
import { once } from 'node:events';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { describe, expect, onTestFinished, test } from 'vitest';
import { systemClock } from '../../../../src/lib/clock.ts';
import { PEERS_PATH } from '../../../../src/replicas/peers/peer-messages.ts';
import { Peers, PeerUnreachable, type PeersOptions } from '../../../../src/replicas/peers/peers.ts';
import { createKeyRing } from '../../../../src/seal/key-ring.ts';
import { turnsUntil } from '../../../fixtures/manual-clock.ts';

const ring = (byte: number) =>
  createKeyRing([{ kid: 'a', secret: Buffer.alloc(32, byte) }], 'peers');
const LOOK = { type: 'look', id: 'home:ada' } as const;

/** A gateway that listens, and has not begun to ask others. */
async function gateway(name: string, options: Partial<PeersOptions> = {}) {
  const down: string[] = [];
  const peers = new Peers({
    ...{ addresses: [], name, boots: () => [`boot-${name}`], ring: ring(1), clock: systemClock },
    onUp: () => {},
    onDown: (_peer, problem) => down.push(problem),
    ...options,
  });
  const received: string[] = [];
  const server = createServer((asked, response) => {
    void text(asked).then(async (sealed) => {
      received.push(sealed);
      const { status, reply } = await peers.serve(sealed);
      response.writeHead(status).end(reply);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const url = new URL(`http://127.0.0.1:${port}`);
  const stop = async () => {
    await peers.close();
    server.closeAllConnections();
    server.close();
  };
  onTestFinished(stop);
  const start = () => peers.start(url.origin, async () => ({ entry: null, isHere: true }));
  const names = () => peers.members.map((peer) => peer.name).sort();
  return { peers, url, port, start, stop, names, down, received };
}

function addressesOf(
  ...gateways: readonly { readonly url: URL }[]
): Pick<PeersOptions, 'addresses'> {
  return { addresses: gateways.map(({ url }) => url) };
}

describe('gateways with peers', () => {
  test('know each other when the last one has started, although only that one was told of the others', async () => {
    const [a, b] = [await gateway('a'), await gateway('b')];
    const c = await gateway('c', addressesOf(a, b));
    for (const each of [a, b, c]) await each.start();
    expect([a.names(), b.names(), c.names()]).toEqual([['c'], ['c'], ['a', 'b']]);
    expect(a.peers.isThere('boot-c')).toBe(true);
    expect(a.peers.isThere('boot-b')).toBe(false);
  });

  test('rank alike, and skip themselves among the configured', async () => {
    const [a, b] = [await gateway('a'), await gateway('b')];
    const c = await gateway('c', addressesOf(a, b));
    const d = await gateway('d', addressesOf(a, b, c));
    for (const each of [a, b, c, d]) await each.start();
    await turnsUntil(() => c.names().length === 3);
    const ranked = ({ peers }: typeof a, own: string) =>
      Array.from({ length: 20 }, (_, at) =>
        peers.ranked(`home:${at}`).map((peer) => peer?.name ?? own),
      );
    expect(ranked(c, 'c')).toEqual(ranked(d, 'd'));
    expect(new Set(ranked(c, 'c').map(([first]) => first)).size).toBeGreaterThan(1);
  });

  test('are found by a name that has an address for each', async () => {
    const a = await gateway('a');
    const resolve = async () => [{ address: '127.0.0.1', family: 4 }];
    const b = await gateway('b', { addresses: { dns: { host: 'gw', port: a.port } }, resolve });
    await a.start();
    await b.start();
    expect([a.names(), b.names()]).toEqual([['b'], ['a']]);
  });

  test('begin without a name that is not resolved', async () => {
    const resolve = () => Promise.reject(new Error('ENOTFOUND'));
    const a = await gateway('a', { addresses: { dns: { host: 'gw', port: 1 } }, resolve });
    await a.start();
    expect(a.names()).toEqual([]);
  });

  test('count one whose port is closed as gone at once', async () => {
    const a = await gateway('a');
    const b = await gateway('b', addressesOf(a));
    await a.start();
    await b.start();
    const [peer] = b.peers.members;
    await a.stop();
    await expect(b.peers.ask(peer!, LOOK)).rejects.toThrow(PeerUnreachable);
    expect(b.names()).toEqual([]);
    expect(b.down).toHaveLength(1);
  });

  test('do not meet with other keys, and say why', async () => {
    const a = await gateway('a');
    const b = await gateway('b', { ...addressesOf(a), ring: ring(2) });
    await a.start();
    await b.start();
    expect([a.names(), b.names()]).toEqual([[], []]);
    expect(b.down).toEqual([expect.stringContaining('seal.keys')]);
  });

  test('refuse what was recorded from a connection of another process', async () => {
    const a = await gateway('a');
    const b = await gateway('b', addressesOf(a));
    await a.start();
    await b.start();
    await b.peers.ask(b.peers.members[0]!, LOOK);
    const recorded = a.received.at(-1);
    const again = await gateway('a2');
    await again.start();
    const replayed = request(new URL(PEERS_PATH, again.url), { method: 'POST' }).end(recorded);
    const [response] = await once(replayed, 'response');
    expect(response.statusCode).toBe(421);
  });
});
