/**
 * Servers that say more than their client takes at once. A client that reads gets all that the stream of
 * its call carries, at its own pace; a stream that others share is never held up for it.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import {
  KIB,
  logEvent,
  MIB,
  openCall,
  pacedAt,
  progressEvent,
  resultEvent,
  textOf,
  tokenOf,
  upTo,
  writeWhileTaken,
} from '../../../fixtures/servers/flood.ts';
import type { GatewayOverrides } from '../../../fixtures/gateways/gateway.ts';
import { testGateway } from '../../../fixtures/gateways/test-gateway.ts';
import {
  eventStream,
  INITIALIZE_RESULT,
  json,
  ScriptedServer,
  type Answer,
  type Received,
} from '../../../fixtures/servers/scripted-server.ts';
import { stopAfterTest } from '../../../fixtures/stop-after-test.ts';
import { expectUnharmed, ground } from '../../../fixtures/gateways/survival-testbed.ts';

const EVENTS = 30_000;
const SHARED_EVENTS = 12_000;
const LOGS = { 'io.modelcontextprotocol/logLevel': 'debug' };
const isCancelled = ({ body }: { body: { method?: string } | undefined }) =>
  body?.method === 'notifications/cancelled';

/** Says everything at once, and then the result. */
const burst =
  (events: number): Answer =>
  ({ body }, response) => {
    const stream = eventStream(response);
    const said = upTo(events).map((count) => progressEvent(tokenOf(body), count));
    stream.raw(`${said.join('')}${resultEvent(body.id)}`);
    stream.end();
  };

describe('the stream of a call', () => {
  // Rule http-11: While 256 KiB wait for its client, the stream of a call is not read. The stream of a parked call is
  // read, and its notifications are dropped.
  test(
    'brings 30 MB of progress in a burst to a client that reads',
    { timeout: 60_000 },
    async () => {
      const field = await ground({}, burst(EVENTS));
      const taken = await (await openCall(field.url, 'flood')).take();
      expect(taken.bytes).toBeGreaterThan(30 * MIB);
      expect(taken.progress).toEqual(upTo(EVENTS));
      expect(textOf(taken)).toBe('done');
      expect(field.gateway.log.named('notifications.dropped')).toEqual([]);
      await expectUnharmed(field);
    },
  );

  // Rule http-11.
  test('brings 40 MB at 2 MB/s', { tags: ['long'], timeout: 60_000 }, async () => {
    const field = await ground({}, async ({ body }, response) => {
      const stream = eventStream(response);
      let count = 0;
      while (count < 40 * 1000 && !response.destroyed) {
        for (let more = 0; more < 200; more += 1) {
          stream.raw(progressEvent(tokenOf(body), (count += 1)));
        }
        await wait(100);
      }
      stream.raw(resultEvent(body.id));
      stream.end();
    });
    const taken = await (await openCall(field.url, 'flood')).take();
    expect(taken.progress).toEqual(upTo(40 * 1000));
    expect(textOf(taken)).toBe('done');
    await expectUnharmed(field);
  });

  // Rule http-11.
  test(
    'waits for a client that reads slowly, who gets all of it',
    { timeout: 60_000 },
    async () => {
      const field = await ground({ timeouts: { writeStallMs: 1_000 } }, burst(20_000));
      const taken = await (await openCall(field.url, 'flood')).take(pacedAt(4 * MIB));
      expect(taken.progress).toEqual(upTo(20_000));
      expect(textOf(taken)).toBe('done');
      await expectUnharmed(field);
    },
  );

  // Rule http-11.
  test('is held back at the server while the client takes nothing', async () => {
    const written = Promise.withResolvers<number>();
    const field = await ground({}, async ({ body }, response) => {
      const stream = eventStream(response);
      const event = (count: number) => progressEvent(tokenOf(body), count);
      written.resolve(await writeWhileTaken(response, event, 500));
      stream.raw(resultEvent(body.id));
      stream.end();
    });
    const call = await openCall(field.url, 'flood');
    const count = await written.promise;
    const taken = await call.take();
    expect(taken.progress).toEqual(upTo(count));
    expect(textOf(taken)).toBe('done');
    await expectUnharmed(field);
  });

  // Rule http-11.
  test('brings a result that waits behind more than the client takes at once', async () => {
    const text = 'y'.repeat(3 * MIB);
    const field = await ground({}, ({ body }, response) => {
      const stream = eventStream(response);
      for (let count = 1; count <= 12_000; count += 1) stream.raw(logEvent(count));
      stream.raw(resultEvent(body.id, text));
      stream.end();
    });
    const call = await openCall(field.url, 'flood', {}, { meta: LOGS });
    await wait(300);
    const taken = await call.take();
    expect(taken.logs).toEqual(upTo(12_000));
    expect(taken.notices).toEqual([]);
    expect(textOf(taken)).toBe(text);
    await expectUnharmed(field);
  });

  // Rule http-10.
  test('ends when the client takes nothing for the stall time, and the call is cancelled', async () => {
    const field = await ground({ timeouts: { writeStallMs: 300 } }, async ({ body }, response) => {
      eventStream(response);
      const event = (count: number) => progressEvent(tokenOf(body), count);
      await writeWhileTaken(response, event, 60_000);
    });
    await openCall(field.url, 'flood');
    await field.upstream.saw(isCancelled);
    await field.gateway.log.saw('call.ended');
    expect(field.gateway.log.named('call.ended')).toMatchObject([{ end: 'cancelled' }]);
    await expectUnharmed(field);
  });

  // Rule http-11.
  test('is read on when its client has gone, in the middle of a pause', async () => {
    const field = await ground({}, burst(EVENTS));
    const call = await openCall(field.url, 'flood');
    await wait(200);
    call.answer.destroy();
    await field.gateway.log.saw('call.ended');
    await expectUnharmed(field);
  });
});

/** A server of HTTP+SSE, each of whose sessions has one stream for everything. */
async function overOneStream(call: (say: (text: string) => void, body: Received['body']) => void) {
  const streams = new Map<string, (text: string) => void>();
  const server = await ScriptedServer.start(({ method, path, body }, response) => {
    if (method === 'GET') {
      const { raw } = eventStream(response);
      const endpoint = `/message?session=${streams.size}-of-this-server`;
      streams.set(endpoint, raw);
      return void raw(`event: endpoint\ndata: ${endpoint}\n\n`);
    }
    const say = streams.get(path);
    if (say === undefined) return json(response, 404, {});
    response.writeHead(202).end();
    if (body.method === 'initialize') {
      const result = { ...INITIALIZE_RESULT, protocolVersion: '2024-11-05' };
      const reply = { jsonrpc: '2.0', id: body.id, result };
      say(`event: message\ndata: ${JSON.stringify(reply)}\n\n`);
    } else if (body.method === 'logging/setLevel') {
      say(`event: message\ndata: {"jsonrpc":"2.0","id":${body.id},"result":{}}\n\n`);
    } else if (body.method === 'tools/call') {
      call(say, body);
    }
  });
  stopAfterTest(() => server.stop());
  return server;
}

async function gatewayOf(server: ScriptedServer, overrides: GatewayOverrides = {}) {
  const gateway = await testGateway(server.url, { transport: 'http-sse', ...overrides });
  return gateway;
}

describe('a stream that is shared', () => {
  // Rule http-12 (progress, "Behavior Requirements"): A shared stream is never paused. A slow client gets the newest
  // progress, the number of missed log messages, and always the result.
  test(
    'brings each of two calls its result, and the newest progress',
    { timeout: 60_000 },
    async () => {
      const server = await overOneStream((say, body) => {
        for (let count = 1; count <= SHARED_EVENTS; count += 1)
          say(progressEvent(tokenOf(body), count));
        say(resultEvent(body.id, body.params.name));
      });
      const gateway = await gatewayOf(server);
      const calls = await Promise.all(['one', 'two'].map((name) => openCall(gateway.url, name)));
      const taken = await Promise.all(calls.map((call) => call.take(pacedAt(20 * MIB))));
      expect(taken.map(textOf)).toEqual(['one', 'two']);
      for (const { progress } of taken) {
        expect(progress.at(-1)).toBe(SHARED_EVENTS);
        expect(progress).toEqual(progress.toSorted((one, other) => one - other));
      }
    },
  );

  // Rule http-12.
  test('is never paused: what a client misses is counted, logged, and told', async () => {
    const over = Promise.withResolvers<void>();
    const server = await overOneStream((say, body) => {
      for (let count = 1; count <= SHARED_EVENTS; count += 1) {
        say(logEvent(count));
        say(progressEvent(tokenOf(body), count));
      }
      say(resultEvent(body.id));
      over.resolve();
    });
    const gateway = await gatewayOf(server);
    const call = await openCall(gateway.url, 'flood', {}, { meta: LOGS });
    await over.promise;
    // The call is over, though its client has not taken a thing.
    await gateway.log.saw('call.ended');
    const taken = await call.take();
    expect(textOf(taken)).toBe('done');
    expect(taken.progress.at(-1)).toBe(SHARED_EVENTS);
    expect(taken.logs.length).toBeLessThan(SHARED_EVENTS);
    expect(taken.bytes).toBeLessThan(16 * MIB);
    const [notice] = taken.notices;
    const dropped = SHARED_EVENTS - taken.logs.length;
    expect(notice).toMatchObject({ level: 'warning', logger: 'mrtr-gateway' });
    expect(taken.notices.map(({ data }) => Number(/\d+/.exec(data)))).toEqual([dropped]);
    const [line] = gateway.log.named('notifications.dropped');
    const { call: id } = gateway.log.named('call.ended')[0] ?? {};
    expect(line).toEqual({
      route: 'mcp',
      call: id,
      progress: SHARED_EVENTS - taken.progress.length,
      messages: dropped,
    });
  });

  // Rule http-12.
  test('ends for a client that takes nothing for the stall time, and the call is cancelled', async () => {
    const server = await overOneStream((say, body) => {
      let count = 0;
      const flooding = setInterval(() => {
        for (let more = 0; more < 100; more += 1) {
          say(progressEvent(tokenOf(body), (count += 1)));
        }
      }, 10);
      stopAfterTest(async () => clearInterval(flooding));
    });
    const gateway = await gatewayOf(server, { timeouts: { writeStallMs: 300 } });
    await openCall(gateway.url, 'flood');
    await server.saw(isCancelled);
    await gateway.log.saw('call.ended');
    expect(gateway.log.named('call.ended')).toMatchObject([{ end: 'cancelled' }]);
  });
});

test('the padding of these events is what their sizes say', () => {
  expect(progressEvent(1, 1).length).toBeGreaterThan(KIB);
  expect(progressEvent(1, 1).length).toBeLessThan(1.2 * KIB);
});
