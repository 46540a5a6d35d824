/**
 * Tasks where the store is another one than usual: that of the workers of one gateway, or a Redis that also relays, or one
 * that is unreachable for a while. And tasks whose call is lost.
 * @module-tag redis
 * @module-tag long
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { accept, send } from '../../fixtures/clients/modern-client.ts';
import {
  aboutTask,
  callForTask,
  listenToTask,
  TASK_CLIENT,
  untilTask,
} from '../../fixtures/clients/task-client.ts';
import type { GatewayProcess } from '../../fixtures/gateways/gateway-process.ts';
import {
  greeter,
  legacyServer,
  redisServer,
  replica,
  replicas,
  slowGreeter,
  whileRetryable,
} from '../../fixtures/gateways/replica-testbed.ts';
import { Severable } from '../../fixtures/network/flaky-proxy.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';
import { askName, type LegacyServerOptions } from '../../fixtures/servers/legacy-server.ts';
import { overseer } from '../../fixtures/redis/redis-topologies.ts';

const TASKS = { promote: 'interactive' };
/** How long what a replica writes is on its way to Redis. */
const SLOW_STORE_MS = 300;

async function taskAt(url: string): Promise<string> {
  const { response } = await callForTask(url, 'greet');
  expect(response.result).toMatchObject({ resultType: 'task' });
  return response.result.taskId;
}

async function answer(url: string, taskId: string, name: string) {
  const asked = await untilTask(url, taskId, ['input_required']);
  const keys = Object.keys(asked.inputRequests);
  const inputResponses = Object.fromEntries(keys.map((key) => [key, accept({ name })]));
  return whileRetryable(() => aboutTask(url, 'update', taskId, { inputResponses }));
}

async function resultAt(url: string, taskId: string): Promise<unknown> {
  const done = await untilTask(url, taskId, ['completed', 'failed']);
  return done.result?.content[0].text ?? done.error;
}

// Rule shared-6: The workers of one gateway share their tasks without Redis.
test('workers without Redis share their tasks', async () => {
  const { tools, effects } = greeter();
  const legacy = await legacyServer({ tools });
  const { url } = await replica(legacy, {
    relay: false,
    config: { workers: 2 },
    route: { tasks: TASKS },
  });
  const ids = await Promise.all(Array.from({ length: 6 }, () => taskAt(url)));
  for (const id of ids) await answer(url, id, 'Ada');
  for (const id of ids) expect(await resultAt(url, id)).toBe('Hello Ada');
  expect(effects).toHaveLength(ids.length);
});

// Rule shared-1.
test('replicas that relay through Redis share their tasks', async () => {
  const { tools, effects } = greeter();
  const [legacy, redis] = await Promise.all([legacyServer({ tools }), redisServer()]);
  const [one, other] = await replicas(legacy, 2, {
    redis: redis.url,
    relay: false,
    config: { relay: { via: 'redis' } },
    route: { tasks: TASKS },
  });
  const taskId = await taskAt(one.url);
  await answer(other.url, taskId, 'Ada');
  expect(await resultAt(other.url, taskId)).toBe('Hello Ada');
  expect(effects).toEqual(['Ada']);
  const cancelled = await taskAt(one.url);
  expect((await aboutTask(other.url, 'cancel', cancelled)).response.result).toBeDefined();
  await legacy.saw('notifications/cancelled');
});

// Rule shared-8: While Redis is unavailable, or has lost its data, other replicas reply with
// `coordination_unavailable`, and no call becomes a task.
test('a task outlives the absence of Redis', async () => {
  const { tools, effects, finish } = slowGreeter();
  const [legacy, redis] = await Promise.all([legacyServer({ tools }), redisServer()]);
  const [one, other] = await replicas(legacy, 2, { redis: redis.url, route: { tasks: TASKS } });
  const taskId = await taskAt(one.url);
  await untilTask(other.url, taskId, ['input_required']);
  redis.pause();
  const refused = await aboutTask(other.url, 'get', taskId);
  expect(refused.response.error.data).toMatchObject({
    reason: 'coordination_unavailable',
    retryable: true,
  });
  await answer(one.url, taskId, 'Ada');
  const asked = await callForTask(one.url, 'greet');
  expect(asked.response.result.resultType).toBe('input_required');
  redis.resume();
  finish();
  await whileRetryable(() => aboutTask(other.url, 'get', taskId));
  expect(await resultAt(other.url, taskId)).toBe('Hello Ada');
  expect(effects).toEqual(['Ada']);
});

// Rule shared-8.
test('a listener at another replica is told how a task ended, although Redis was unreachable meanwhile', async () => {
  const { tools } = greeter();
  const [legacy, redis] = await Promise.all([legacyServer({ tools }), redisServer()]);
  const [one, other] = await replicas(legacy, 2, { redis: redis.url, route: { tasks: TASKS } });
  const taskId = await taskAt(one.url);
  const listener = listenToTask(other.url, taskId);
  await listener.asked;
  redis.pause();
  // The replica of the listener looks at the task in the meantime.
  await sleep(3_000);
  redis.resume();
  await answer(one.url, taskId, 'Ada');
  expect(await listener.ended).toMatchObject({ taskId, result: { content: [{}] } });
  await listener.leave();
});

// Rule shared-8.
test('a task outlives the loss of all data in Redis', async () => {
  const { tools, effects } = greeter();
  const [legacy, redis] = await Promise.all([legacyServer({ tools }), redisServer()]);
  const [one, other] = await replicas(legacy, 2, { redis: redis.url, route: { tasks: TASKS } });
  const taskId = await taskAt(one.url);
  const listener = listenToTask(other.url, taskId);
  await listener.asked;
  await redis.restart();
  const found = await whileRetryable(() => aboutTask(other.url, 'get', taskId));
  expect(found.response.result).toMatchObject({ status: 'input_required' });
  await answer(other.url, taskId, 'Ada');
  expect(await resultAt(other.url, taskId)).toBe('Hello Ada');
  expect(await listener.ended).toMatchObject({ taskId, result: { content: [{}] } });
  expect(effects).toEqual(['Ada']);
  await listener.leave();
});

// Rule shared-13: A replica that was frozen, or cut off from Redis, serves a task as the one that took it over.
test('a replica whose task was taken over while it was frozen serves the task of the other one', async () => {
  const { tools, effects } = greeter();
  const [legacy, redis] = await Promise.all([
    legacyServer({ tools, keepsEvents: true }),
    redisServer(),
  ]);
  const [one, other] = await replicas(legacy, 2, { redis: redis.url, route: { tasks: TASKS } });
  const taskId = await taskAt(one.url);
  const listener = listenToTask(one.url, taskId);
  await listener.asked;
  one.freeze();
  await answer(other.url, taskId, 'Ada');
  expect(await resultAt(other.url, taskId)).toBe('Hello Ada');
  one.thaw();
  expect(await listener.ended).toMatchObject({ taskId, result: { content: [{}] } });
  expect(await resultAt(one.url, taskId)).toBe('Hello Ada');
  expect(effects).toEqual(['Ada']);
  await listener.leave();
});

/** Two replicas, of which one reaches Redis by a way that can be cut, or be slow. */
async function replicasOfWhichOneIsCutOff() {
  const { tools, effects } = greeter();
  const [legacy, redis] = await Promise.all([legacyServer({ tools }), redisServer()]);
  const way = await Severable.to({ host: '127.0.0.1', port: redis.port });
  stopAfterTest(() => way.stop());
  const route = { tasks: TASKS };
  const one = await replica(legacy, { redis: new URL(`redis://127.0.0.1:${way.port}`), route });
  const other = await replica(legacy, { redis: redis.url, route });
  return { one, other, way, effects };
}

// Rule shared-13.
test('a task that ends while its replica is cut off from Redis has ended for all when it is back', async () => {
  const { one, other, way, effects } = await replicasOfWhichOneIsCutOff();
  const taskId = await taskAt(one.url);
  way.cut();
  await answer(one.url, taskId, 'Ada');
  expect(await resultAt(one.url, taskId)).toBe('Hello Ada');
  // The one whose lease has expired is taken for dead.
  await takenOver(other, taskId);
  way.mend();
  expect(await resultAt(other.url, taskId)).toBe('Hello Ada');
  expect(await resultAt(one.url, taskId)).toBe('Hello Ada');
  expect(effects).toEqual(['Ada']);
});

// Rule shared-22: A client learns the end of a task once Redis has it, or after 2 s.
test('an end that one replica has told is told by the others from then on, however slowly Redis takes it', async () => {
  const { one, other, way } = await replicasOfWhichOneIsCutOff();
  const taskId = await taskAt(one.url);
  const listener = listenToTask(one.url, taskId);
  await untilTask(one.url, taskId, ['input_required']);
  way.delay(SLOW_STORE_MS);
  await answer(one.url, taskId, 'Ada');
  const toldElsewhere = async () => (await aboutTask(other.url, 'get', taskId)).response.result;
  const ends = [listener.ended, untilTask(one.url, taskId, ['completed'])];
  const told = await Promise.all(ends.map((end) => end.then(toldElsewhere)));
  expect(told.map(({ status }) => status)).toEqual(['completed', 'completed']);
  await listener.leave();
});

async function takenOver(at: GatewayProcess, taskId: string): Promise<void> {
  while (at.named('task.taken_over').length === 0) {
    await aboutTask(at.url, 'get', taskId);
    await sleep(100);
  }
}

// Rule shared-8.
test('a listener that names a task while Redis is unreachable is refused with a retryable error, and can listen later', async () => {
  const { tools } = greeter();
  const [legacy, redis] = await Promise.all([legacyServer({ tools }), redisServer()]);
  const [one, other] = await replicas(legacy, 2, { redis: redis.url, route: { tasks: TASKS } });
  const taskId = await taskAt(one.url);
  redis.pause();
  const listening = { notifications: { taskIds: [taskId] } };
  const refused = await send(other.url, 'subscriptions/listen', listening, {
    capabilities: TASK_CLIENT,
  });
  expect(refused.response.error.data).toMatchObject({
    reason: 'coordination_unavailable',
    retryable: true,
  });
  redis.resume();
  await whileRetryable(() => aboutTask(other.url, 'get', taskId));
  const listener = listenToTask(other.url, taskId);
  await listener.asked;
  await answer(one.url, taskId, 'Ada');
  expect(await listener.ended).toMatchObject({ taskId, result: { content: [{}] } });
  await listener.leave();
});

// Rule shared-4.
test('a lost task is replayed by the replica that its client comes to next', async () => {
  let calls = 0;
  const tools: LegacyServerOptions['tools'] = {
    greet: async (call) => {
      calls += 1;
      return `Hello ${await askName(call)} and ${await askName(call, 'Who else?')}`;
    },
  };
  const [legacy, redis] = await Promise.all([legacyServer({ tools }), redisServer()]);
  const [one, other] = await replicas(legacy, 2, {
    redis: redis.url,
    route: { tasks: TASKS, continuation: { replay: { tools: ['greet'] } } },
  });
  const taskId = await taskAt(one.url);
  await answer(one.url, taskId, 'Ada');
  await untilTask(one.url, taskId, ['input_required']);
  await one.kill();
  await answer(other.url, taskId, 'Bob');
  expect(await resultAt(other.url, taskId)).toBe('Hello Ada and Bob');
  expect(calls).toBe(2);
});

// Rule promoted-6.
test('a task whose replica was killed is cancelled at its server through another one', async () => {
  const { tools } = slowGreeter();
  const [legacy, redis] = await Promise.all([
    legacyServer({ tools, keepsEvents: true }),
    redisServer(),
  ]);
  const [one, other] = await replicas(legacy, 2, { redis: redis.url, route: { tasks: TASKS } });
  const taskId = await taskAt(one.url);
  await answer(one.url, taskId, 'Ada');
  await untilTask(one.url, taskId, ['working']);
  await one.kill();
  const cancelled = await whileRetryable(() => aboutTask(other.url, 'cancel', taskId));
  expect(cancelled.response.result).toBeDefined();
  await legacy.saw('notifications/cancelled');
});

// Rule shared-8.
test('a task is not unknown at a replica that looks for it right after Redis was emptied', async () => {
  const { tools } = greeter();
  const [legacy, redis] = await Promise.all([legacyServer({ tools }), redisServer()]);
  const [one, other] = await replicas(legacy, 2, { redis: redis.url, route: { tasks: TASKS } });
  const taskId = await taskAt(one.url);
  await untilTask(other.url, taskId, ['input_required']);
  await overseer(redis).flushall();
  const found = await whileRetryable(() => aboutTask(other.url, 'get', taskId));
  expect(found.response).toMatchObject({ result: { status: 'input_required' } });
  await answer(other.url, taskId, 'Ada');
  expect(await resultAt(other.url, taskId)).toBe('Hello Ada');
});

// Rule shared-13.
test('a task that was taken over and ended is over at the replica that was cut off from Redis', async () => {
  const { tools, effects } = greeter();
  const [legacy, redis] = await Promise.all([legacyServer({ tools }), redisServer()]);
  const way = await Severable.to({ host: '127.0.0.1', port: redis.port });
  stopAfterTest(() => way.stop());
  const route = { tasks: TASKS };
  const one = await replica(legacy, { route, redis: new URL(`redis://127.0.0.1:${way.port}`) });
  const other = await replica(legacy, { route, redis: redis.url });
  const taskId = await taskAt(one.url);
  await untilTask(other.url, taskId, ['input_required']);
  way.hold();
  const takenOver = async () => {
    await aboutTask(other.url, 'get', taskId);
    return other.named('task.taken_over').length;
  };
  await expect.poll(takenOver, { timeout: 20_000 }).toBe(1);
  await answer(other.url, taskId, 'Ada');
  expect(await resultAt(other.url, taskId)).toBe('Hello Ada');
  way.letGo();
  const statusAtOne = async () =>
    (await aboutTask(one.url, 'get', taskId)).response.result?.status as unknown;
  await expect.poll(statusAtOne, { timeout: 20_000 }).toBe('completed');
  expect(await resultAt(other.url, taskId)).toBe('Hello Ada');
  expect(effects).toEqual(['Ada']);
});
