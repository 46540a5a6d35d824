/**
 * Tasks of several gateways that share Redis: any of them serves a task, and one goes on when the other is killed.
 * @module-tag redis
 * @module-tag long
 */
import { describe, expect, test } from 'vitest';
import { accept } from '../../fixtures/clients/modern-client.ts';
import { aboutTask, callForTask, untilTask } from '../../fixtures/clients/task-client.ts';
import type { GatewayProcess } from '../../fixtures/gateways/gateway-process.ts';
import {
  greeter,
  legacyServer,
  redisServer,
  replicas,
  slowGreeter,
} from '../../fixtures/gateways/replica-testbed.ts';
import { askName, type LegacyServerOptions } from '../../fixtures/servers/legacy-server.ts';

const REQUIRED = { greet: { taskSupport: 'required' } } as const;

/** Two gateways that share Redis in front of one server. */
async function fleet(options: LegacyServerOptions, tasks: object, route: object = {}) {
  const [legacy, redis] = await Promise.all([legacyServer(options), redisServer()]);
  const shared = { redis: redis.url, route: { tasks, ...route } };
  const [one, other] = await replicas(legacy, 2, shared);
  return { legacy, one, other };
}

async function taskAt({ url }: GatewayProcess): Promise<string> {
  const { response } = await callForTask(url, 'greet');
  expect(response.result).toMatchObject({ resultType: 'task' });
  return response.result.taskId;
}

async function answer({ url }: GatewayProcess, taskId: string, name: string): Promise<void> {
  const asked = await untilTask(url, taskId, ['input_required']);
  const keys = Object.keys(asked.inputRequests);
  const inputResponses = Object.fromEntries(keys.map((key) => [key, accept({ name })]));
  const { response } = await aboutTask(url, 'update', taskId, { inputResponses });
  expect(response.error).toBeUndefined();
}

const resultAt = async ({ url }: GatewayProcess, taskId: string) => {
  const done = await untilTask(url, taskId, ['completed', 'failed']);
  return done.result?.content[0].text ?? done.error;
};

// Rule shared-1: Any replica serves a task: `tasks/get` from Redis, everything else in one hop. The tool acts once.
test('a task is served by a replica that does not have it', async () => {
  const { tools, effects } = greeter();
  const { one, other } = await fleet({ tools }, { promote: 'interactive' });
  const taskId = await taskAt(one);
  await answer(other, taskId, 'Ada');
  expect(await resultAt(other, taskId)).toBe('Hello Ada');
  expect(await resultAt(one, taskId)).toBe('Hello Ada');
  expect(effects).toEqual(['Ada']);
  expect(other.named('task.taken_over')).toEqual([]);
});

test('a task is cancelled through another replica', async () => {
  const { tools } = greeter();
  const { legacy, one, other } = await fleet({ tools }, { promote: 'interactive' });
  const taskId = await taskAt(one);
  expect((await aboutTask(other.url, 'cancel', taskId)).response.result).toBeDefined();
  await legacy.saw('notifications/cancelled');
  expect((await untilTask(other.url, taskId, ['cancelled'])).status).toBe('cancelled');
});

describe.each([
  ['whose server keeps events', { keepsEvents: true }],
  ['whose server runs it as a task', { tasks: REQUIRED }],
] as const)('a task %s', (_, server) => {
  // Rule shared-2: If a replica dies or drains, another one continues its tasks, if the stream can be resumed or the
  // server runs a task.
  test('goes on after its owner was killed while it asked', async () => {
    const { tools, effects } = greeter();
    const { one, other } = await fleet({ tools, ...server }, { promote: 'interactive' });
    const taskId = await taskAt(one);
    await untilTask(one.url, taskId, ['input_required']);
    await one.kill();
    await answer(other, taskId, 'Ada');
    expect(await resultAt(other, taskId)).toBe('Hello Ada');
    expect(effects).toEqual(['Ada']);
    expect(other.named('task.taken_over')).toHaveLength(1);
  });

  // Rule shared-2.
  test('goes on after its owner was killed while the server worked', async () => {
    const { tools, effects, finish } = slowGreeter();
    const { one, other } = await fleet({ tools, ...server }, { promote: 'interactive' });
    const taskId = await taskAt(one);
    await answer(one, taskId, 'Ada');
    await untilTask(one.url, taskId, ['working']);
    await one.kill();
    const result = resultAt(other, taskId);
    await other.saw('task.taken_over');
    finish();
    expect(await result).toBe('Hello Ada');
    expect(effects).toEqual(['Ada']);
  });

  // Rule shared-2.
  test('goes on after its owner was drained', async () => {
    const { tools, effects } = greeter();
    const { one, other } = await fleet({ tools, ...server }, { promote: 'interactive' });
    const taskId = await taskAt(one);
    await one.drain();
    await answer(other, taskId, 'Ada');
    expect(await resultAt(other, taskId)).toBe('Hello Ada');
    expect(effects).toEqual(['Ada']);
  });
});

// Rule shared-2.
test('a task goes on after its owner was killed where replicas relay through Redis', async () => {
  const { tools, effects } = greeter();
  const [legacy, redis] = await Promise.all([
    legacyServer({ tools, keepsEvents: true }),
    redisServer(),
  ]);
  const config = { relay: { via: 'redis' } };
  const route = { tasks: { promote: 'interactive' } };
  const [one, other] = await replicas(legacy, 2, { redis: redis.url, relay: false, config, route });
  const taskId = await taskAt(one);
  await one.kill();
  await answer(other, taskId, 'Ada');
  expect(await resultAt(other, taskId)).toBe('Hello Ada');
  expect(effects).toEqual(['Ada']);
});

// Rule shared-2.
test('a slow call that never asked goes on after its owner was killed', async () => {
  const finishing = Promise.withResolvers<void>();
  const tools: LegacyServerOptions['tools'] = {
    greet: async () => (await finishing.promise, 'done'),
  };
  const { one, other } = await fleet({ tools, keepsEvents: true }, { after: '500ms' });
  const taskId = await taskAt(one);
  await one.kill();
  const result = resultAt(other, taskId);
  await other.saw('task.taken_over');
  finishing.resolve();
  expect(await result).toBe('done');
});

// Rule shared-21.
test('a task whose result is too large for Redis fails for all, and the replica that had it is not needed for that', async () => {
  const greet = async () => 'x'.repeat(50 * 1024 * 1024);
  const [legacy, redis] = await Promise.all([legacyServer({ tools: { greet } }), redisServer()]);
  const upstream = { url: legacy.url, maxEvent: '64MiB' };
  const route = { upstream, tasks: { promote: 'always' } };
  const [one, other] = await replicas(legacy, 2, { redis: redis.url, route });
  const taskId = await taskAt(one);
  const failed = await resultAt(one, taskId);
  expect(failed).toMatchObject({
    code: -32603,
    message: expect.stringContaining('more than a task that replicas share can hold'),
  });
  expect(await resultAt(other, taskId)).toEqual(failed);
  await one.kill();
  expect(await resultAt(other, taskId)).toEqual(failed);
});

// Rule shared-4: A task that cannot be continued completes with `isError: true` and `call_lost`, or is replayed if
// the operator allows that.
test('a task that nothing can go on with fails with a clear error', async () => {
  const tools: LegacyServerOptions['tools'] = { greet: async (call) => askName(call) };
  const { one, other } = await fleet({ tools }, { promote: 'interactive' });
  const taskId = await taskAt(one);
  await one.kill();
  await answer(other, taskId, 'Ada');
  expect(await untilTask(other.url, taskId, ['failed', 'completed'])).toMatchObject({
    status: 'completed',
    result: { isError: true, _meta: { 'mrtr-gateway/reason': 'call_lost' } },
  });
});
