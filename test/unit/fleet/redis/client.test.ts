import { describe, expect, test } from 'vitest';
import { createRedis } from '../../../../src/fleet/redis/client.ts';
import {
  addressOf,
  RedisUrlInvalid,
  type RedisOptions,
} from '../../../../src/fleet/redis/options.ts';

const single = (url: string): RedisOptions => ({
  mode: 'single',
  url: new URL(url),
});

describe('a URL that names no database server is refused, and its password not told', () => {
  test.each<[string, RedisOptions]>([
    ['another scheme', single('http://user:hunter2@store')],
    ['no host', single('redis:///1')],
    ['a database that is no number', single('redis://user:hunter2@store/main')],
    ['credentials that are not percent-encoded', single('redis://user:hunter2%@store')],
    [
      'a database in a Cluster',
      { ...single('redis://u:hunter2@store/1'), mode: 'cluster', nodes: [] },
    ],
  ])('%s', (_title, options) => {
    const create = () => createRedis(options, () => 0);
    expect(create).toThrow(RedisUrlInvalid);
    expect(create).not.toThrow(/hunter2/);
  });
});

test('the address for messages has no credentials', () => {
  expect(addressOf(single('rediss://user:hunter2@store:6380/1'))).toBe('rediss://store:6380');
});

test('no client connects before it is told to', () => {
  const modes: RedisOptions[] = [
    single('redis://127.0.0.1:1'),
    { ...single('redis://127.0.0.1:1'), mode: 'sentinel', name: 'store', nodes: [] },
    { ...single('redis://127.0.0.1:1'), mode: 'cluster', nodes: [] },
  ];
  for (const options of modes) expect(createRedis(options, () => 0).status).toBe('wait');
});
