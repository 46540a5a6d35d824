/** A message queue in a real store: how much it holds, and what becomes of messages while the store is unreachable. */
import { connect, createServer, type AddressInfo } from 'node:net';
import { describe, expect, test } from 'vitest';
import { systemClock } from '../../../src/lib/clock.ts';
import { MessageQueue } from '../../../src/fleet/relay/redis-queue.ts';
import { redisServer } from '../../fixtures/gateways/replica-testbed.ts';
import { overseer } from '../../fixtures/redis/redis-topologies.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

const MIB = 1024 * 1024;

function queue(url: URL, instance: string, clock = systemClock): MessageQueue {
  const redis = { mode: 'single', url, commandTimeoutMs: 10_000 } as const;
  const made = new MessageQueue({ redis, audience: 'test', instance, clock, random: Math.random });
  stopAfterTest(async () => made.close());
  return made;
}

/** A way to Redis that breaks each time that a message (an array of a key and its text) has passed, and before what follows. */
async function breakingBehindMessages(port: number): Promise<number> {
  const server = createServer((near) => {
    const far = connect(port, '127.0.0.1');
    near.pipe(far);
    far.on('data', (chunk) => {
      const [message] = /\*2\r\n(?:\$\d+\r\n.*\r\n){2}/.exec(chunk.toString('latin1')) ?? [];
      if (message === undefined) near.write(chunk);
      else near.end(message, 'latin1', () => far.destroy());
    });
    for (const socket of [near, far]) socket.on('error', () => {});
    near.on('close', () => far.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  stopAfterTest(async () => void server.close());
  return (server.address() as AddressInfo).port;
}

/** Pushes messages until one finds no room; resolves with how many found some. */
async function fill(from: MessageQueue, message: string): Promise<number> {
  let posted = 0;
  while (await from.push('reader', message)) posted += 1;
  return posted;
}

describe('a queue', { tags: ['redis'] }, () => {
  // Rule relay-13.
  test('that nobody reads holds 64 MiB', async () => {
    const { url } = await redisServer();
    const messages = await fill(queue(url, 'writer'), 'x'.repeat(4 * MIB));
    expect(messages, 'with what they take beside their length').toBeLessThanOrEqual(16);
    expect(messages).toBeGreaterThan(8);
  });

  // Rule relay-13.
  test('that nobody reads holds ten thousand messages', async () => {
    const { url } = await redisServer();
    expect(await fill(queue(url, 'writer'), 'x')).toBe(10_000);
  });

  // Rule store-12.
  test('whose key holds what is no queue is one again', async () => {
    const { url, port } = await redisServer();
    await overseer({ port }).hset('mrtr:test:{reader}:mail', 'garbage', '1');
    const [reader, writer] = [queue(url, 'reader'), queue(url, 'writer')];
    const read = new Promise<string>((resolve) => void reader.read(resolve));
    await expect.poll(() => writer.push('reader', 'hello').catch(() => false)).toBe(true);
    expect(await read).toBe('hello');
  });

  test('has room for the longest message, and again when it was read', async () => {
    const { url } = await redisServer();
    const writer = queue(url, 'writer');
    const longest = 'x'.repeat(70 * MIB);
    expect(await writer.push('reader', longest)).toBe(true);
    expect(await writer.push('reader', 'x')).toBe(false);
    const read = Promise.withResolvers<string>();
    void queue(url, 'reader').read(async (message) => read.resolve(message));
    expect((await read.promise).length).toBe(longest.length);
    expect(await writer.push('reader', 'x')).toBe(true);
  });

  test('passes a message on although the connection breaks right behind it', async () => {
    const redis = await redisServer();
    const way = await breakingBehindMessages(redis.port);
    const messages: string[] = [];
    const reading = queue(new URL(`redis://127.0.0.1:${way}`), 'reader');
    void reading.read((message) => messages.push(message));
    const writer = queue(redis.url, 'writer');
    for (const message of ['one', 'two', 'three']) {
      await expect.poll(() => writer.push('reader', message).catch(() => false)).toBe(true);
      await expect.poll(() => messages.at(-1), { timeout: 5_000 }).toBe(message);
    }
    expect(messages).toEqual(['one', 'two', 'three']);
  });

  test('takes a message that came while the connection was lost, once it is restored', async () => {
    const redis = await redisServer();
    const writer = queue(redis.url, 'writer', new ManualClock());
    const first = writer.push('reader', 'before there is a connection');
    expect(await first).toBe(true);
    await redis.kill();
    const posted = settled(writer);
    await redis.restart();
    expect(await posted).toBe(true);
  });

  test('lets a message wait for the connection for a second, and no longer', async () => {
    const redis = await redisServer();
    const clock = new ManualClock();
    const writer = queue(redis.url, 'writer', clock);
    expect(await writer.push('reader', 'first')).toBe(true);
    await redis.kill();
    const refused = expect(settled(writer)).rejects.toThrow('enableOfflineQueue');
    await expect.poll(() => clock.pending).toBe(1);
    clock.advance(1_000);
    await refused;
  });

  test('lets many messages wait for the connection as it lets one', async () => {
    const redis = await redisServer();
    const clock = new ManualClock();
    const writer = queue(redis.url, 'writer', clock);
    expect(await writer.push('reader', 'first')).toBe(true);
    const warnings: string[] = [];
    const onWarning = ({ message }: Error) => warnings.push(message);
    process.on('warning', onWarning);
    stopAfterTest(async () => void process.off('warning', onWarning));
    await redis.kill();
    const posted = Promise.all(Array.from({ length: 50 }, () => settled(writer)));
    await expect.poll(() => clock.pending).toBe(50);
    await redis.restart();
    expect(new Set(await posted)).toEqual(new Set([true]));
    expect(warnings).toEqual([]);
  });
});

/** Pushes a message that is not under way while the connection breaks: that one is not sent again. */
async function settled(writer: MessageQueue): Promise<boolean> {
  try {
    return await writer.push('reader', 'message');
  } catch (error) {
    if (error instanceof Error && error.message.includes('enableOfflineQueue')) throw error;
    return settled(writer);
  }
}
