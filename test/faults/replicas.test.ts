/**
 * Several real gateway processes in front of one legacy server: retries land where they should not,
 * owners die or freeze. For each fault: what the client gets, which recovery served it, and how often the
 * tool had its effect.
 */
import { describe, expect, test } from 'vitest';
import {
  answersOf,
  greeter,
  legacyServer,
  replica,
  replicas,
  roundRobin,
  slowGreeter,
  text,
} from '../fixtures/gateways/replica-testbed.ts';
import { askName, type LegacyServerOptions } from '../fixtures/servers/legacy-server.ts';
import { callTool } from '../fixtures/clients/modern-client.ts';
import { connectModernClient } from '../fixtures/clients/official-client.ts';
import { stopAfterTest } from '../fixtures/stop-after-test.ts';

describe('an owner that is killed while the call is parked', () => {
  // Rule reattach-1 (2025-11-25 transports, "Resumability and Redelivery"): If the server keeps its events, any
  // replica continues the call (`continuation.reattach`, on by default). The tool acts once.
  test('is replaced, where the server keeps its events: the call is read on', async () => {
    const { tools, effects } = greeter();
    const legacy = await legacyServer({ tools, keepsEvents: true });
    const [one, other] = await replicas(legacy, 2);
    const asked = await callTool(one.url, 'greet');
    await one.kill();
    const done = await callTool(other.url, 'greet', answersOf(asked, 'Ada'));
    expect(text(done)).toBe('Hello Ada');
    expect(await other.recoveries()).toEqual(['reattach']);
    expect(effects).toEqual(['Ada']);
    expect(legacy.methods().filter((method) => method === 'tools/call')).toHaveLength(1);
  });

  // Rule reattach-1.
  test('is replaced in a later round as well, and by a third replica', async () => {
    const tools: LegacyServerOptions['tools'] = {
      two: async (call) => `${await askName(call, 'First?')} ${await askName(call, 'Second?')}`,
    };
    const legacy = await legacyServer({ tools, keepsEvents: true });
    const [one, other, third] = await replicas(legacy, 3);
    const first = await callTool(one.url, 'two');
    await one.kill();
    const second = await callTool(other.url, 'two', answersOf(first, 'a'));
    expect(Object.keys(second.response.result.inputRequests)).toHaveLength(1);
    await other.kill();
    const done = await callTool(third.url, 'two', answersOf(second, 'b'));
    expect(text(done)).toBe('a b');
  });

  // Rules reattach-1, shown-4.
  test('is replaced with the questions that its client has not been shown yet', async () => {
    const tools: LegacyServerOptions['tools'] = {
      many: async (call) => {
        const names = Array.from({ length: 20 }, (_, number) => askName(call, `Name ${number}?`));
        return (await Promise.all(names)).join('');
      },
    };
    const legacy = await legacyServer({ tools, keepsEvents: true });
    const [one, other] = await replicas(legacy, 2);
    const first = await callTool(one.url, 'many');
    expect(Object.keys(first.response.result.inputRequests)).toHaveLength(16);
    await one.kill();
    const second = await callTool(other.url, 'many', answersOf(first, 'a'));
    expect(Object.keys(second.response.result.inputRequests)).toHaveLength(4);
    const done = await callTool(other.url, 'many', answersOf(second, 'b'));
    expect(text(done)).toBe(`${'a'.repeat(16)}bbbb`);
    expect(await other.recoveries()).toContain('reattach');
  });

  test('is told of in a clear error, where the server keeps nothing', async () => {
    const { tools, effects } = greeter();
    const [one, other] = await replicas(await legacyServer({ tools }), 2);
    const asked = await callTool(one.url, 'greet');
    await one.kill();
    const done = await callTool(other.url, 'greet', answersOf(asked, 'Ada'));
    expect(done.response.result).toMatchObject({
      resultType: 'complete',
      isError: true,
      _meta: { 'mrtr-gateway/reason': 'call_lost', 'mrtr-gateway/mayHaveActed': 'yes' },
    });
    expect(effects).toEqual([]);
  });

  // Rule replay-1 (tools, "Tool"): Only tools in `continuation.replay.tools` are replayed or, with
  // `continuation.replay.annotated`, those that are read-only or idempotent.
  // Rule replay-3.
  test('leaves a call to be replayed, where the operator allows that for the tool', async () => {
    const started: string[] = [];
    const tools: LegacyServerOptions['tools'] = {
      two: async (call) => {
        started.push('started');
        return `${await askName(call, 'First?')} ${await askName(call, 'Second?')}`;
      },
    };
    const route = { continuation: { replay: { tools: ['two'] } } };
    const [one, other] = await replicas(await legacyServer({ tools }), 2, { route });
    const first = await callTool(one.url, 'two');
    const second = await callTool(one.url, 'two', answersOf(first, 'a'));
    await one.kill();
    const done = await callTool(other.url, 'two', answersOf(second, 'b'));
    expect(text(done), 'no question was asked twice').toBe('a b');
    expect(await other.recoveries()).toEqual(['replay']);
    expect(started).toHaveLength(2);
  });

  // Rule replay-3: Questions that the new call repeats get the earlier answers, in order. Others are asked.
  test('and a question that differs in the replay is asked', async () => {
    let calls = 0;
    const tools: LegacyServerOptions['tools'] = {
      fickle: async (call) => {
        calls += 1;
        return askName(call, `Name, for the ${calls}. time?`);
      },
    };
    const route = { continuation: { replay: { tools: ['fickle'] } } };
    const [one, other] = await replicas(await legacyServer({ tools }), 2, { route });
    const asked = await callTool(one.url, 'fickle');
    await one.kill();
    const again = await callTool(other.url, 'fickle', answersOf(asked, 'Ada'));
    const [question] = Object.values<{ params: { message: string } }>(
      again.response.result.inputRequests,
    );
    expect(question?.params.message).toBe('Name, for the 2. time?');
    const done = await callTool(other.url, 'fickle', answersOf(again, 'Eve'));
    expect(text(done)).toBe('Eve');
  });
});

describe('an owner that is killed while the answers are upstream', () => {
  // Rule reattach-1.
  test('is replaced, and the tool has its effect once', async () => {
    const { effects, tools, finish } = slowGreeter();
    const legacy = await legacyServer({ tools, keepsEvents: true });
    const [one, other] = await replicas(legacy, 2);
    const asked = await callTool(one.url, 'greet');
    const answers = answersOf(asked, 'Ada');
    const lost = callTool(one.url, 'greet', answers).catch(() => 'lost');
    await legacy.saw('response');
    await one.kill();
    expect(await lost).toBe('lost');
    const retried = callTool(other.url, 'greet', answers);
    await other.saw('call.resumed');
    finish();
    expect(text(await retried)).toBe('Hello Ada');
    expect(effects).toEqual(['Ada']);
  });
});

test('fifty parked calls behind a round-robin front all complete, with a replica restarted in the middle', async () => {
  const { effects, tools } = greeter();
  const legacy = await legacyServer({ tools, keepsEvents: true });
  const [one, other] = await replicas(legacy, 2);
  const front = await roundRobin([one, other]);
  const mayAnswer = Promise.withResolvers<void>();
  let asked = 0;
  const allAsked = Promise.withResolvers<void>();
  const calls = Array.from({ length: 50 }, async (_, who) => {
    const client = await connectModernClient(front.url, async () => {
      asked += 1;
      if (asked === 50) allAsked.resolve();
      await mayAnswer.promise;
      return { name: `caller ${who}` };
    });
    stopAfterTest(() => client.close());
    return client.callTool({ name: 'greet', arguments: {} });
  });
  await allAsked.promise;
  const fresh = await replica(legacy);
  front.use([other.url, fresh.url]);
  await one.drain();
  mayAnswer.resolve();
  const results = await Promise.all(calls);
  const expected = Array.from({ length: 50 }, (_, who) => `Hello caller ${who}`);
  expect(results.map(({ content }) => (content as { text: string }[])[0]?.text)).toEqual(expected);
  expect(effects).toHaveLength(50);
  // Until here an idle session may wait for the next call.
  await Promise.all([other.drain(), fresh.drain()]);
  await legacy.isLeft();
});

// Rule replay-2.
test('without Redis a call that has ended is not made again where it was replayed', async () => {
  const { effects, tools } = greeter();
  const legacy = await legacyServer({ tools });
  const continuation = { replay: { tools: ['greet'] } };
  const route = { continuation };
  const [one, other] = await replicas(legacy, 2, { route });
  const asked = await callTool(one.url, 'greet');
  await one.kill();
  expect(text(await callTool(other.url, 'greet', answersOf(asked, 'Ada')))).toBe('Hello Ada');
  const late = await callTool(other.url, 'greet', answersOf(asked, 'Eve'));
  expect(late.response.error.data).toEqual({
    reason: 'invalid_request_state',
    mayHaveActed: 'unknown',
    help: 'mrtr-gateway/docs/operate/errors.md#invalid_request_state',
  });
  expect(effects).toEqual(['Ada']);
});
