/** The legacy server, or the way to it, fails while a call is parked or at work. */
import { describe, expect, test } from 'vitest';
import {
  answersOf,
  greeter,
  legacyServer,
  reasonOf,
  replicas,
  slowGreeter,
  text,
} from '../../fixtures/gateways/replica-testbed.ts';
import {
  askName,
  LegacyServer,
  type LegacyServerOptions,
} from '../../fixtures/servers/legacy-server.ts';
import { callTool } from '../../fixtures/clients/modern-client.ts';

const callsOf = (legacy: LegacyServer) =>
  legacy.methods().filter((method) => method === 'tools/call').length;

describe('a stream that breaks while its call is parked', () => {
  // Rule resumption-1.
  test('is resumed, where the server keeps its events', async () => {
    const { effects, tools } = greeter();
    const legacy = await legacyServer({ tools, keepsEvents: true });
    const [gateway] = await replicas(legacy, 1);
    const asked = await callTool(gateway.url, 'greet');
    legacy.cut();
    const done = await callTool(gateway.url, 'greet', answersOf(asked, 'Ada'));
    expect(text(done)).toBe('Hello Ada');
    expect(effects).toEqual(['Ada']);
    expect(callsOf(legacy)).toBe(1);
  });

  // Rule failures-6.
  test('ends the call where the server keeps nothing, and the retry is told so', async () => {
    const { effects, tools } = greeter();
    const legacy = await legacyServer({ tools });
    const [gateway] = await replicas(legacy, 1);
    const asked = await callTool(gateway.url, 'greet');
    legacy.cut();
    const done = await callTool(gateway.url, 'greet', answersOf(asked, 'Ada'));
    expect(reasonOf(done)).toBe('call_lost');
    expect(effects).toEqual([]);
  });

  test('and that of a tool that may be replayed is replayed', async () => {
    const { effects, tools } = greeter();
    const legacy = await legacyServer({ tools });
    const route = { continuation: { replay: { tools: ['greet'] } } };
    const [gateway] = await replicas(legacy, 1, { route });
    const asked = await callTool(gateway.url, 'greet');
    legacy.cut();
    const done = await callTool(gateway.url, 'greet', answersOf(asked, 'Ada'));
    expect(text(done)).toBe('Hello Ada');
    expect(await gateway.recoveries()).toEqual(['replay']);
    expect(effects).toEqual(['Ada']);
  });
});

// Rule resumption-1.
test('a stream that breaks after the answers is resumed, and the tool has its effect once', async () => {
  const { effects, tools, finish } = slowGreeter();
  const legacy = await legacyServer({ tools, keepsEvents: true });
  const [gateway] = await replicas(legacy, 1);
  const asked = await callTool(gateway.url, 'greet');
  const retried = callTool(gateway.url, 'greet', answersOf(asked, 'Ada'));
  await legacy.saw('response');
  legacy.cut();
  finish();
  expect(text(await retried)).toBe('Hello Ada');
  expect(effects).toEqual(['Ada']);
});

// Rule resumption-1.
test('a server that closes its stream on purpose, to be polled, is polled', async () => {
  const tools: LegacyServerOptions['tools'] = {
    greet: async (call) => {
      const name = askName(call);
      call.extra.closeSSEStream?.();
      const given = await name;
      call.extra.closeSSEStream?.();
      return `Hello ${given}`;
    },
  };
  const legacy = await legacyServer({ tools, keepsEvents: true });
  const [gateway] = await replicas(legacy, 1);
  const asked = await callTool(gateway.url, 'greet');
  expect(asked.response.result.resultType).toBe('input_required');
  const done = await callTool(gateway.url, 'greet', answersOf(asked, 'Ada'));
  expect(text(done)).toBe('Hello Ada');
  expect(callsOf(legacy)).toBe(1);
});

describe('a server that is restarted', () => {
  // Rule expired-4.
  test('has lost the parked call, which the retry is told; the next call works', async () => {
    const { effects, tools } = greeter();
    const first = await LegacyServer.start({ tools });
    const { port } = first;
    const [gateway] = await replicas(first, 1);
    const asked = await callTool(gateway.url, 'greet');
    await first.stop();
    await legacyServer({ tools, port });
    const lost = await callTool(gateway.url, 'greet', answersOf(asked, 'Ada'));
    expect(reasonOf(lost)).toBe('call_lost');
    const again = await callTool(gateway.url, 'greet');
    const done = await callTool(gateway.url, 'greet', answersOf(again, 'Eve'));
    expect(text(done)).toBe('Hello Eve');
    expect(effects).toEqual(['Eve']);
  });

  // Rule replay-1.
  test('gets the parked call again, where the tool may be replayed', async () => {
    const { effects, tools } = greeter();
    const first = await LegacyServer.start({ tools });
    const { port } = first;
    const route = { continuation: { replay: { tools: ['greet'] } } };
    const [gateway] = await replicas(first, 1, { route });
    const asked = await callTool(gateway.url, 'greet');
    await first.stop();
    const second = await legacyServer({ tools, port });
    const done = await callTool(gateway.url, 'greet', answersOf(asked, 'Ada'));
    expect(text(done)).toBe('Hello Ada');
    expect([callsOf(second), effects]).toEqual([1, ['Ada']]);
  });
});

// Rule expired-4.
test('a parked call is lost if the server forgets its session, and the retry is told so', async () => {
  const { effects, tools } = greeter();
  const legacy = await legacyServer({ tools, keepsEvents: true });
  const [gateway] = await replicas(legacy, 1);
  const asked = await callTool(gateway.url, 'greet');
  await legacy.forget();
  const done = await callTool(gateway.url, 'greet', answersOf(asked, 'Ada'));
  expect(reasonOf(done)).toBe('call_lost');
  expect(effects).toEqual([]);
});

// Rule settled-2: If the server gave up with an error, a tool that can be replayed is called again with the answer.
test('a server that stopped waiting is called again, where the tool may be replayed, and the answer counts', async () => {
  let patience = new AbortController();
  const tools: LegacyServerOptions['tools'] = {
    greet: async (call) => `Hello ${await askName(call, 'Your name?', 'name', patience.signal)}`,
  };
  const legacy = await legacyServer({ tools });
  const route = { continuation: { replay: { tools: ['greet'] } } };
  const [gateway] = await replicas(legacy, 1, { route });
  const asked = await callTool(gateway.url, 'greet');
  patience.abort();
  patience = new AbortController();
  await gateway.saw('call.result_ready');
  const done = await callTool(gateway.url, 'greet', answersOf(asked, 'Ada'));
  expect(text(done)).toBe('Hello Ada');
  expect(await gateway.recoveries()).toEqual(['replay']);
});
