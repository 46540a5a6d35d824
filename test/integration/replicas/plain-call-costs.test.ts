/**
 * What a plain call costs over replicas: round trips to Redis, and hops to another replica.
 * @module-tag redis
 */
import { expect, test } from 'vitest';
import { CLAIM, STATE } from '../../../src/fleet/store/redis-scripts.ts';
import { callTool, type SendOptions } from '../../fixtures/clients/modern-client.ts';
import type { GatewayProcess } from '../../fixtures/gateways/gateway-process.ts';
import { redisServer, replica, text } from '../../fixtures/gateways/replica-testbed.ts';
import {
  countedRedis,
  type Command,
  type CountedRedis,
} from '../../fixtures/network/counted-redis.ts';
import { countingServer } from '../../fixtures/servers/counting-server.ts';

const ADA: SendOptions = { headers: { authorization: 'Bearer ada' } };

/** What a replica does whether it is called or not: it connects, looks at the clock of Redis, and renews its lease. */
const isRenewal = ([name = '', key = '']: Command) =>
  ['hello', 'info', 'client', 'time'].includes(name) || (name === 'set' && key.endsWith(':lease'));
/** What the next holder of a home needs. No call waits until it is kept. */
const isKept = ([name = '', script = '', , , key = '']: Command) =>
  name === 'eval' && script === STATE && key.endsWith(':session');
/** What the server said to a replica when that started. */
const isGreeting = (command: Command) => command.some((word) => word.endsWith(':greeting'));

interface Place {
  readonly gateway: GatewayProcess;
  readonly redis: CountedRedis;
}

/** Three replicas, each with a way to Redis of its own. */
async function stage(route: object = {}) {
  const server = await redisServer();
  const { server: legacy } = await countingServer();
  const place = async (): Promise<Place> => {
    const isBackground = (command: Command) =>
      [isRenewal, isKept, isGreeting].some((is) => is(command));
    const redis = await countedRedis(server, isBackground);
    return { gateway: await replica(legacy, { redis: redis.url, route }), redis };
  };
  const places = await Promise.all([place(), place(), place()]);
  await Promise.all(places.map(({ gateway }) => gateway.saw('gateway.homes')));
  for (const { redis } of places) redis.take();
  return places;
}

const wordOf = ([name = '', script = '']: Command) =>
  name === 'eval' ? (script === CLAIM ? 'claim' : 'another script') : name;

async function hopsOf(places: readonly Place[]): Promise<number> {
  const counts = places.map(async ({ gateway }) => {
    const metrics = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
    const hops = metrics.matchAll(/^mrtr_gateway_relay_hops_total\{.*\} (\d+)$/gm);
    return [...hops].reduce((sum, [, count]) => sum + Number(count), 0);
  });
  return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
}

/** Makes a call at the first of these places. @returns what it says, and what it cost all of them */
async function cost(places: readonly Place[]) {
  const before = await hopsOf(places);
  const reply = text(await callTool(places[0]!.gateway.url, 'count', {}, ADA));
  const trips = places.flatMap(({ redis }) => redis.take());
  return {
    reply,
    trips: trips.map((trip) => trip.map(wordOf)),
    hops: (await hopsOf(places)) - before,
  };
}

test('a plain call costs as many round trips and hops as it must', async () => {
  const [a, b, c] = await stage();
  const first = [['pttl', 'claim', 'get']];
  expect(await cost([a, b, c])).toEqual({ reply: '1', trips: first, hops: 0 });
  expect(await cost([a, b, c])).toEqual({ reply: '2', trips: [], hops: 0 });
  // Claim, which another has; then whether that lives, and where it is.
  const found = [
    ['pttl', 'claim', 'get'],
    ['pttl', 'get'],
  ];
  expect(await cost([b, a, c])).toEqual({ reply: '3', trips: found, hops: 1 });
  expect(await cost([b, a, c])).toEqual({ reply: '4', trips: [], hops: 1 });
  expect(await cost([c, a, b])).toEqual({ reply: '5', trips: found, hops: 1 });
  expect(await cost([c, a, b])).toEqual({ reply: '6', trips: [], hops: 1 });
  expect(await cost([a, b, c])).toEqual({ reply: '7', trips: [], hops: 0 });
});

test('a plain call of a caller that shares nothing costs nothing, wherever it is made', async () => {
  const [a, b, c] = await stage({ sessions: { concurrency: 'separate' } });
  for (const places of [
    [a, b, c],
    [b, a, c],
    [a, b, c],
  ]) {
    expect(await cost(places)).toMatchObject({ trips: [], hops: 0 });
  }
});

test('a replica that has gone is asked once, and then another has the home', async () => {
  const [a, b, c] = await stage();
  await cost([a, b, c]);
  expect(await cost([b, a, c])).toMatchObject({ reply: '2', hops: 1 });
  await a.gateway.drain();
  const claimed = [['pttl', 'claim', 'get']];
  expect(await cost([b, c])).toEqual({ reply: '3', trips: claimed, hops: 1 });
  expect(await cost([c, b])).toMatchObject({ reply: '4', hops: 1 });
  expect(await cost([b, c])).toEqual({ reply: '5', trips: [], hops: 0 });
});
