/** Strangers at the one relay listener of several workers: how long, and how many of them, it keeps. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { expect, test } from 'vitest';
import { createRelayServer } from '../../../src/fleet/relay/relay-server.ts';
import { RelayListener } from '../../../src/workers/relay-listener.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

/** The most connections of strangers. */
const CONNECTIONS = 1_000;

/** A listener to which no replica comes. @returns what connects to it */
async function relayPort(): Promise<() => Socket> {
  const listener = new RelayListener(() => false);
  const { port } = new URL(await listener.listen({ host: '127.0.0.1', port: 0 }));
  stopAfterTest(async () => listener.close());
  return () => {
    const socket = connect(Number(port), '127.0.0.1').on('error', () => {});
    stopAfterTest(async () => void socket.destroy());
    return socket;
  };
}

test(
  'a stranger at the port of several workers is sent away if a head does not come in 10 s',
  { tags: ['long'] },
  async () => {
    const stranger = await relayPort();
    const silent = stranger();
    const dripping = stranger();
    dripping.write('GET /relay/any HTTP/1.1\r\nhost: relay\r\nx-more: ');
    const drip = setInterval(() => dripping.write('x'), 100);
    stopAfterTest(async () => clearInterval(drip));
    const beganMs = performance.now();
    await Promise.all([silent, dripping].map((one) => once(one.resume(), 'close')));
    // It looks once a second. The machine can be busy.
    expect(performance.now() - beganMs).toBeLessThan(20_000);
  },
);

test('the server at the port of the relay waits 10 s for a head, and 30 s for a request', () => {
  const waits = { headersTimeout: 10_000, requestTimeout: 30_000 };
  expect(createRelayServer(() => {})).toMatchObject(waits);
});

test('strangers at the port of several workers have so many connections and no more', async () => {
  const stranger = await relayPort();
  const held: Socket[] = [];
  // Not more at a time than wait to be accepted.
  while (held.length < CONNECTIONS) {
    const next = Array.from({ length: 100 }, stranger);
    await Promise.all(next.map((one) => once(one, 'connect')));
    held.push(...next);
  }
  const beyond = stranger();
  await once(beyond.resume(), 'close');
  expect(beyond.bytesRead).toBe(0);
  expect(held.filter(({ closed }) => closed)).toEqual([]);
});
