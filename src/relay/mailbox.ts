/**
 * A replica's mailbox in Redis: a list that it reads and the others write. Lists keep their order and
 * lose nothing while their reader reconnects, which channels do not promise.
 */
import { sleep, type Clock } from '../clock.ts';
import { createRedis, neverGiveUp, type RedisClient } from '../lot/redis-client.ts';
import type { RedisOptions } from '../lot/redis-options.ts';
import { LETTER_LIFETIME_MS } from './letter.ts';

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
/** A reader that is behind by more than this is as good as gone. */
const MAX_LETTERS = 10_000;

/** Puts a letter into a mailbox that is not full; a mailbox that nobody empties goes by itself. */
const POST = `
if redis.call('LLEN', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('RPUSH', KEYS[1], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1`;

export class Mailbox {
  readonly #options: MailboxOptions;
  readonly #writer: RedisClient;
  /** Reading blocks its connection. */
  readonly #reader: RedisClient;
  #closed = false;

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
  }

  /** Gives every letter to the reader, in the order of their coming, until `close`. */
  async read(letter: (sealed: string) => Promise<void>): Promise<void> {
    const { boot, clock } = this.#options;
    while (!this.#closed) {
      try {
        const got = await this.#reader.blpop(this.#key(boot), READ_WAIT_SECONDS);
        if (got !== null) await letter(got[1]);
      } catch {
        if (!this.#closed) await sleep(clock, RETRY_MS);
      }
    }
  }

  /** True when the letter is in the mailbox of `to`. Throws what the client throws. */
  async post(to: string, sealed: string): Promise<boolean> {
    const posted = await this.#writer.eval(
      POST,
      1,
      this.#key(to),
      sealed,
      MAX_LETTERS,
      LETTER_LIFETIME_MS,
    );
    return posted === 1;
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
