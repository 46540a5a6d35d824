/** The store of the simulation beside a real Redis, and how it speaks. */
import fc from 'fast-check';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  CLAIM,
  KEEP_END,
  RELEASE,
  STATE,
  writeClaim,
} from '../../src/fleet/store/redis-scripts.ts';
import { PUSH } from '../../src/fleet/relay/redis-queue.ts';
import { type RedisServer, startRedis } from '../fixtures/redis/redis-server.ts';
import { encode, type Reply, RespParser } from './store/resp.ts';
import { Store } from './store/store.ts';

const MB = 1024 * 1024;
/** Far apart, so that the time that a command takes decides nothing. */
const TTLS_MS = ['100000', '250000', '600000'];
const CLOSE_MS = 5_000;
const ROUNDS = 150;

const KEYS = ['{a}:claim', '{a}:token', '{a}:task', '{b}:claim', '{b}:token', '{b}:task', 'mail'];
const key = fc.constantFrom(...KEYS);
const owner = fc.constantFrom('{"id":"1","instance":"x"}', '{"id":"2","instance":"y"}');
const ttl = fc.constantFrom(...TTLS_MS);
const home = fc.constantFrom('{a}', '{b}');
const fencingToken = fc.constantFrom('', '1', '2', '3');
const value = fc.constantFrom(
  'garbage',
  '7',
  '{"v":1,"fencingToken":2,"owner":{"id":"2","instance":"y"}}',
);

const claim = fc
  .tuple(home, owner, ttl, owner, fc.constantFrom('', '1', '2'))
  .map(([place, who, ms, other, old]): string[] => [
    ...['eval', CLAIM, '2', `${place}:claim`, `${place}:token`, who, ms],
    old === '' ? '' : writeClaim(old, other),
  ]);
const release = fc
  .tuple(home, owner, fencingToken, fc.boolean())
  .map(([place, who, of, withToken]): string[] => [
    ...['eval', RELEASE, withToken ? '2' : '1', `${place}:claim`],
    ...[...(withToken ? [`${place}:token`] : []), who, of],
  ]);
const state = fc
  .tuple(home, owner, fencingToken, ttl, fc.constantFrom('', '\nstate', '\nother'))
  .map(([place, who, of, ms, text]): string[] => [
    ...['eval', STATE, '2', `${place}:token`, `${place}:task`],
    ...[of === '' ? '' : writeClaim(of, who), ms, text],
  ]);
const end = fc
  .tuple(home, fc.constantFrom('end:x\n', 'end:y\n'), ttl)
  .map(([place, line, ms]): string[] => [
    ...['eval', KEEP_END, '1', `${place}:task`, line, ms, `${line}over`],
  ]);
const push = fc
  .tuple(key, value, ttl)
  .map(([to, text, ms]): string[] => ['eval', PUSH, '1', to, text, '3', String(64 * MB), ms]);
const command = fc.oneof(
  { weight: 6, arbitrary: claim },
  { weight: 3, arbitrary: release },
  { weight: 4, arbitrary: state },
  { weight: 3, arbitrary: end },
  { weight: 2, arbitrary: push },
  key.map((of): string[] => ['get', of]),
  key.map((of): string[] => ['pttl', of]),
  key.map((of): string[] => ['llen', of]),
  fc.tuple(key, ttl).map(([of, ms]): string[] => ['pexpire', of, ms]),
  fc.tuple(key, key).map((of): string[] => ['del', ...of]),
  fc.tuple(key, value, ttl).map(([to, text, ms]): string[] => ['set', to, text, 'PX', ms]),
  fc.tuple(key, value, ttl).map(([to, text, ms]): string[] => ['set', to, text, 'PX', ms, 'XX']),
  fc.tuple(key, value).map(([to, text]): string[] => ['set', to, text]),
);

/** A reply without what a twin need not have: the rest of an error, and the time that a command takes. */
function comparable(name: string, reply: unknown): unknown {
  if (Buffer.isBuffer(reply)) return reply.toString();
  if (Array.isArray(reply)) return reply.map((part) => comparable('', part));
  if (reply === '+OK') return 'OK';
  if (typeof reply === 'string' && reply.startsWith('-')) return `error ${reply.split(' ')[0]}`;
  if (name === 'pttl' && typeof reply === 'number') return Math.round(reply / CLOSE_MS);
  return reply;
}

describe('the store of the simulation', { tags: ['redis'] }, () => {
  let server: RedisServer;
  let redis: Redis;

  beforeAll(async () => {
    server = await startRedis();
    redis = new Redis(server.url.href);
  });

  afterAll(async () => {
    redis.disconnect();
    await server.stop();
  });

  async function inRedis([name = '', ...words]: string[]): Promise<unknown> {
    try {
      return await redis.callBuffer(name, ...words);
    } catch (error) {
      return `-${(error as Error).message}`;
    }
  }

  test('replies as Redis does to commands and scripts, in any order, also on keys of another type', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(command, { minLength: 3, maxLength: 25 }), async (commands) => {
        await redis.flushall();
        const store = new Store(() => Date.now());
        for (const words of commands) {
          const [name = ''] = words;
          const real = comparable(name, await inRedis(words));
          const model = store.run(words.map((word) => Buffer.from(word)));
          expect(comparable(name, model), words.join(' ')).toEqual(real);
        }
        for (const of of KEYS) {
          const model = store.run([Buffer.from('pttl'), Buffer.from(of)]);
          expect(comparable('pttl', model), of).toEqual(
            comparable('pttl', await inRedis(['pttl', of])),
          );
        }
      }),
      { numRuns: ROUNDS },
    );
  });

  test('takes from a list what was put there first, as Redis does', async () => {
    await redis.flushall();
    const store = new Store(() => Date.now());
    const pushed = (text: string) => ['eval', PUSH, '1', 'mail', text, '10', String(MB), '60000'];
    for (const words of [pushed('one'), pushed('two'), ['blpop', 'mail', '1'], ['llen', 'mail']]) {
      const real = comparable('', await inRedis(words));
      expect(comparable('', store.run(words.map((word) => Buffer.from(word))))).toEqual(real);
    }
  });
});

test('a store that falls back has what it had before, and no later writes', () => {
  let nowMs = 0;
  const store = new Store(() => nowMs);
  const run = (...words: string[]) => store.run(words.map((word) => Buffer.from(word)));
  run('set', 'a', '1');
  nowMs = 100;
  run('set', 'a', '2');
  run('set', 'b', '1');
  run('del', 'a');
  store.fallBack(50);
  expect(String(run('get', 'a'))).toBe('1');
  expect(run('get', 'b')).toBeNull();
});

test('what has expired is gone', () => {
  let nowMs = 0;
  const store = new Store(() => nowMs);
  const run = (...words: string[]) => store.run(words.map((word) => Buffer.from(word)));
  run('set', 'a', '1', 'PX', '10');
  nowMs = 10;
  expect(run('get', 'a')).toBeNull();
  expect(run('pttl', 'a')).toBe(-2);
});

test('commands are read from pieces that are cut anywhere', () => {
  const bytes = Buffer.concat([written('get', 'ключ'), written('set', 'a', 'x\r\ny', 'PX', '1')]);
  for (let cut = 0; cut <= bytes.length; cut++) {
    const parser = new RespParser();
    const words = [...parser.read(bytes.subarray(0, cut)), ...parser.read(bytes.subarray(cut))];
    expect(words.map((one) => one.map(String))).toEqual([
      ['get', 'ключ'],
      ['set', 'a', 'x\r\ny', 'PX', '1'],
    ]);
  }
});

test('replies are written as Redis writes them', () => {
  const reply: Reply = [1, Buffer.from('a\r\n'), null, '+OK', []];
  expect(encode(reply).toString()).toBe('*5\r\n:1\r\n$3\r\na\r\n\r\n$-1\r\n+OK\r\n*0\r\n');
});

/** A command as a client writes it. */
function written(...words: string[]): Buffer {
  return encode(words.map((word) => Buffer.from(word)));
}
