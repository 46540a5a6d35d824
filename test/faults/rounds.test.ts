/** Rounds without a question, as replicas that stop give them, to clients of which nothing is known and to one that ends there. */
import { describe, expect, test } from 'vitest';
import { callTool, type Exchanged, type SendOptions } from '../fixtures/clients/modern-client.ts';
import {
  legacyServer,
  reasonOf,
  replicas,
  stateOf,
  text,
} from '../fixtures/gateways/replica-testbed.ts';
import type { LegacyServerOptions } from '../fixtures/servers/legacy-server.ts';

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
  // Rule drain-2.
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

  // Rule time-and-room-3.
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

  // Rule time-and-room-3.
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
