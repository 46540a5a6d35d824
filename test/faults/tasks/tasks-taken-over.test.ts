/**
 * Tasks that another replica has taken over, since the one that had them was cut off from Redis for a while and lived.
 * @module-tag redis
 * @module-tag long
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { accept } from '../../fixtures/clients/modern-client.ts';
import { aboutTask, callForTask, untilTask } from '../../fixtures/clients/task-client.ts';
import type { GatewayProcess } from '../../fixtures/gateways/gateway-process.ts';
import {
  greeter,
  legacyServer,
  redisServer,
  replica,
  replicas,
  whileRetryable,
} from '../../fixtures/gateways/replica-testbed.ts';
import { Severable } from '../../fixtures/network/flaky-proxy.ts';
import { askName, type LegacyServerOptions } from '../../fixtures/servers/legacy-server.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

type Tools = NonNullable<LegacyServerOptions['tools']>;

const TASKS = { promote: 'interactive' };

/** Two replicas, the first of which can be cut off from Redis. */
async function testbed(tools: Tools) {
  const [legacy, redis] = await Promise.all([legacyServer({ tools }), redisServer()]);
  const way = await Severable.to({ host: '127.0.0.1', port: redis.port });
  stopAfterTest(() => way.stop());
  const cutOff = new URL(`redis://127.0.0.1:${way.port}`);
  const one = await replica(legacy, { route: { tasks: TASKS }, redis: cutOff });
  const other = await replica(legacy, { route: { tasks: TASKS }, redis: redis.url });
  return { legacy, way, one, other };
}

async function answer(url: string, taskId: string) {
  const asked = await untilTask(url, taskId, ['input_required']);
  const keys = Object.keys(asked.inputRequests);
  const inputResponses = Object.fromEntries(keys.map((key) => [key, accept({ name: 'Ada' })]));
  await whileRetryable(() => aboutTask(url, 'update', taskId, { inputResponses }));
}

async function untilTakenOver(by: GatewayProcess, taskId: string) {
  const looked = async () => {
    await aboutTask(by.url, 'get', taskId);
    return by.named('task.taken_over').length;
  };
  await expect.poll(looked, { timeout: 15_000 }).toBe(1);
}

/** The statuses that a client sees that polls the task for so long, each once in a row. */
async function statusesAt(url: string, taskId: string, forMs: number): Promise<string[]> {
  const seen: string[] = [];
  for (const endAt = Date.now() + forMs; Date.now() < endAt; await sleep(100)) {
    const { response } = await aboutTask(url, 'get', taskId);
    const status = response.result?.status ?? JSON.stringify(response.error);
    if (seen.at(-1) !== status) seen.push(status);
  }
  return seen;
}

/** A tool that works on after its question, and reports its progress or does not. */
function worker(reports: boolean): Tools {
  return {
    greet: async (call) => {
      const { extra } = call;
      const name = await askName(call);
      const progressToken = extra._meta?.progressToken;
      for (let progress = 1; !extra.signal.aborted; progress += 1) {
        await sleep(200);
        if (!reports || progressToken === undefined) continue;
        const params = { progressToken, progress, message: `step ${progress}` };
        await extra.sendNotification({ method: 'notifications/progress', params }).catch(() => {});
      }
      return `Hello ${name}`;
    },
  };
}

/** A task that works on after its answer, and that the other replica has taken over from the first one, which is cut off. */
async function workingTakenOver(reports: boolean) {
  const field = await testbed(worker(reports));
  const { one, other, way } = field;
  const { response } = await callForTask(one.url, 'greet');
  const { taskId } = response.result;
  await answer(one.url, taskId);
  await untilTask(one.url, taskId, ['working']);
  way.cut();
  await untilTakenOver(other, taskId);
  await sleep(1_000);
  return { ...field, taskId };
}

// Rule shared-13.
test.each([
  ['reports nothing', false],
  ['reports its progress', true],
])('a task whose tool %s is cancelled for good after it was taken over', async (_, reports) => {
  const { legacy, way, other, taskId } = await workingTakenOver(reports);
  way.mend();
  await sleep(4_000);
  const cancelled = await aboutTask(other.url, 'cancel', taskId);
  expect(cancelled.response.result).toBeDefined();
  const told = () => legacy.received.map(({ method }) => method);
  await expect.poll(told, { timeout: 10_000 }).toContain('notifications/cancelled');
  expect(await statusesAt(other.url, taskId, 5_000)).toEqual(['cancelled']);
});

// Rule shared-13.
test('an end that the client was told is not replaced by another end', async () => {
  const { way, one, other } = await testbed(greeter().tools);
  const { response } = await callForTask(one.url, 'greet');
  const { taskId } = response.result;
  await untilTask(one.url, taskId, ['input_required']);
  way.cut();
  await answer(one.url, taskId);
  await untilTask(one.url, taskId, ['completed']);
  await untilTakenOver(other, taskId);
  await aboutTask(other.url, 'cancel', taskId);
  way.mend();
  expect(await statusesAt(other.url, taskId, 6_000)).toEqual(['cancelled']);
});

// Rule shared-13.
test.each([
  ['reports nothing', false],
  ['reports its progress', true],
])(
  'a task whose tool %s is cancelled for all by the replica that had it before',
  async (_, reports) => {
    const { legacy, way, one, other, taskId } = await workingTakenOver(reports);
    const cancelled = await aboutTask(one.url, 'cancel', taskId);
    expect(cancelled.response.result).toBeDefined();
    way.mend();
    // Nobody asks the other one, which hears what the tool reports.
    await sleep(3_000);
    expect(await statusesAt(other.url, taskId, 2_000)).toEqual(['cancelled']);
    const told = () => legacy.received.map(({ method }) => method);
    await expect.poll(told, { timeout: 10_000 }).toContain('notifications/cancelled');
  },
);

// Rule shared-13.
test('a task that ended while its former replica was frozen stays as it ended, although that one hears of its progress', async () => {
  const tools: Tools = {
    greet: async (call) => {
      const { extra } = call;
      const name = await askName(call);
      const progressToken = extra._meta?.progressToken;
      for (let progress = 1; progress < 60; progress += 1) {
        await sleep(200);
        if (progressToken === undefined) continue;
        const params = { progressToken, progress, message: `step ${progress}` };
        await extra.sendNotification({ method: 'notifications/progress', params }).catch(() => {});
      }
      return `Hello ${name}`;
    },
  };
  const [legacy, redis] = await Promise.all([
    legacyServer({ tools, keepsEvents: true }),
    redisServer(),
  ]);
  const [one, other] = await replicas(legacy, 2, { redis: redis.url, route: { tasks: TASKS } });
  const { response } = await callForTask(one.url, 'greet');
  const { taskId } = response.result;
  await answer(one.url, taskId);
  await untilTask(one.url, taskId, ['working']);
  await sleep(2_000);
  one.freeze();
  await untilTakenOver(other, taskId);
  await untilTask(other.url, taskId, ['completed', 'failed']);
  one.thaw();
  expect(await statusesAt(other.url, taskId, 5_000)).toEqual(['completed']);
});
