/** How long a connection, a stream and memory are held for a call, where the operator limits it. */
import { describe, expect, test } from 'vitest';
import {
  answersOf,
  greeter,
  legacyServer,
  replica,
  replicas,
  stateOf,
  text,
} from '../fixtures/gateways/replica-testbed.ts';
import type { LegacyServerOptions } from '../fixtures/servers/legacy-server.ts';
import { callTool, type Exchanged } from '../fixtures/clients/modern-client.ts';
import { connectModernClient } from '../fixtures/clients/official-client.ts';
import type { GatewayProcess } from '../fixtures/gateways/gateway-process.ts';
import { startEverything } from '../fixtures/processes.ts';
import { stopAfterTest } from '../fixtures/stop-after-test.ts';

describe('a call that takes longer than a connection may be held', () => {
  const route = { calls: { maxHold: '1s' } };

  // Rule time-and-room-3 (MRTR, "Server Requirements" 6; "Client Requirements" 1): With `calls.maxHold`, a client
  // that waits longer gets a pointer and empty `inputRequests`: at most twice in a call, and never if it is known to
  // fail then.
  test('gets state alone, and the next request attaches to it again', async () => {
    const finishing = Promise.withResolvers<void>();
    let calls = 0;
    const tools: LegacyServerOptions['tools'] = {
      work: async () => {
        calls += 1;
        await finishing.promise;
        return 'done';
      },
    };
    const legacy = await legacyServer({ tools });
    const [one, other] = await replicas(legacy, 2, { route });
    const held = await callTool(one.url, 'work');
    expect(held.response.result.resultType).toBe('input_required');
    expect(held.response.result.inputRequests).toEqual({});
    const again = await callTool(other.url, 'work', { requestState: stateOf(held) });
    expect(again.response.result.resultType).toBe('input_required');
    const last = callTool(one.url, 'work', { requestState: stateOf(again) });
    finishing.resolve();
    expect(text(await last)).toBe('done');
    expect(calls).toBe(1);
  });

  // Rule time-and-room-3.
  test('comes through for a client that knows nothing of it', async () => {
    let finish = () => {};
    const tools: LegacyServerOptions['tools'] = {
      work: () => new Promise((resolve) => (finish = () => resolve('done'))),
    };
    const legacy = await legacyServer({ tools });
    const [gateway] = await replicas(legacy, 1, { route });
    const client = await connectModernClient(gateway.url, () => ({}));
    const called = client.callTool({ name: 'work', arguments: {} });
    await gateway.saw('call.parked');
    finish();
    expect((await called).content).toEqual([{ type: 'text', text: 'done' }]);
    await client.close();
  });
});

describe('a parked call that is released', () => {
  const route = { parking: { release: 'when-resumable' } };

  // Rule time-and-room-8: With `parking.release: when-resumable`, a parked call whose server keeps its events holds
  // no connection. Any replica resumes it with its answer.
  test('holds nothing here, and is resumed when its answer comes, on any replica', async () => {
    const { effects, tools } = greeter();
    const legacy = await legacyServer({ tools, keepsEvents: true });
    const [one, other] = await replicas(legacy, 2, { route });
    const [first, second] = [await callTool(one.url, 'greet'), await callTool(one.url, 'greet')];
    await one.saw('call.ended', 2);
    expect(await one.metric('mrtr_gateway_parked_calls{route="mcp"}')).toBe(0);
    expect(legacy.sessions).toBe(1);
    const released = () => one.metric('mrtr_gateway_released_calls{route="mcp"}');
    expect(await released()).toBe(2);
    const here = await callTool(one.url, 'greet', answersOf(first, 'Ada'));
    expect(await released()).toBe(1);
    const elsewhere = await callTool(other.url, 'greet', answersOf(second, 'Eve'));
    expect(await released()).toBe(0);
    expect([here, elsewhere].map(text)).toEqual(['Hello Ada', 'Hello Eve']);
    expect(await one.saw('call.resumed', 2)).toMatchObject(
      Array(2).fill({ recoveredBy: 'reattach' }),
    );
    expect(await other.saw('call.resumed')).toMatchObject([{ recoveredBy: 'relay' }]);
    expect(effects).toEqual(['Ada', 'Eve']);
  });

  // Rule time-and-room-15: Without Redis, the process that released a call resumes it.
  test('is resumed once by the replica that released it, if its retry comes to two others at once', async () => {
    const { effects, tools } = greeter();
    const legacy = await legacyServer({ tools, keepsEvents: true });
    const [one, ...others] = await replicas(legacy, 3, { route });
    const asked = await callTool(one.url, 'greet');
    await one.saw('call.ended');
    const retries = others.map(({ url }) => callTool(url, 'greet', answersOf(asked, 'Ada')));
    expect((await Promise.all(retries)).map(text)).toEqual(['Hello Ada', 'Hello Ada']);
    expect(effects).toEqual(['Ada']);
    expect(legacy.methods().filter((method) => method === 'response')).toHaveLength(1);
    for (const other of others) {
      expect(await other.saw('call.resumed')).toMatchObject([{ recoveredBy: 'relay' }]);
    }
  });

  // Rule time-and-room-8.
  test('is not released where the server keeps no events', async () => {
    const { tools } = greeter();
    const [one] = await replicas(await legacyServer({ tools }), 1, { route });
    const asked = await callTool(one.url, 'greet');
    expect(await one.metric('mrtr_gateway_parked_calls{route="mcp"}')).toBe(1);
    expect(text(await callTool(one.url, 'greet', answersOf(asked, 'Ada')))).toBe('Hello Ada');
    expect(await one.recoveries()).toEqual(['here']);
  });
});

// Rule time-and-room-12.
test(
  'with `parking.release: auto` a call stays whose server sends nothing new on resumed streams, as server-everything',
  { tags: ['long'] },
  async () => {
    const route = { parking: { release: 'auto' } };
    const server = await startEverything('streamableHttp');
    stopAfterTest(() => server.stop());
    const upstream = { url: `${server.origin}/mcp` };
    const [one, other] = [await replica(upstream, { route }), await replica(upstream, { route })];
    // Otherwise the server asks for roots as well, on another stream.
    const capabilities = { elicitation: { form: {} } };
    const trigger = ({ url }: GatewayProcess, more = {}) =>
      callTool(url, 'trigger-elicitation-request', more, { capabilities });
    const asked = await trigger(one);
    const decline = ({ response }: Exchanged) => ({
      requestState: response.result.requestState,
      inputResponses: Object.fromEntries(
        Object.keys(response.result.inputRequests).map((key) => [key, { action: 'decline' }]),
      ),
    });
    await one.kill();
    const late = await trigger(other, decline(asked));
    expect(late.response.result.content[0].text).toContain('declined');
    const held = await trigger(other);
    expect(await other.metric('mrtr_gateway_parked_calls{route="mcp"}')).toBe(1);
    const here = await trigger(other, decline(held));
    expect(here.response.result.content[0].text).toContain('declined');
    expect(await other.recoveries()).toEqual(['reattach', 'here']);
    expect(other.named('upstream.resumption')).toEqual([]);
  },
);

// Rule laws-2.
test(
  'when all calls have ended, no connection and no session is left',
  { tags: ['long'] },
  async () => {
    const { tools } = greeter();
    const legacy = await legacyServer({ tools, keepsEvents: true });
    // The session of a home would stay for the next call.
    const route = { sessions: { scope: 'call' } };
    const [one, other] = await replicas(legacy, 2, { route });
    const asked = await Promise.all(Array.from({ length: 20 }, () => callTool(one.url, 'greet')));
    await Promise.all(
      asked.map((each, index) =>
        callTool([one, other][index % 2]!.url, 'greet', answersOf(each, `${index}`)),
      ),
    );
    await one.saw('call.ended', 20);
    await legacy.isLeft();
    expect(await one.metric('mrtr_gateway_sessions{route="mcp"}')).toBe(0);
    expect(await one.metric('mrtr_gateway_parked_calls{route="mcp"}')).toBe(0);
  },
);
