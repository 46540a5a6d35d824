/**
 * Redis in which somebody has written garbage, of any type and into all keys: those of calls, homes and tasks, of live and dead
 * replicas, and their message queues.
 * @module-tag redis
 * @module-tag long
 */
import type { Redis } from 'ioredis';
import { describe, expect, test } from 'vitest';
import {
  answersOf,
  greeter,
  legacyServer,
  redisServer,
  replicas,
  text,
  whileRetryable,
} from '../../fixtures/gateways/replica-testbed.ts';
import { callTool, send, type SendOptions } from '../../fixtures/clients/modern-client.ts';
import { aboutTask, callForTask } from '../../fixtures/clients/task-client.ts';
import type { GatewayProcess } from '../../fixtures/gateways/gateway-process.ts';
import { overseer } from '../../fixtures/redis/redis-topologies.ts';

const GARBAGE: readonly (readonly [string, (redis: Redis, key: string) => Promise<unknown>])[] = [
  ['texts', (redis, key) => redis.set(key, 'garbage')],
  ['lists', (redis, key) => redis.rpush(key, 'garbage', 'more')],
  ['hashes', (redis, key) => redis.hset(key, 'garbage', '1')],
  ['sets', (redis, key) => redis.sadd(key, 'garbage')],
  ['sorted sets', (redis, key) => redis.zadd(key, 1, 'garbage')],
  ['streams', (redis, key) => redis.xadd(key, '*', 'garbage', '1')],
];
const WAYS = [
  ['HTTP', {}],
  ['Redis', { relay: false, config: { relay: { via: 'redis' } } }],
] as const;

/** Longer than the time in which an owner counts as silent, and a lease ends. */
const ANSWER_WITHIN_MS = 10_000;
const HOUR_MS = 3_600_000;

const as = (user: string): SendOptions => ({
  headers: { authorization: `Bearer ${user}` },
  signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
});

/** Calls a tool and a task, and asks for both. @returns the call, and the id of the task */
async function begin({ url }: GatewayProcess, user: string) {
  const asked = await callTool(url, 'greet', {}, as(user));
  const { response } = await callForTask(url, 'greet', {}, as(user));
  return { asked, taskId: String(response.result.taskId) };
}

/** All keys that the calls and the processes have or can have. */
async function keysOf(redis: Redis, calls: readonly unknown[]): Promise<Set<string>> {
  const found = await redis.keys('mrtr:*');
  const [prefix] = /^mrtr:[^:]*:/.exec(found[0] ?? '') ?? [];
  const ofCalls = calls.flatMap((call) =>
    ['claim', 'token', 'outcome'].map((kind) => `${prefix}{${call}}:${kind}`),
  );
  return new Set([...found, ...found.map((key) => key.replace(/:lease$/, ':mail')), ...ofCalls]);
}

// Rule store-12: Foreign data in Redis blocks no request. The log names the call that it affects.
describe.each(WAYS)('with a relay through %s', (_way, options) => {
  test.each(GARBAGE)(
    'every request has an answer in time while all keys hold %s, and all goes on after that',
    { timeout: 60_000 },
    async (_type, write) => {
      const legacy = await legacyServer({ tools: greeter().tools, keepsEvents: true });
      const redis = await redisServer();
      const store = overseer(redis);
      const [one, other, dead] = await replicas(legacy, 3, {
        ...options,
        redis: redis.url,
        route: { tasks: { promote: 'interactive' } },
      });
      const [ada, bob, cyd] = [
        await begin(one, 'ada'),
        await begin(dead, 'bob'),
        await begin(one, 'cyd'),
      ];
      await callTool(one.url, 'greet', answersOf(cyd.asked, 'Cyd'), as('cyd'));
      await dead.kill();
      const [{ call: ofBob } = { call: null }] = dead.named('call.parked');
      const parked = [...one.named('call.parked'), ...dead.named('call.parked')];
      const calls = parked.map(({ call }) => call);
      for (const key of await keysOf(store, calls)) {
        await store.del(key);
        await write(store, key);
        await store.pexpire(key, HOUR_MS);
      }
      const { url } = other;
      const answered = await Promise.all([
        callTool(url, 'greet', answersOf(ada.asked, 'Ada'), as('ada')),
        callTool(url, 'greet', answersOf(bob.asked, 'Bob'), as('bob')),
        callTool(one.url, 'greet', answersOf(bob.asked, 'Bob'), as('bob')),
        callTool(url, 'greet', answersOf(cyd.asked, 'Cyd'), as('cyd')),
        aboutTask(url, 'get', ada.taskId, {}, as('ada')),
        aboutTask(url, 'update', bob.taskId, { inputResponses: {} }, as('bob')),
        aboutTask(url, 'cancel', cyd.taskId, {}, as('cyd')),
        ...['ada', 'bob', 'eve'].map((user) => callTool(url, 'greet', {}, as(user))),
        ...['ada', 'bob', 'eve'].map((user) => send(url, 'tools/list', {}, as(user))),
      ]);
      const outcomes = answered.map(
        ({ response: { result, error } }) => error?.data.reason ?? result.resultType,
      );
      const [retryOfDead, again, ...rest] = [outcomes[1], outcomes[2], ...outcomes.slice(7)];
      expect([retryOfDead, again]).toEqual(Array(2).fill('coordination_unavailable'));
      expect(rest).toEqual([...Array(3).fill('input_required'), ...Array(3).fill('complete')]);
      for (const reason of outcomes.slice(0, 7)) {
        expect(reason).toMatch(/^(?:complete|coordination_unavailable|unknown_task)$/);
      }
      for (const gateway of [one, other]) {
        expect(gateway.named('redis.down')).toEqual([]);
        expect(gateway.named('call.claim_failed').map(({ call }) => call)).toContain(ofBob);
      }
      // The keys still hold garbage.
      const late = () => callTool(url, 'greet', answersOf(ada.asked, 'Ada'), as('ada'));
      expect(text(await whileRetryable(late))).toBe('Hello Ada');
      await store.flushall();
      const last = () => callTool(url, 'greet', answersOf(bob.asked, 'Bob'), as('bob'));
      expect(text(await whileRetryable(last))).toBe('Hello Bob');
    },
  );
});
