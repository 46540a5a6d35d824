/** Clients that take their time, leave in the middle, or take more connections than there are. */
import { once } from 'node:events';
import type { Socket } from 'node:net';
import type { ServerResponse } from 'node:http';
import { describe, expect, test } from 'vitest';
import { rawRequest, sendRaw, valuesOf } from '../../../fixtures/clients/raw-http.ts';
import { eventStream, json, type Answer } from '../../../fixtures/servers/scripted-server.ts';
import { hurriedClock } from '../../../fixtures/hurried-clock.ts';
import {
  callBody,
  callHeaders,
  callsOf,
  closed,
  expectUnharmed,
  ground,
  open,
  openBoth,
  rawCall,
  type Ground,
} from '../../../fixtures/gateways/survival-testbed.ts';

/** Where a call is cancelled, its server is given time to react. */
const HURRIED = { clock: hurriedClock(10) };
const SHORT = { headMs: 300, requestMs: 600, checkEveryMs: 50, idleMs: 200, writeStallMs: 300 };
const LONG_LENGTH = { 'content-length': '100000' };

const isCall = ({ body }: { body: { method?: string } | undefined }) =>
  body?.method === 'tools/call';
const isCancelled = ({ body }: { body: { method?: string } | undefined }) =>
  body?.method === 'notifications/cancelled';

describe('a request that comes too slowly', () => {
  const head = (changes = {}) => rawRequest('POST', '/mcp', callHeaders(changes));
  // Rule http-8: A request has 10 s for its head and 30 s in all. Then it gets 408, and the connection closes.
  test.each<[string, string, string | undefined]>([
    ['without a first byte', '', undefined],
    ['with a head that stops', head().slice(0, 40), undefined],
    ['with a head that drips', head().slice(0, -2), 'x-more: 1\r\n'],
    ['with a header that drips', `${head().slice(0, -2)}x-more: `, 'x'],
    ['with empty lines before it', '', '\r\n'],
    ['with a body that stops', `${head(LONG_LENGTH)}{"json`, undefined],
    ['with a body that drips', head(LONG_LENGTH), ' '],
    ['with chunks that drip', head({ 'transfer-encoding': 'chunked' }), '1\r\n \r\n'],
    [
      'with trailers that drip',
      `${head({ 'transfer-encoding': 'chunked' })}1\r\n \r\n0\r\n`,
      'x-trailer: 1\r\n',
    ],
  ])('%s gets 408 and is cut', async (_title, request, drip) => {
    const field = await ground({ timeouts: SHORT });
    const dripping = drip === undefined ? {} : { drip };
    const answer = await sendRaw(field.url, request, { untilClosed: true, ...dripping });
    expect(answer.status).toBe(408);
    expect(valuesOf(answer, 'connection')).toEqual(['close']);
    expect(JSON.parse(answer.body).error).toMatchObject({ code: -32600 });
    expect(callsOf(field)).toBe(0);
    await expectUnharmed(field);
  });

  test('does not keep others waiting', async () => {
    const field = await ground();
    const slow = Array.from({ length: 100 }, () => open(field.url));
    for (const [index, socket] of slow.entries()) {
      socket.write(index % 2 === 0 ? head().slice(0, 60) : `${head(LONG_LENGTH)}{"json`);
    }
    await Promise.all(slow.map((socket) => once(socket, 'connect')));
    expect((await sendRaw(field.url, rawCall())).status).toBe(200);
    for (const socket of slow) socket.destroy();
    await expectUnharmed(field);
  });

  // Rule http-8.
  test('is not what a call is that takes its time upstream', async () => {
    const released = Promise.withResolvers<void>();
    const field = await ground(
      { timeouts: { ...SHORT, requestMs: 100, headMs: 100, writeStallMs: 100 } },
      async ({ body }, response) => {
        await released.promise;
        json(response, 200, { jsonrpc: '2.0', id: body.id, result: { content: [] } });
      },
    );
    const answer = sendRaw(field.url, rawCall({ tool: 'slow' }));
    await field.upstream.saw(isCall);
    // Another client runs into all of these limits meanwhile.
    const idle = open(field.url);
    idle.resume();
    await closed(idle);
    released.resolve();
    expect((await answer).status).toBe(200);
    await expectUnharmed(field);
  });
});

describe('a connection', () => {
  // Rule http-9: A connection can be idle for 65 s. Beyond `limits.maxConnections` no connection is accepted, and
  // `edge.connection_limit` is logged.
  test('that is idle between two requests is closed without a response', async () => {
    const field = await ground({ timeouts: SHORT });
    const answer = await sendRaw(field.url, rawCall(), { untilClosed: true });
    expect(answer.status).toBe(200);
    expect(answer.text.match(/HTTP\/1\.1 /g)).toHaveLength(1);
    await expectUnharmed(field);
  });

  // Rule http-9.
  test('beyond the limit is not taken, and those that end make room', async () => {
    const field = await ground({ limits: { maxConnections: 3 } });
    const held = [];
    while (held.length < 3) held.push(await openBoth(field.url));
    const beyond = open(field.url);
    beyond.resume();
    await closed(beyond);
    expect(beyond.bytesRead).toBe(0);
    expect(field.gateway.log.named('edge.connection_limit')).toEqual([
      { refused: 1, client: '127.0.0.1' },
    ]);
    for (const { client, server } of held.slice(1)) {
      client.destroy();
      await closed(server);
    }
    expect((await sendRaw(field.url, rawCall())).status).toBe(200);
    await expectUnharmed(field);
  });
});

describe('a client that does not read', () => {
  const padding = 'x'.repeat(64 * 1024);
  const STALLED = { path: '/mcp', client: '127.0.0.1', requests: 1 };

  /** Fills the client's side until nothing moves any more, without end. */
  const flood: Answer = ({ body }, response) => {
    const stream = eventStream(response);
    const params = { progressToken: body.params._meta.progressToken, progress: 1 };
    const push = () => {
      if (response.destroyed) return;
      stream.send({
        jsonrpc: '2.0',
        method: 'notifications/progress',
        params: { ...params, message: padding },
      });
      params.progress += 1;
      if (response.writableNeedDrain) response.once('drain', push);
      else setImmediate(push);
    };
    push();
  };
  const wantsProgress = () =>
    rawCall({
      tool: 'flood',
      body: callBody('flood').replace('"_meta":{', '"_meta":{"progressToken":7,'),
    });

  // Rule http-10: A client that reads nothing for 60 s while data waits is gone (`edge.client_stalled`): its call is
  // cancelled. A listener is disconnected when 256 KiB wait for it.
  test('its stream is cut after a while, and the call cancelled', async () => {
    const field = await ground({ timeouts: SHORT }, flood);
    const { client, server } = await openBoth(field.url);
    client.pause();
    client.write(wantsProgress());
    await Promise.all([closed(server), field.upstream.saw(isCancelled)]);
    client.destroy();
    await expectIdle(field);
    expect(field.gateway.log.named('edge.client_stalled')).toEqual([STALLED]);
  });

  // Rule http-10.
  test('it is cut once it has read nothing for the time that is promised, and not after twice that', async () => {
    const writeStallMs = 2_000;
    const field = await ground({ timeouts: { writeStallMs } }, flood);
    const { client, server } = await openBoth(field.url);
    client.pause();
    const sentMs = performance.now();
    client.write(wantsProgress());
    await closed(server);
    const afterMs = performance.now() - sentMs;
    expect(afterMs).toBeGreaterThanOrEqual(writeStallMs - 1);
    expect(afterMs).toBeLessThan(1.5 * writeStallMs);
  });

  // Rule http-10.
  test('its response is dropped after a while, however long it is', async () => {
    const text = 'x'.repeat(15 * 1024 * 1024);
    const field = await ground({ timeouts: SHORT }, ({ body }, response) => {
      const result = { content: [{ type: 'text', text }] };
      json(response, 200, { jsonrpc: '2.0', id: body.id, result });
    });
    const { client, server } = await openBoth(field.url);
    client.pause();
    client.write(rawCall({ tool: 'large' }));
    await closed(server);
    client.resume();
    await closed(client);
    expect(client.bytesRead).toBeLessThan(text.length);
    expect(field.gateway.log.named('edge.client_stalled')).toEqual([STALLED]);
    await expectUnharmed(field);
  });

  // Rule http-10.
  test('one that reads in small pieces gets all of it', async () => {
    const text = 'x'.repeat(12 * 1024 * 1024);
    const field = await ground({ timeouts: SHORT }, ({ body }, response) => {
      const result = { content: [{ type: 'text', text }] };
      json(response, 200, { jsonrpc: '2.0', id: body.id, result });
    });
    const { client } = await openBoth(field.url);
    let read = 0;
    let end = '';
    const whole = Promise.withResolvers<void>();
    client.on('data', (chunk: Buffer) => {
      read += chunk.byteLength;
      // The end of the response can come in two chunks.
      end = (end + chunk.toString('latin1', Math.max(0, chunk.byteLength - 100))).slice(-100);
      client.pause();
      setImmediate(() => client.resume());
      if (read > text.length && end.includes('}}')) whole.resolve();
    });
    client.write(rawCall({ tool: 'large' }));
    await whole.promise;
    client.destroy();
    await expectUnharmed(field);
  });
});

/** With a farewell, with a reset, and with the sending side only, which HTTP/1.1 cannot tell apart. */
const WAYS: [string, (socket: Socket) => unknown][] = [
  ['closes', (socket) => socket.destroy()],
  ['resets', (socket) => socket.resetAndDestroy()],
  ['half closes', (socket) => socket.end()],
];

describe.each(WAYS)('a client that %s the connection', (_way, leave) => {
  test.each([
    ['before its first byte', ''],
    ['in the request line', 'POST /m'],
    ['in a header', 'POST /mcp HTTP/1.1\r\nhost: loc'],
    ['behind the head', rawRequest('POST', '/mcp', callHeaders(LONG_LENGTH))],
    ['in the body', `${rawRequest('POST', '/mcp', callHeaders(LONG_LENGTH))}{"jsonrpc"`],
    [
      'in a chunk',
      `${rawRequest('POST', '/mcp', callHeaders({ 'transfer-encoding': 'chunked' }))}9\r\n{"json`,
    ],
    [
      'waiting to be told to go on',
      rawRequest('POST', '/mcp', callHeaders({ ...LONG_LENGTH, expect: '100-continue' })),
    ],
  ])('%s has called nothing', async (_title, sent) => {
    const field = await ground();
    const { client, server } = await openBoth(field.url);
    if (sent !== '') {
      client.write(sent);
      await received(server, sent.length);
    }
    leave(client);
    await closed(server);
    expect(callsOf(field)).toBe(0);
    await expectUnharmed(field);
  });

  test('while the server works has its call cancelled', async () => {
    const field = await ground(HURRIED, () => {});
    const { client, server } = await openBoth(field.url);
    client.write(rawCall({ tool: 'slow' }));
    await field.upstream.saw(isCall);
    leave(client);
    await Promise.all([closed(server), field.upstream.saw(isCancelled)]);
    await expectIdle(field);
  });

  // Rule responses-7.
  test('behind the first event has its call cancelled', async () => {
    const field = await ground(HURRIED, () => {});
    const { client, server } = await openBoth(field.url);
    client.write(rawCall({ tool: 'slow' }));
    await Promise.all([once(client, 'data'), field.upstream.saw(isCall)]);
    leave(client);
    await Promise.all([closed(server), field.upstream.saw(isCancelled)]);
    await expectIdle(field);
  });

  test('in the middle of the server’s response leaves nothing open', async () => {
    const answering = Promise.withResolvers<ServerResponse>();
    const field = await ground(HURRIED, ({ body }, response) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.write(`{"jsonrpc":"2.0","id":${body.id},"result":{"content":[`);
      answering.resolve(response);
    });
    const { client } = await openBoth(field.url);
    client.write(rawCall({ tool: 'half' }));
    const response = await answering.promise;
    leave(client);
    await Promise.all([field.upstream.saw(isCancelled), once(response, 'close')]);
    await expectIdle(field);
  });

  // Rule cancellation-2: A call that is cancelled before it was sent is never sent.
  // Rule responses-7.
  test('while a session is opened for it does not leave its call running', async () => {
    const field = await ground(HURRIED, () => {});
    const { client, server } = await openBoth(field.url);
    client.write(rawCall({ tool: 'slow' }));
    await received(server, rawCall({ tool: 'slow' }).byteLength);
    leave(client);
    await closed(server);
    await expectIdle(field);
  });
});

/** Resolves when the gateway has taken so many bytes from the connection. */
async function received(server: Socket, bytes: number): Promise<void> {
  while (server.bytesRead < bytes) await new Promise((resolve) => setImmediate(resolve));
}

/** A cancelled call is told upstream and then let go, each of which takes a moment. */
async function expectIdle(field: Ground): Promise<void> {
  await field.gateway.log.saw('call.ended');
  await expectUnharmed(field);
}
