/**
 * Counts requests by key, and refuses those beyond a rate. A window begins with the first request of a key. The counts are
 * in memory, or in Redis, where all replicas share them; while Redis is away each process counts for itself.
 */
import { RateLimiterMemory, RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible';
import { sha256 } from '../lib/crypto.ts';

export interface Rate {
  readonly requests: number;
  readonly windowMs: number;
}

/** Where replicas count together. */
export interface RateStore {
  /** A connection to Redis. */
  readonly client: unknown;
  /** The beginning of all keys. */
  readonly prefix: string;
}

const MAX_KEYS = 100_000;

export class RateLimit {
  readonly #memory: RateLimiterMemory;
  readonly #limiter: RateLimiterMemory | RateLimiterRedis;
  readonly #maxKeys: number;
  readonly #keys = new Set<string>();

  /**
   * @param name tells it from other limits in the same store
   * @param store `null` to count in memory
   * @param maxKeys more are not remembered at a time, so that whoever makes up callers cannot fill the memory
   */
  constructor(
    { requests: points, windowMs }: Rate,
    name: string,
    store: RateStore | null,
    maxKeys = MAX_KEYS,
  ) {
    this.#maxKeys = maxKeys;
    const options = { points, duration: windowMs / 1000, keyPrefix: '' };
    this.#memory = new RateLimiterMemory(options);
    this.#limiter =
      store === null
        ? this.#memory
        : new RateLimiterRedis({
            ...options,
            keyPrefix: `${store.prefix}${name}`,
            storeClient: store.client,
            rejectIfRedisNotReady: true,
            insuranceLimiter: this.#memory,
          });
  }

  /**
   * Counts one request.
   * @returns how long to wait until it would be let through, in ms; 0 if it is let through
   */
  async take(key: string): Promise<number> {
    // The keys are principals, and Redis shows them to others.
    const digest = sha256(key);
    this.#remember(digest);
    try {
      await this.#limiter.consume(digest);
      return 0;
    } catch (error) {
      if (!(error instanceof RateLimiterRes)) throw error;
      return Math.max(1, error.msBeforeNext);
    }
  }

  #remember(digest: string): void {
    if (this.#keys.has(digest)) return;
    if (this.#keys.size >= this.#maxKeys) {
      for (const key of this.#keys) void this.#memory.delete(key);
      this.#keys.clear();
    }
    this.#keys.add(digest);
  }
}
