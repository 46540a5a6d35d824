/** Calls that their server runs as tasks, while owners die or leave: the result of a task can always be asked for again. */
import { describe, expect, test } from 'vitest';
import { accept, callTool } from '../../fixtures/clients/modern-client.ts';
import {
  answersOf,
  greeter,
  legacyServer,
  redisServer,
  replicas,
  slowGreeter,
  text,
} from '../../fixtures/gateways/replica-testbed.ts';
import {
  askName,
  type LegacyServer,
  type LegacyServerOptions,
} from '../../fixtures/servers/legacy-server.ts';

const TASKS = { greet: { taskSupport: 'required' } } as const;
const callsOf = (legacy: LegacyServer) =>
  legacy.methods().filter((method) => method === 'tools/call').length;

describe.each([true, false])('an owner that is killed (events kept: %s)', (keepsEvents) => {
  // Rule tasks-9: Another replica continues a parked call that runs as a task. The tool acts once.
  test('while the call is parked is replaced, and the tool has its effect once', async () => {
    const { tools, effects } = greeter();
    const legacy = await legacyServer({ tools, tasks: TASKS, keepsEvents });
    const [one, other] = await replicas(legacy, 2);
    const asked = await callTool(one.url, 'greet');
    await one.kill();
    const done = await callTool(other.url, 'greet', answersOf(asked, 'Ada'));
    expect(text(done)).toBe('Hello Ada');
    expect(await other.recoveries()).toEqual(['reattach']);
    expect(effects).toEqual(['Ada']);
    expect(callsOf(legacy)).toBe(1);
  });

  // Rule tasks-9.
  test('is replaced in a later round as well, and by a third replica', async () => {
    const tools: LegacyServerOptions['tools'] = {
      greet: async (call) => `${await askName(call, 'First?')} ${await askName(call, 'Second?')}`,
    };
    const legacy = await legacyServer({ tools, tasks: TASKS, keepsEvents });
    const [one, other, third] = await replicas(legacy, 3);
    const first = await callTool(one.url, 'greet');
    await one.kill();
    const second = await callTool(other.url, 'greet', answersOf(first, 'a'));
    await other.kill();
    const done = await callTool(third.url, 'greet', answersOf(second, 'b'));
    expect(text(done)).toBe('a b');
    expect(callsOf(legacy)).toBe(1);
  });

  // Rule tasks-9.
  test('while the answers are upstream is replaced, and the tool has its effect once', async () => {
    const { effects, tools, finish } = slowGreeter();
    const legacy = await legacyServer({ tools, tasks: TASKS, keepsEvents });
    const [one, other] = await replicas(legacy, 2);
    const asked = await callTool(one.url, 'greet');
    const retry = answersOf(asked, 'Ada');
    const cut = callTool(one.url, 'greet', retry).catch(() => null);
    await legacy.saw('response');
    await one.kill();
    await cut;
    const again = callTool(other.url, 'greet', retry);
    finish();
    expect(text(await again)).toBe('Hello Ada');
    expect(effects).toEqual(['Ada']);
  });
});

// Rule tasks-9.
test('a call that works on when its process stops is left to the next replica', async () => {
  const finishing = Promise.withResolvers<void>();
  const tools: LegacyServerOptions['tools'] = {
    greet: async () => finishing.promise.then(() => 'Hello'),
  };
  const legacy = await legacyServer({ tools, tasks: TASKS });
  const [one, other] = await replicas(legacy, 2, { config: { drain: { timeout: '100ms' } } });
  const called = callTool(one.url, 'greet');
  await legacy.saw('tasks/result');
  await one.drain();
  const { result } = (await called).response;
  expect(result.resultType).toBe('input_required');
  const retried = callTool(other.url, 'greet', { requestState: result.requestState });
  await legacy.saw('tasks/result', 2);
  finishing.resolve();
  expect(text(await retried)).toBe('Hello');
  expect(callsOf(legacy)).toBe(1);
});

// Rules tasks-5, tasks-9.
test('a call that another replica has continued is cancelled by tasks/cancel', async () => {
  const { tools } = slowGreeter();
  const legacy = await legacyServer({ tools, tasks: TASKS });
  const [one, other] = await replicas(legacy, 2);
  const asked = await callTool(one.url, 'greet');
  await one.kill();
  const leaving = new AbortController();
  const retried = callTool(other.url, 'greet', answersOf(asked, 'Ada'), { signal: leaving.signal });
  await legacy.saw('response');
  leaving.abort();
  await retried.catch(() => {});
  const { body } = await legacy.saw('tasks/result');
  expect((await legacy.saw('tasks/cancel')).body.params.taskId).toBe(body.params.taskId);
});

// Rule tasks-9.
test(
  'a retry that reaches another replica is relayed to the owner',
  { tags: ['redis'] },
  async () => {
    const { tools, effects } = greeter();
    const legacy = await legacyServer({ tools, tasks: TASKS });
    const redis = await redisServer();
    const [one, other] = await replicas(legacy, 2, { redis: redis.url, relay: true });
    const asked = await callTool(one.url, 'greet');
    const done = await callTool(other.url, 'greet', answersOf(asked, 'Ada'));
    expect(text(done)).toBe('Hello Ada');
    expect(await other.recoveries()).toEqual(['relay']);
    expect(effects).toEqual(['Ada']);
  },
);

// Rule tasks-9.
test('a parked task is left at once if the operator wants that, also without kept events', async () => {
  const { tools, effects } = greeter();
  const legacy = await legacyServer({ tools, tasks: TASKS });
  const route = { parking: { release: 'when-resumable' } };
  const [one] = await replicas(legacy, 1, { route });
  const asked = await callTool(one.url, 'greet');
  await one.saw('call.ended');
  const done = await callTool(one.url, 'greet', {
    requestState: asked.response.result.requestState,
    inputResponses: Object.fromEntries(
      Object.keys(asked.response.result.inputRequests).map((key) => [key, accept({ name: 'Ada' })]),
    ),
  });
  expect(text(done)).toBe('Hello Ada');
  expect(await one.recoveries()).toEqual(['reattach']);
  expect(effects).toEqual(['Ada']);
});
