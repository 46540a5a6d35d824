/**
 * A replica's mailbox in Redis: a list that it reads and the others write. Lists keep their order and
 * lose nothing while their reader reconnects, which channels do not promise.
 */
import { sleep, type Clock } from '../../lib/clock.ts';
import { createRedis, neverGiveUp, type RedisClient } from '../redis/client.ts';
import type { RedisOptions } from '../redis/options.ts';

export interface MailboxOptions {
  readonly redis: RedisOptions;
  /** The name of the fleet. */
  readonly audience: string;
  /** This process, as pointers name it. */
  readonly boot: string;
  readonly clock: Clock;
  /** Jitter for reconnects, in [0, 1). */
  readonly random: () => number;
}

/** How long one reading waits for a letter, in seconds, as Redis counts here. */
const READ_WAIT_SECONDS = 2;
const READ_TIMEOUT_MS = 5_000;
const RETRY_MS = 200;
/** How long a letter waits for a connection that was lost. */
const CONNECT_MS = 1_000;
/** How long letters stay that nobody reads, in ms. */
const UNREAD_MS = 30_000;
/** How far a reader may be behind. */
const MAX_LETTERS = 10_000;
/** The same, in what they take in the store; the letter that goes beyond it still finds room. */
const MAX_BYTES = 64 * 1024 * 1024;

/**
 * Puts a letter into a mailbox that is not full; a mailbox that nobody empties goes by itself. A store
 * that does not tell how much memory a list takes bounds only its letters.
 */
const POST = `
if redis.call('LLEN', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
local bytes = redis.pcall('MEMORY', 'USAGE', KEYS[1], 'SAMPLES', 0)
if type(bytes) == 'number' and bytes >= tonumber(ARGV[3]) then return 0 end
redis.call('RPUSH', KEYS[1], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 1`;

export class Mailbox {
  readonly #options: MailboxOptions;
  readonly #writer: RedisClient;
  /** Reading blocks its connection. */
  readonly #reader: RedisClient;
  /** Letters that wait for a connection. */
  readonly #waiting = new Set<AbortController>();
  #closed = false;
  #isBehind = false;

  constructor(options: MailboxOptions) {
    this.#options = options;
    const { redis, random } = options;
    this.#writer = createRedis(redis, random);
    this.#reader = createRedis({ ...redis, commandTimeoutMs: READ_TIMEOUT_MS }, random);
    // What is wrong is seen where a letter cannot be sent; the directory tells the operator.
    for (const client of [this.#writer, this.#reader]) {
      client.on('error', () => {});
      neverGiveUp(client, options.clock, () => !this.#closed);
      client.connect().catch(() => {});
    }
    this.#writer.on('ready', () => {
      for (const connected of this.#waiting) connected.abort();
    });
  }

  /** Whether there were more letters when the last one was read. */
  get isBehind(): boolean {
    return this.#isBehind;
  }

  /** Gives every letter to the reader, in the order of their coming, until `close`. */
  async read(letter: (sealed: string) => void): Promise<void> {
    const { boot, clock } = this.#options;
    while (!this.#closed) {
      try {
        const [got, left] = await Promise.all([
          this.#reader.blpop(this.#key(boot), READ_WAIT_SECONDS),
          this.#reader.llen(this.#key(boot)),
        ]);
        this.#isBehind = left > 0;
        if (got !== null) letter(got[1]);
      } catch {
        this.#isBehind = false;
        if (!this.#closed) await sleep(clock, RETRY_MS);
      }
    }
  }

  /**
   * True when the letter is in the mailbox of `to`, false when that is full. Waits up to a second for a
   * connection that is lost. Throws what the client throws.
   */
  async post(to: string, sealed: string): Promise<boolean> {
    try {
      return await this.#put(to, sealed);
    } catch (error) {
      // Anything else may be there already, and is not to be there twice.
      if (!wasNotSent(error)) throw error;
      await this.#reconnected();
      return this.#put(to, sealed);
    }
  }

  async #put(to: string, sealed: string): Promise<boolean> {
    const limits = [MAX_LETTERS, MAX_BYTES, UNREAD_MS];
    return (await this.#writer.eval(POST, 1, this.#key(to), sealed, ...limits)) === 1;
  }

  /** Resolves when letters can be sent again, or when that takes too long. */
  async #reconnected(): Promise<void> {
    const connected = new AbortController();
    this.#waiting.add(connected);
    await sleep(this.#options.clock, CONNECT_MS, connected.signal);
    this.#waiting.delete(connected);
  }

  close(): void {
    this.#closed = true;
    this.#writer.disconnect();
    this.#reader.disconnect();
  }

  #key(boot: string): string {
    const { audience } = this.#options;
    return `mrtr:${encodeURIComponent(audience)}:{${encodeURIComponent(boot)}}:mail`;
  }
}

/** True for a letter that is not there: its client had no connection, and keeps nothing for the next one. */
export function wasNotSent(error: unknown): boolean {
  return error instanceof Error && error.message.includes('enableOfflineQueue');
}
