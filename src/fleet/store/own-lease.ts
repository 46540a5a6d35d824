/** The lease of this process in Redis. The other replicas take a process without one for dead. */
import type { Clock } from '../../lib/clock.ts';
import type { RedisClient } from '../redis/client.ts';

export interface OwnLeaseOptions {
  readonly key: string;
  /** Writes what it says. */
  readonly write: () => string;
  readonly leaseMs: number;
  readonly clock: Pick<Clock, 'elapsed'>;
}

export class OwnLease {
  readonly #options: OwnLeaseOptions;
  /** When the lease was last renewed for certain, in ms of `Clock.elapsed`. */
  #leasedAtMs: number | null = null;
  /** Whether the lease was found to be gone, and is not there again. */
  #isGone = false;
  /** When the lease was last there again after it was gone, in ms of `Clock.elapsed`. */
  #restoredAtMs = -Infinity;
  /** How often the lease began. */
  #terms = 0;

  constructor(options: OwnLeaseOptions) {
    this.#options = options;
  }

  /** Which lease this is, of those that were lost and taken again; `null` unless the others certainly find it. */
  get term(): number | null {
    const { clock, leaseMs } = this.#options;
    const isOver = this.#leasedAtMs === null || clock.elapsed() - this.#leasedAtMs >= leaseMs;
    return isOver || this.#isGone ? null : this.#terms;
  }

  /**
   * Whether the lease is known to be gone, or was a moment ago: then the store lost its data, and other replicas that lost their leases
   * as well can still be without them.
   */
  get isKnownNew(): boolean {
    const { clock, leaseMs } = this.#options;
    return this.#isGone || clock.elapsed() - this.#restoredAtMs < leaseMs;
  }

  /** Whether the lease is gone, or was a moment ago. @throws Error of the Redis client */
  async isNew(redis: RedisClient): Promise<boolean> {
    return this.isKnownNew || (await redis.pttl(this.#options.key)) < 0;
  }

  /**
   * Renews the lease, or takes one.
   * @returns whether it is there again after it was gone
   * @throws Error of the Redis client
   */
  async renew(redis: RedisClient): Promise<boolean> {
    const { key, write, leaseMs, clock } = this.#options;
    const sentAtMs = clock.elapsed();
    if (!(await this.#extend(redis, sentAtMs))) await redis.set(key, write(), 'PX', leaseMs);
    const isFirst = this.#leasedAtMs === null;
    this.#leasedAtMs = sentAtMs;
    if (isFirst || this.#isGone) this.#terms += 1;
    if (!this.#isGone) return false;
    this.#isGone = false;
    this.#restoredAtMs = clock.elapsed();
    return true;
  }

  /**
   * Renews the lease if it is there, and notes if it is gone. A lease that is gone is made again only once this process knows it: the
   * reply of a renewal can be lost, and the next one would find a lease that nobody could tell from the one before. Nor does what
   * an outage held up make a lease again when it arrives.
   * @returns whether it is there
   */
  async #extend(redis: RedisClient, nowMs: number): Promise<boolean> {
    const { key, write, leaseMs } = this.#options;
    if (this.#leasedAtMs === null || this.#isGone) return false;
    const isThere = (await redis.set(key, write(), 'PX', leaseMs, 'XX')) !== null;
    // Others may have found it gone, whatever the store has now.
    this.#isGone ||= !isThere || nowMs - this.#leasedAtMs >= leaseMs;
    return isThere;
  }
}
