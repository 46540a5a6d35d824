/**
 * How often a request about a task goes from one process to another, counted by the metrics of all of them.
 * @module-tag redis
 * @module-tag long
 */
import { describe, expect, test } from 'vitest';
import { accept } from '../../fixtures/clients/modern-client.ts';
import { aboutTask, callForTask, untilTask } from '../../fixtures/clients/task-client.ts';
import type { GatewayProcess } from '../../fixtures/gateways/gateway-process.ts';
import {
  legacyServer,
  redisServer,
  replicas,
  slowGreeter,
} from '../../fixtures/gateways/replica-testbed.ts';

const HOPS = /^mrtr_gateway_relay_hops_total\{.*\} (\d+)$/gm;

async function hopsOf({ adminUrl }: GatewayProcess): Promise<number> {
  const text = await (await fetch(`${adminUrl}/metrics`)).text();
  return [...text.matchAll(HOPS)].reduce((sum, [, count]) => sum + Number(count), 0);
}

const WORKERS = { config: { workers: 2 } };

// Rule shared-1.
describe.each([
  { name: 'replicas with Redis', more: {}, withRedis: true },
  { name: 'replicas with Redis and workers', more: WORKERS, withRedis: true },
  { name: 'replicas without Redis', more: {}, withRedis: false },
  { name: 'replicas with workers and without Redis', more: WORKERS, withRedis: false },
])('$name', ({ more, withRedis }) => {
  test('serve each poll, answer and cancel in one hop at most', async () => {
    const { tools, finish } = slowGreeter();
    const legacy = await legacyServer({ tools, tasks: { greet: { taskSupport: 'required' } } });
    const shared = withRedis ? { redis: (await redisServer()).url } : {};
    const gateways = await replicas(legacy, 2, { ...shared, ...more });
    const [one, other] = gateways;
    const hops = async () => (await hopsOf(one)) + (await hopsOf(other));
    /** How many hops something took. */
    const during = async (work: () => Promise<unknown>) => {
      const before = await hops();
      await work();
      return (await hops()) - before;
    };
    const created = await callForTask(one.url, 'greet');
    const { taskId } = created.response.result;
    const asked = await untilTask(one.url, taskId, ['input_required']);
    const polls: number[] = [];
    const poll = async () => {
      // Each comes over a connection of its own, and so to any worker.
      for (const { url } of [other, one, other, one]) {
        polls.push(await during(() => aboutTask(url, 'get', taskId)));
      }
    };
    await poll();
    const [key = ''] = Object.keys(asked.inputRequests);
    const inputResponses = { [key]: accept({ name: 'Ada' }) };
    const answered = await during(() => aboutTask(other.url, 'update', taskId, { inputResponses }));
    await untilTask(one.url, taskId, ['working']);
    await poll();
    finish();
    await untilTask(one.url, taskId, ['completed']);
    await poll();
    const second = await callForTask(one.url, 'greet');
    const cancelled = await during(() =>
      aboutTask(other.url, 'cancel', second.response.result.taskId),
    );
    expect(Math.max(...polls)).toBe(withRedis ? 0 : 1);
    expect([answered, cancelled]).toEqual([1, 1]);
  });
});
