/** Rounds without a question, as replicas that stop and connections that are bounded give them, and what real clients make of them. */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { callTool, type Exchanged, type SendOptions } from '../fixtures/clients/modern-client.ts';
import type { GatewayProcess } from '../fixtures/gateways/gateway-process.ts';
import {
  legacyServer,
  reasonOf,
  replica,
  replicas,
  roundRobin,
  stateOf,
  text,
} from '../fixtures/gateways/replica-testbed.ts';
import { MODERN_CLIENTS } from '../fixtures/real-servers/clients/modern.ts';
import { askName, type LegacyServerOptions } from '../fixtures/servers/legacy-server.ts';

/** A tool that works until it is told to end, and counts its calls. */
function worker() {
  const finishing = Promise.withResolvers<void>();
  const counts = { calls: 0 };
  const tools: LegacyServerOptions['tools'] = {
    work: async () => {
      counts.calls += 1;
      await finishing.promise;
      return 'done';
    },
  };
  return { tools, counts, finish: finishing.resolve };
}

const CONFIG = { drain: { delay: '0s', timeout: '1s' } };
const isStateOnly = ({ response }: Exchanged) =>
  response.result?.resultType === 'input_required' &&
  Object.keys(response.result.inputRequests).length === 0;
const work = (to: { readonly url: string }, more = {}, options: SendOptions = {}) =>
  callTool(to.url, 'work', more, options);
const CLAUDE: SendOptions = {
  meta: {
    'io.modelcontextprotocol/clientInfo': { name: 'Anthropic/ClaudeAI', version: '1.0.0' },
  },
};

describe('a call at replicas that are restarted in turn', { timeout: 60_000 }, () => {
  // Rule drain-16: A call is handed over at most twice, whichever replicas have it: no official client ends a call at the second
  // round without a question, and the Go SDK does at the third.
  describe.each(MODERN_CLIENTS)('for the client of the $name', ({ tags, prepare, call }) => {
    test(
      'comes through, and is handed over at most twice',
      { tags: [...tags, 'long'] },
      async () => {
        prepare();
        const { tools, counts, finish } = worker();
        const legacy = await legacyServer({ tools, keepsEvents: true });
        const [one, two, three] = await replicas(legacy, 3, { config: CONFIG });
        const front = await roundRobin([one]);
        const called = call(front.url, 'work');
        await legacy.saw('tools/call');
        // Another one is there before each of them goes, and gets what is left.
        const handOver = async (old: GatewayProcess, next: GatewayProcess) => {
          front.use([next.url]);
          expect(await old.drain()).toBe(0);
          await next.saw('call.resumed');
        };
        await handOver(one, two);
        const fresh = await replica(legacy, { config: CONFIG });
        await handOver(two, fresh);
        expect(await three.drain()).toBe(0);
        finish();
        expect(await called).toBe('done');
        expect(counts.calls).toBe(1);
        expect(legacy.methods()).not.toContain('notifications/cancelled');
      },
    );
  });

  // Rule drain-16.
  test('is held to the end of the third drain, and then its client is told that it has ended', async () => {
    const { tools, counts } = worker();
    const legacy = await legacyServer({ tools, keepsEvents: true });
    const fleet = await replicas(legacy, 3, { config: CONFIG });
    const told: Exchanged[] = [];
    for (const each of fleet) {
      const last = told.at(-1);
      const waiting = work(each, last === undefined ? {} : { requestState: stateOf(last) });
      await (last === undefined ? legacy.saw('tools/call') : each.saw('call.resumed'));
      expect(await each.drain()).toBe(0);
      told.push(await waiting);
    }
    expect(told.map(isStateOnly)).toEqual([true, true, false]);
    const [, , end] = told;
    expect(reasonOf(end!)).toBe('draining');
    expect(end!.response.error.message).toMatch(/check whether it took effect/);
    expect(counts.calls).toBe(1);
    expect(legacy.methods().filter((method) => method === 'notifications/cancelled')).toEqual([
      'notifications/cancelled',
    ]);
  });

  // Rule drain-17: A client that is known to end a call at the first round without a question is given none: its call is finished
  // within `drain.timeout`, or cancelled, and the client is told.
  test('is finished within drain.timeout for a client that ends the call when it is handed over', async () => {
    const { tools, finish } = worker();
    const legacy = await legacyServer({ tools, keepsEvents: true });
    const config = { drain: { delay: '0s', timeout: '20s' } };
    const [one] = await replicas(legacy, 1, { config });
    const waiting = work(one, {}, CLAUDE);
    await legacy.saw('tools/call');
    const gone = one.drain();
    await one.saw('gateway.draining');
    finish();
    expect(text(await waiting)).toBe('done');
    expect(await gone).toBe(0);
  });

  // Rule drain-17.
  test('is cancelled at the end of drain.timeout for such a client', async () => {
    const { tools } = worker();
    const legacy = await legacyServer({ tools, keepsEvents: true });
    const [one] = await replicas(legacy, 1, { config: CONFIG });
    const waiting = work(one, {}, CLAUDE);
    await legacy.saw('tools/call');
    expect(await one.drain()).toBe(0);
    const told = await waiting;
    expect(told.response.error.data).toMatchObject({ reason: 'draining', mayHaveActed: 'unknown' });
    await legacy.saw('notifications/cancelled');
  });
});

describe.each(MODERN_CLIENTS)('the client of the $name', ({ tags, prepare, call }) => {
  // Rules time-and-room-3, time-and-room-20.
  test(
    'answers a tool that works for longer than a connection may be held, and asks then',
    { tags: [...tags, 'long'], timeout: 60_000 },
    async () => {
      prepare();
      let calls = 0;
      const tools: LegacyServerOptions['tools'] = {
        work: async (asking) => {
          calls += 1;
          await sleep(14_000);
          return `Hello ${await askName(asking)}`;
        },
      };
      const legacy = await legacyServer({ tools });
      const [one] = await replicas(legacy, 1, { route: { calls: { maxHold: '1s' } } });
      expect(await call(one.url, 'work')).toBe('Hello Ada');
      expect(one.named('call.parked').map((line) => line['questions'])).toEqual([0, 0, 1]);
      expect(calls).toBe(1);
    },
  );
});
