/** What hostile servers and clients can make the process hold: a small multiple of what the limits allow. */
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { describe, expect, test } from 'vitest';
import { MIB, resultEvent, tokenOf } from '../fixtures/servers/flood.ts';
import { GatewayProcess } from '../fixtures/gateways/gateway-process.ts';
import { callTool, modernHeaders, modernBody } from '../fixtures/clients/modern-client.ts';
import {
  eventStream,
  json,
  legacyServer,
  type Received,
} from '../fixtures/servers/scripted-server.ts';
import { stopAfterTest } from '../fixtures/stop-after-test.ts';

const AT_ONCE = 10;
const MOST = 200 * MIB;
/** Just below `upstream.maxEvent`. */
const ALMOST = 4 * MIB - 4 * 1024;

type Say = (received: Received, response: ServerResponse) => void | Promise<void>;

/** A gateway process, and a server that answers its tool "echo" at once and all others by `say`. */
async function stage(say: Say) {
  const upstream = await legacyServer((received, response) => {
    if (received.body.params?.name !== 'echo') return say(received, response);
    const result = { content: [{ type: 'text', text: 'echo' }] };
    json(response, 200, { jsonrpc: '2.0', id: received.body.id, result });
  });
  stopAfterTest(() => upstream.stop());
  const route = { upstream: { url: upstream.url, maxEvent: '4MiB' } };
  const gateway = await GatewayProcess.start({ upstream: upstream.url, relay: false, route });
  stopAfterTest(() => gateway.kill());
  for (let count = 0; count < 20; count += 1) await callTool(gateway.url, 'echo');
  await gateway.forgetPeak();
  return { gateway, before: await gateway.residentBytes() };
}

/** Makes so many calls at once; resolves with the memory that they took at most, in MiB. */
async function cost(say: Say, call: (url: string) => Promise<unknown> = callHostile) {
  const { gateway, before } = await stage(say);
  await Promise.all(Array.from({ length: AT_ONCE }, () => call(gateway.url)));
  const { response } = await callTool(gateway.url, 'echo');
  expect(response.result.content[0].text).toBe('echo');
  const peak = (await gateway.peakResidentBytes()) - before;
  return peak;
}

const callHostile = async (url: string) => {
  const answer = await fetch(url, {
    method: 'POST',
    headers: modernHeaders('tools/call', { name: 'hostile' }),
    body: JSON.stringify(
      modernBody('tools/call', { name: 'hostile', arguments: {} }, { meta: { progressToken: 1 } }),
    ),
  });
  await answer.arrayBuffer();
};

/** Writes this again and again, until the gateway has had enough or many times what an event may have. */
const endless =
  (text: string, before = ''): Say =>
  async ({ body }, response) => {
    eventStream(response);
    response.write(before);
    const block = times(text, 64 * 1024);
    for (let written = 0; written < 16 * MIB && !response.destroyed; written += block.length) {
      if (!response.write(block)) await writable(response);
    }
    response.end(`\n\n${resultEvent(body.id)}`);
  };

/** Resolves when more can be written, or nothing more can. Leaves no listener behind for the next time. */
const writable = async (response: ServerResponse) => {
  const over = new AbortController();
  const { signal } = over;
  await Promise.race([once(response, 'drain', { signal }), once(response, 'close', { signal })]);
  over.abort();
};

/** Events that are held until all calls have theirs, and then end in a result. */
function held(event: (received: Received) => string): Say {
  let [waiting, go] = [0, () => {}];
  const all = new Promise<void>((resolve) => (go = resolve));
  return async (received, response) => {
    const stream = eventStream(response);
    stream.raw(event(received));
    waiting += 1;
    if (waiting === AT_ONCE) setTimeout(go, 2_000);
    await all;
    stream.raw('\n\n');
    stream.raw(resultEvent(received.body.id));
    stream.end();
  };
}

const times = (text: string, bytes: number) => text.repeat(Math.floor(bytes / text.length));

describe('ten at once', { tags: ['linux'], timeout: 60_000 }, () => {
  // Rule limits-3.
  test.each<[string, Say]>([
    ['endless tiny data lines', endless('data: x\n')],
    ['endless empty data lines', endless('data\n')],
    ['endless data lines that end with CR', endless('data:x\r')],
    ['endless comments', endless(': x\n')],
    [
      'endless comments between data lines',
      endless(`data: ${'x'.repeat(20)}\n:${'x'.repeat(32_000)}\n`),
    ],
    ['endless ids', endless('id: x\n', 'data: x\n')],
    ['endless unknown fields', endless('x: x\n', 'data: x\n')],
    ['a field name without end', endless('x'.repeat(1000))],
    ['an id without end', endless('x'.repeat(1000), 'id: ')],
    ['an event name without end', endless('x'.repeat(1000), 'event: ')],
    ['a comment without end', endless('x'.repeat(1000), 'data: x\n:')],
    ['data without end', endless('x'.repeat(1000), 'data: ')],
  ])('events of %s', { tags: ['long'] }, async (_what, say) => {
    expect(await cost(say)).toBeLessThan(MOST);
  });

  // Rule limits-3.
  test.each<[string, Say]>([
    ['one line', held(() => `data: ${'x'.repeat(ALMOST)}`)],
    ['one line beyond Latin 1', held(() => `data: ${times(`${'x'.repeat(500)}世`, ALMOST)}`)],
    ['as many lines as may be', held(() => 'data: x\n'.repeat(99_000))],
    ['long lines', held(() => times(`data: ${'x'.repeat(100)}\n`, ALMOST))],
  ])('events of %s that do not end', { tags: ['long'] }, async (_what, say) => {
    expect(await cost(say)).toBeLessThan(MOST);
  });

  const SHAPES: [string, string][] = [
    ['empty objects', `[${times('{},', ALMOST - 200)}0]`],
    ['nested arrays', `[${times(`${'['.repeat(50)}${']'.repeat(50)},`, ALMOST - 200)}0]`],
  ];

  // Rule limits-3.
  test.each(SHAPES)(
    'calls whose progress has millions of %s',
    { tags: ['long'] },
    async (_what, value) => {
      const say = held(({ body }) => {
        const params = `{"progressToken":${tokenOf(body)},"progress":1,"x":${value}}`;
        return `data: {"jsonrpc":"2.0","method":"notifications/progress","params":${params}}\n\n`;
      });
      expect(await cost(say)).toBeLessThan(MOST);
    },
  );

  // Rule validation-6.
  test.each(SHAPES)('calls whose arguments have millions of %s', async (_what, value) => {
    const params = { name: 'hostile', arguments: {} };
    const body = JSON.stringify(modernBody('tools/call', params));
    const call = async (url: string) => {
      const answer = await fetch(url, {
        method: 'POST',
        headers: modernHeaders('tools/call', params),
        body: body.replace('"arguments":{}', `"arguments":{"x":${value}}`),
      });
      expect(answer.status).toBe(400);
    };
    expect(
      await cost(
        held(() => ''),
        call,
      ),
    ).toBeLessThan(MOST);
  });
});
