/**
 * Somebody who writes to Redis, and moves there what replicas have put into it.
 * @module-tag redis
 */
import { Redis } from 'ioredis';
import { describe, expect, test } from 'vitest';
import { accept } from '../../fixtures/clients/modern-client.ts';
import { aboutTask, callForTask, untilTask } from '../../fixtures/clients/task-client.ts';
import {
  greeter,
  legacyServer,
  redisServer,
  replicas,
} from '../../fixtures/gateways/replica-testbed.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

const ALICE = { headers: { authorization: 'Bearer alice' } };
const MALLORY = { headers: { authorization: 'Bearer mallory' } };

/** Two replicas that have tasks in a Redis to which others write. */
async function tasksInRedis() {
  const { tools } = greeter();
  const whoami = async (call: { extra: { requestInfo?: { headers: object } } }) =>
    JSON.stringify(call.extra.requestInfo?.headers);
  const legacy = await legacyServer({ tools: { ...tools, whoami } });
  const { url } = await redisServer();
  const [one, other] = await replicas(legacy, 2, {
    redis: url,
    route: { tasks: { promote: 'always' } },
  });
  const redis = new Redis(url.href);
  stopAfterTest(async () => redis.disconnect());
  const known = new Set<string>();
  /** @returns the task, and the key of its record */
  const taskAt = async (tool: string, caller: typeof ALICE) => {
    const { response } = await callForTask(one.url, tool, {}, caller);
    const status = tool === 'greet' ? 'input_required' : 'completed';
    const task = await untilTask(one.url, response.result.taskId, [status], caller);
    let record: string | undefined;
    await expect
      .poll(async () => {
        record = (await redis.keys('*{task:*}:task')).find((key) => !known.has(key));
        return record;
      })
      .toBeDefined();
    known.add(String(record));
    return { task, record: String(record) };
  };
  return { redis, one, other, taskAt };
}

// Rule shared-17: Whoever writes to Redis cannot get tasks of others, or send a replica to an address. A replica
// never goes back to an earlier state of a task.
describe('a record of a task that is moved to the task of another caller', () => {
  test.each(['whoami', 'greet'])('shows them nothing of it: %s', async (tool) => {
    const { redis, other, taskAt } = await tasksInRedis();
    const alices = await taskAt(tool, ALICE);
    const mallorys = await taskAt(tool, MALLORY);
    await redis.copy(alices.record, mallorys.record, 'REPLACE');
    await redis.del(mallorys.record.replace(/task$/, 'claim'));
    const stolen = await aboutTask(other.url, 'get', mallorys.task.taskId, {}, MALLORY);
    expect(stolen.response.result).toBeUndefined();
    expect(stolen.response.error.code).toBe(-32602);
    // It is still where it was.
    const own = await aboutTask(other.url, 'get', alices.task.taskId, {}, ALICE);
    expect(own.response.result).toMatchObject({ status: alices.task.status });
  });
});

// Rule shared-17.
test('an older record of a task that is put back is not shown by a replica that has seen a later one', async () => {
  const { redis, one, other, taskAt } = await tasksInRedis();
  const { task, record } = await taskAt('greet', ALICE);
  const asking = await redis.getBuffer(record);
  const [key = ''] = Object.keys(task.inputRequests);
  const inputResponses = { [key]: accept({ name: 'Ada' }) };
  await aboutTask(one.url, 'update', task.taskId, { inputResponses }, ALICE);
  await untilTask(other.url, task.taskId, ['completed'], ALICE);
  await redis.set(record, asking ?? '');
  const { response } = await aboutTask(other.url, 'get', task.taskId, {}, ALICE);
  expect(response.error?.data).toEqual({
    reason: 'coordination_unavailable',
    retryable: true,
    help: 'mrtr-gateway/docs/operate/errors.md#coordination_unavailable',
  });
});
