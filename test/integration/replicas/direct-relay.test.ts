/** The connection between two replicas: one for all retries, and nothing for strangers. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { describe, expect, test } from 'vitest';
import { systemClock } from '../../../src/lib/clock.ts';
import type { ServeRelayed } from '../../../src/model/relay.ts';
import type { CallReply, EdgeRequest, Waiter } from '../../../src/model/request.ts';
import { directReplica } from '../../fixtures/direct-replica.ts';
import { RETRY } from '../../fixtures/clients/edge-request.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

const MIB = 1024 * 1024;
const ANSWER: CallReply = { kind: 'result', result: { content: [] } };
const answering: ServeRelayed = async () => ({
  begin: () => Promise.resolve(ANSWER),
  sendClientBack: () => {},
});

async function replica(...args: Parameters<typeof directReplica>) {
  const started = await directReplica(...args);
  stopAfterTest(started.stop);
  return started;
}

function client(over: Partial<Waiter> = {}): Waiter {
  return { closed: new AbortController().signal, backlog: null, notify: () => {}, ...over };
}

const ownerAt = ({ address }: { readonly address: string }, instance = 'owner') => ({
  ...{ id: 'owner', instance, address },
});

/** Passes bytes on to a port, and keeps those of each side. */
async function wire(port: number) {
  const { createServer } = await import('node:net');
  const sent: Buffer[] = [];
  const server = createServer((near) => {
    const far = connect(port, '127.0.0.1');
    near.on('data', (chunk: Buffer) => sent.push(chunk));
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      from.pipe(to);
      from.on('error', () => to.destroy());
      from.on('close', () => to.destroy());
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  stopAfterTest(async () => void server.close());
  const address = server.address();
  return { sent, address: `http://127.0.0.1:${typeof address === 'object' && address?.port}` };
}

describe('retries between two replicas', () => {
  // Rule relay-14: One connection between two replicas carries all retries. A slow client holds back only its own.
  test('share one connection, in both directions', async () => {
    const one = await replica('one', { serveRelayed: answering });
    const other = await replica('other', { serveRelayed: answering });
    const retries = Array.from({ length: 50 }, (_, index) => {
      const [from, to] = index % 2 === 0 ? [one, other] : [other, one];
      const owner = ownerAt(to, to === one ? 'one' : 'other');
      return () => from.relay.for('route').relay(owner, RETRY, client());
    });
    const [first, ...rest] = retries;
    expect(await first?.()).toEqual({ type: 'replied', reply: ANSWER });
    const outcomes = await Promise.all(rest.map((retry) => retry()));
    expect(outcomes.map(({ type }) => type)).toEqual(rest.map(() => 'replied'));
    expect(one.sockets.length + other.sockets.length).toBe(1);
  });

  test('may be longer than a frame, and have any text', async () => {
    const asked: EdgeRequest[] = [];
    const owner = await replica('owner', {
      serveRelayed: async (_route, request) => {
        asked.push(request);
        return { begin: () => Promise.resolve(ANSWER), sendClientBack: () => {} };
      },
    });
    const requester = await replica('requester');
    const text = `€\u{1f600}${'a'.repeat(7)}`.repeat(60_000);
    const request = { ...RETRY, params: { text } };
    expect((await requester.relay.for('route').relay(ownerAt(owner), request, client())).type).toBe(
      'replied',
    );
    expect(asked.map(({ params }) => params['text'] === text)).toEqual([true]);
  });

  // Rule relay-14.
  test('longer than the limit are refused for good, and break no other', async () => {
    const reply = Promise.withResolvers<CallReply>();
    const served: EdgeRequest[] = [];
    const owner = await replica('owner', {
      maxBodyBytes: 200_000,
      serveRelayed: async (_route, request) => {
        served.push(request);
        return { begin: () => reply.promise, sendClientBack: () => {} };
      },
    });
    const requester = await replica('requester');
    const relay = requester.relay.for('route');
    const other = relay.relay(ownerAt(owner), RETRY, client());
    const tooLong = { ...RETRY, params: { text: 'x'.repeat(1_000_000) } };
    for (const [request, mayHaveActed] of [
      [tooLong, 'yes'],
      // A new call, for the home of its caller.
      [{ ...tooLong, requestState: null }, 'no'],
    ] as const) {
      expect(await relay.relay(ownerAt(owner), request, client())).toMatchObject({
        type: 'replied',
        reply: { failure: { error: { data: { reason: 'request_too_large', mayHaveActed } } } },
      });
    }
    reply.resolve(ANSWER);
    expect((await other).type).toBe('replied');
    expect(served).toHaveLength(1);
    expect(owner.sockets).toHaveLength(1);
  });

  // Rules relay-13, relay-14.
  test('of which one has a client that does not read do not wait for it', async () => {
    const reply: CallReply = { kind: 'result', result: { text: 'x'.repeat(8 * MIB) } };
    const reading = Promise.withResolvers<void>();
    const flooding: ServeRelayed = async (_route, { params }, waiter) => ({
      begin: async () => {
        for (let sent = 0; params['floods'] === true && sent < 40; sent += 1) {
          waiter.notify('notifications/message', { level: 'info', data: 'x'.repeat(100_000) });
        }
        return reply;
      },
      sendClientBack: () => {},
    });
    const owner = await replica('owner', { serveRelayed: flooding });
    const requester = await replica('requester');
    const relay = requester.relay.for('route');
    const told: string[] = [];
    const behind = client({ backlog: reading.promise, notify: (method) => told.push(method) });
    const slow = relay.relay(ownerAt(owner), { ...RETRY, params: { floods: true } }, behind);
    const quick = await relay.relay(ownerAt(owner), RETRY, client());
    expect(quick.type).toBe('replied');
    expect(told).toEqual([]);
    reading.resolve();
    expect((await slow).type).toBe('replied');
    expect(told).toHaveLength(40);
    expect(owner.sockets).toHaveLength(1);
  });

  // Rule relay-9.
  test('of a requester that reads nothing lose their client', async () => {
    const taken = Promise.withResolvers<Waiter>();
    const owner = await replica('owner', {
      unreadTimeoutMs: 300,
      serveRelayed: async (_route, _request, waiter) => ({
        begin: () => {
          taken.resolve(waiter);
          return new Promise((resolve) => {
            waiter.closed.addEventListener('abort', () => resolve(ANSWER));
          });
        },
        sendClientBack: () => {},
      }),
    });
    const requester = await replica('requester');
    const never = new Promise<void>(() => {});
    void requester.relay.for('route').relay(ownerAt(owner), RETRY, client({ backlog: never }));
    const waiter = await taken.promise;
    for (let sent = 0; sent < 40; sent += 1) {
      waiter.notify('notifications/message', { level: 'info', data: 'x'.repeat(100_000) });
    }
    await expect.poll(() => waiter.closed.aborted).toBe(true);
  });

  // Rule relay-2.
  test('are confirmed before a process acts on them that has just started', async () => {
    const startedAtMs = systemClock.elapsed();
    const clock = { ...systemClock, elapsed: () => systemClock.elapsed() - startedAtMs };
    let served = 0;
    const owner = await replica('owner', {
      clock,
      serveRelayed: async () => ({
        begin: () => {
          served += 1;
          for (const socket of owner.sockets) socket.destroy();
          return new Promise<never>(() => {});
        },
        sendClientBack: () => {},
      }),
    });
    const requester = await replica('requester');
    const newCall = { ...RETRY, requestState: null, inputResponses: null };
    const outcome = await requester.relay.for('route').relay(ownerAt(owner), newCall, client());
    expect(outcome).toMatchObject({ type: 'silent', isConfirmed: true });
    expect(served).toBe(1);
  });

  test('whose connection breaks are sent once more', async () => {
    let served = 0;
    const owner = await replica('owner', {
      serveRelayed: async () => ({
        begin: () => {
          served += 1;
          if (served > 1) return Promise.resolve(ANSWER);
          for (const socket of owner.sockets) socket.destroy();
          return new Promise<never>(() => {});
        },
        sendClientBack: () => {},
      }),
    });
    const requester = await replica('requester');
    const outcome = await requester.relay.for('route').relay(ownerAt(owner), RETRY, client());
    expect(outcome).toEqual({ type: 'replied', reply: ANSWER });
    expect(served).toBe(2);
  });

  test('go to another process that has the address now, which does not have the call', async () => {
    const owner = await replica('another');
    const requester = await replica('requester');
    const outcome = await requester.relay.for('route').relay(ownerAt(owner), RETRY, client());
    expect(outcome.type).toBe('gone');
  });

  test.each(['no address', 'unix:/run/relay', 'https://127.0.0.1:1'])(
    'have no connection to an address that is not one of a relay (%s)',
    async (address) => {
      const requester = await replica('requester');
      const outcome = await requester.relay
        .for('route')
        .relay(ownerAt({ address }), RETRY, client());
      expect(outcome.type).toBe('silent');
    },
  );

  test('wait for the connection of a replica that accepts it within three seconds, and then no more', async () => {
    const { createServer } = await import('node:net');
    const mute = createServer(() => {});
    await new Promise<void>((resolve) => mute.listen(0, '127.0.0.1', resolve));
    stopAfterTest(async () => void mute.close());
    const address = mute.address();
    const requester = await replica('requester');
    const began = performance.now();
    const port = typeof address === 'object' && address?.port;
    const owner = ownerAt({ address: `http://127.0.0.1:${port}` });
    const outcome = await requester.relay.for('route').relay(owner, RETRY, client());
    expect(outcome.type).toBe('silent');
    expect(performance.now() - began).toBeLessThan(5_000);
  });
});

// Rule relay-8.
describe('a stranger', () => {
  const upgrade = (hello: string) =>
    `GET /relay/owner HTTP/1.1\r\nhost: owner\r\nconnection: upgrade\r\nupgrade: mrtr-relay/1\r\nmrtr-relay-hello: ${hello}\r\n\r\n`;

  async function answerTo(port: number, bytes: string | Buffer): Promise<[Socket, string]> {
    const socket = connect(port, '127.0.0.1');
    stopAfterTest(async () => void socket.destroy());
    socket.write(bytes);
    const [chunk] = (await once(socket, 'data')) as [Buffer];
    return [socket, chunk.toString('latin1').split('\r\n', 1)[0] ?? ''];
  }

  test.each(['', 'x', 'a..b.c.d', 'x'.repeat(8_000)])(
    'gets status 421, and its connection is closed (hello %j)',
    async (hello) => {
      const { port } = await replica('owner', { serveRelayed: answering });
      const [socket, status] = await answerTo(port, upgrade(hello));
      expect(status).toBe('HTTP/1.1 421 Misdirected Request');
      socket.resume();
      await once(socket, 'close');
    },
  );

  test('that repeats what it recorded is served nothing, and soon disconnected', async () => {
    let served = 0;
    const owner = await replica('owner', {
      serveRelayed: async (...args) => {
        served += 1;
        return answering(...args);
      },
    });
    const requester = await replica('requester');
    const tapped = await wire(owner.port);
    await requester.relay.for('route').relay(ownerAt(tapped), RETRY, client());
    expect(served).toBe(1);
    const recorded = Buffer.concat(tapped.sent);
    const headEnd = recorded.indexOf('\r\n\r\n') + 4;
    const [socket, status] = await answerTo(owner.port, recorded.subarray(0, headEnd));
    // The hello is authentic; what follows is sealed with keys of another connection.
    expect(status).toBe('HTTP/1.1 101 Switching Protocols');
    const closed = once(socket.resume(), 'close');
    socket.write(recorded.subarray(headEnd));
    await closed;
    const [mute] = await answerTo(owner.port, recorded.subarray(0, headEnd));
    await once(mute.resume(), 'close');
    expect(served).toBe(1);
  });
});
