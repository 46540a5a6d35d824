/**
 * The message queue of each replica in Redis: a list that it reads and the others write. A list keeps its order, and
 * loses nothing while its reader reconnects, unlike a channel.
 */
import { wasNotSent, createRedis, keepConnecting, type RedisClient } from '../redis/client.ts';
import { sleep, type Clock } from '../../lib/clock.ts';
import type { RedisOptions } from '../redis/options.ts';

export interface MessageQueueOptions {
  readonly redis: RedisOptions;
  /** The name of the deployment. */
  readonly audience: string;
  /** The name of this process in pointers. */
  readonly instance: string;
  readonly clock: Clock;
  /** Jitter for reconnects, in [0, 1). */
  readonly random: () => number;
}

/** How long one read waits for a message, in seconds, as Redis counts here. */
const READ_WAIT_SECONDS = 2;
const READ_TIMEOUT_MS = 5_000;
const RETRY_MS = 200;
/** How long a message waits for a lost connection. */
const RECONNECT_TIMEOUT_MS = 1_000;
/** How long messages stay unread. */
const EXPIRY_MS = 30_000;
/** Limits of a queue. The message that exceeds `MAX_BYTES` is still accepted. */
const MAX_MESSAGES = 10_000;
const MAX_BYTES = 64 * 1024 * 1024;

/**
 * Appends a message to a queue that is not full, and renews its expiry. If the user may not call MEMORY USAGE, only
 * the messages are counted.
 */
export const PUSH = `
if redis.call('LLEN', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
local bytes = redis.pcall('MEMORY', 'USAGE', KEYS[1], 'SAMPLES', 0)
if type(bytes) == 'number' and bytes >= tonumber(ARGV[3]) then return 0 end
redis.call('RPUSH', KEYS[1], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 1`;

const isNoQueue = (error: unknown) =>
  error instanceof Error && error.message.startsWith('WRONGTYPE');

export class MessageQueue {
  readonly #options: MessageQueueOptions;
  readonly #writer: RedisClient;
  /** A connection of its own, since a read blocks it. */
  readonly #reader: RedisClient;
  /** Messages that wait for a connection. */
  readonly #waiting = new Set<AbortController>();
  #isClosed = false;
  #isBehind = false;

  constructor(options: MessageQueueOptions) {
    this.#options = options;
    const { redis, random } = options;
    this.#writer = createRedis(redis, random);
    this.#reader = createRedis({ ...redis, commandTimeoutMs: READ_TIMEOUT_MS }, random);
    // A message that cannot be sent shows the failure; the directory reports it to the operator.
    for (const client of [this.#writer, this.#reader]) {
      client.on('error', () => {});
      keepConnecting(client, options.clock, () => !this.#isClosed);
      client.connect().catch(() => {});
    }
    this.#writer.on('ready', () => {
      for (const connected of this.#waiting) connected.abort();
    });
  }

  /** True if more messages waited when the last one was read. */
  get isBehind(): boolean {
    return this.#isBehind;
  }

  /** Passes each message of this replica to `onMessage`, in order, until `close`. */
  async read(onMessage: (sealed: string) => void): Promise<void> {
    const { instance, clock } = this.#options;
    while (!this.#isClosed) {
      try {
        const reading = this.#reader.blpop(this.#key(instance), READ_WAIT_SECONDS);
        // If the connection breaks between the two replies, the message is here nevertheless, and no longer in the queue.
        const counting = this.#reader.llen(this.#key(instance)).catch(() => 0);
        const [entry, left] = await Promise.all([reading, counting]);
        this.#isBehind = left > 0;
        if (entry !== null) onMessage(entry[1]);
      } catch (error) {
        this.#isBehind = false;
        // Whatever is there is no queue, and takes no message.
        if (isNoQueue(error)) this.#reader.del(this.#key(instance)).catch(() => {});
        if (!this.#isClosed) await sleep(clock, RETRY_MS);
      }
    }
  }

  /**
   * Appends a message to the queue of `to`. Waits up to a second for a lost connection.
   * @returns false if the queue is full
   * @throws Error of the Redis client, see `wasNotSent`
   */
  async push(to: string, sealed: string): Promise<boolean> {
    try {
      return await this.#push(to, sealed);
    } catch (error) {
      // After any other error the message may be in the queue, and must not be there twice.
      if (!wasNotSent(error)) throw error;
      await this.#reconnected();
      return this.#push(to, sealed);
    }
  }

  async #push(to: string, sealed: string): Promise<boolean> {
    const limits = [MAX_MESSAGES, MAX_BYTES, EXPIRY_MS];
    return (await this.#writer.eval(PUSH, 1, this.#key(to), sealed, ...limits)) === 1;
  }

  /** Resolves when the connection is back, or after a timeout. */
  async #reconnected(): Promise<void> {
    const connected = new AbortController();
    this.#waiting.add(connected);
    await sleep(this.#options.clock, RECONNECT_TIMEOUT_MS, connected.signal);
    this.#waiting.delete(connected);
  }

  close(): void {
    this.#isClosed = true;
    this.#writer.disconnect();
    this.#reader.disconnect();
  }

  #key(instance: string): string {
    const { audience } = this.#options;
    return `mrtr:${encodeURIComponent(audience)}:{${encodeURIComponent(instance)}}:mail`;
  }
}
