/** The lease of this process in Redis. The other replicas take a process without one for dead. */
import type { Clock } from '../../lib/clock.ts';
import type { RedisClient } from '../redis/client.ts';

export interface OwnLeaseOptions {
  readonly key: string;
  /** The owner, as it is written. */
  readonly text: string;
  readonly leaseMs: number;
  readonly clock: Pick<Clock, 'elapsed'>;
}

export class OwnLease {
  readonly #options: OwnLeaseOptions;
  readonly #listeners: (() => void)[] = [];
  /** When the lease was last renewed for certain, in ms of `Clock.elapsed`. */
  #leasedAtMs: number | null = null;
  /** When the lease was last there again after it was gone, in ms of `Clock.elapsed`. */
  #restoredAtMs = -Infinity;

  constructor(options: OwnLeaseOptions) {
    this.#options = options;
  }

  /** Whether other replicas that lost their leases as well can still be without them. */
  get wasJustRestored(): boolean {
    const { clock, leaseMs } = this.#options;
    return clock.elapsed() - this.#restoredAtMs < leaseMs;
  }

  /** Whether the lease is gone, or was a moment ago: then the store lost its data. @throws Error of the Redis client */
  async isNew(redis: RedisClient): Promise<boolean> {
    return this.wasJustRestored || (await redis.pttl(this.#options.key)) < 0;
  }

  /** Calls the listener each time that the lease is there again after it was gone. */
  onRestored(listener: () => void): void {
    this.#listeners.push(listener);
  }

  /**
   * Renews the lease, or takes one.
   * @returns what tells the listeners, if it was gone; the caller calls it when it has noted that the store works
   * @throws Error of the Redis client
   */
  async renew(redis: RedisClient): Promise<() => void> {
    const { key, text, leaseMs, clock } = this.#options;
    const sentAtMs = clock.elapsed();
    // Carried out in this order: both have one key.
    const [leftMs] = await Promise.all([redis.pttl(key), redis.set(key, text, 'PX', leaseMs)]);
    // What an outage held up can arrive after it, and renew a lease that was gone. No reply says so.
    const wasGone =
      this.#leasedAtMs !== null && (leftMs < 0 || sentAtMs - this.#leasedAtMs >= leaseMs);
    this.#leasedAtMs = sentAtMs;
    if (!wasGone) return () => {};
    this.#restoredAtMs = clock.elapsed();
    return () => {
      for (const tell of this.#listeners) tell();
    };
  }
}
