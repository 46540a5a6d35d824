/**
 * How much is written to Redis of what happens often, as Redis sees it.
 * @module-tag redis
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { callTool } from '../../fixtures/clients/modern-client.ts';
import { aboutTask, callForTask, untilTask } from '../../fixtures/clients/task-client.ts';
import {
  answersOf,
  greeter,
  legacyServer,
  reasonOf,
  redisServer,
  replicas,
  text,
} from '../../fixtures/gateways/replica-testbed.ts';
import { monitored, overseer } from '../../fixtures/redis/redis-topologies.ts';
import type { Tool } from '../../fixtures/servers/legacy/tools.ts';

const KIB = 1024;
const LONG = 'x'.repeat(256 * KIB);
const MESSAGES = 150;
/** Of the life of a task: it is made, is said to work, has its first and its last progress, and ends. */
const CHANGES = 5;

// Rule shared-20.
test('a task that reports its progress often writes its long arguments once a second at most', async () => {
  const chatter: Tool = async ({ extra }) => {
    const progressToken = extra._meta?.progressToken ?? 'none';
    for (let progress = 1; progress <= MESSAGES; progress += 1) {
      const params = { progressToken, progress, message: `${progress} of ${MESSAGES}` };
      await extra.sendNotification({ method: 'notifications/progress', params });
      await sleep(10);
    }
    return 'done';
  };
  const legacy = await legacyServer({ tools: { chatter } });
  const redis = await redisServer();
  const records: string[] = [];
  // A script writes them, whose commands are told beside it.
  await monitored(overseer(redis), ([command = '', key = '', value = '']) => {
    if (/^set$/i.test(command) && value.length > LONG.length) records.push(key);
  });
  const route = { tasks: { promote: 'always' } };
  const [one, other] = await replicas(legacy, 2, { redis: redis.url, route });
  const beganMs = performance.now();
  const args = { arguments: { text: LONG } };
  const { taskId } = (await callForTask(one.url, 'chatter', args)).response.result;
  const { result } = await untilTask(one.url, taskId, ['completed']);
  const seconds = (performance.now() - beganMs) / 1_000;
  expect(result.content[0].text).toBe('done');
  expect(records.length).toBeGreaterThan(0);
  expect(records.length).toBeLessThanOrEqual(seconds + CHANGES);
  // The last of it is there.
  const { statusMessage } = (await aboutTask(other.url, 'get', taskId)).response.result;
  expect(statusMessage).toBe(`${MESSAGES} of ${MESSAGES}`);
});

// Rule store-3.
test('the outcome of a call is written once, and kept no longer for those who ask for it again and again', async () => {
  const { tools } = greeter();
  const legacy = await legacyServer({ tools });
  const redis = await redisServer();
  const store = overseer(redis);
  const written: string[] = [];
  await monitored(overseer(redis), ([command = '', key = '']) => {
    if (/^set$/i.test(command)) written.push(key);
  });
  const [one, other] = await replicas(legacy, 2, { redis: redis.url });
  const asked = await callTool(one.url, 'greet');
  const answers = answersOf(asked, 'Ada');
  expect(text(await callTool(one.url, 'greet', answers))).toBe('Hello Ada');
  const [parked] = await one.written('call.parked');
  const writes = () => written.filter((key) => key.includes(`{${parked?.['call']}}`));
  await expect.poll(writes).toHaveLength(1);
  const [key = ''] = writes();
  await store.pexpire(key, 60_000);
  for (const { url } of [one, other, one, other]) {
    expect(text(await callTool(url, 'greet', answers))).toBe('Hello Ada');
    expect(reasonOf(await callTool(url, 'greet', answersOf(asked, 'Eve')))).toBe(
      'invalid_request_state',
    );
  }
  expect(await store.pttl(key)).toBeLessThanOrEqual(60_000);
  expect(writes()).toHaveLength(1);
});
