/**
 * Counts requests by key, and refuses those beyond a rate. A window begins with the first request of a key. The counts are
 * in memory, or in Redis, where all replicas share them; while Redis is unreachable each process counts for itself.
 */
import type {
  IRateLimiterOptions,
  RateLimiterMemory,
  RateLimiterRedis,
  RateLimiterRes,
} from 'rate-limiter-flexible';
import { inBackground } from '../lib/background.ts';
import { sha256 } from '../lib/crypto.ts';

/** How many requests are let through in a time. */
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

interface Limiters {
  readonly memory: RateLimiterMemory;
  readonly limiter: RateLimiterMemory | RateLimiterRedis;
}

export class RateLimit {
  readonly #limiters: Promise<Limiters>;
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
    this.#limiters = createLimiters(options, name, store);
  }

  /**
   * Counts one request.
   * @returns how long to wait until it would be let through, in ms; 0 if it is let through
   */
  async take(key: string): Promise<number> {
    // The keys are principals, and Redis shows them to others.
    const digest = sha256(key);
    const { memory, limiter } = await this.#limiters;
    this.#remember(digest, memory);
    try {
      await limiter.consume(digest);
      return 0;
    } catch (error) {
      if (error instanceof Error) throw error;
      return Math.max(1, (error as RateLimiterRes).msBeforeNext);
    }
  }

  #remember(digest: string, memory: RateLimiterMemory): void {
    if (this.#keys.has(digest)) return;
    if (this.#keys.size >= this.#maxKeys) {
      for (const key of this.#keys) inBackground(memory.delete(key));
      this.#keys.clear();
    }
    this.#keys.add(digest);
  }
}

/** Loads the library only for a gateway that has limits. */
async function createLimiters(
  options: IRateLimiterOptions,
  name: string,
  store: RateStore | null,
): Promise<Limiters> {
  const { RateLimiterMemory, RateLimiterRedis } = await import('rate-limiter-flexible');
  const memory = new RateLimiterMemory(options);
  if (store === null) return { memory, limiter: memory };
  const limiter = new RateLimiterRedis({
    ...options,
    keyPrefix: `${store.prefix}${name}`,
    storeClient: store.client,
    rejectIfRedisNotReady: true,
    insuranceLimiter: memory,
  });
  return { memory, limiter };
}
