/** This process as a member of the fleet in Redis: its connection, its lease, and who else lives. */
import { inBackground } from '../../lib/background.ts';
import type { Clock, Timer } from '../../lib/clock.ts';
import type { KeyRing } from '../../seal/key-ring.ts';
import type { PointerOwner } from '../../seal/pointer.ts';
import { DirectoryUnavailable } from '../../model/store.ts';
import { readLease, writeLease } from './lease-record.ts';
import { findLeases, leaseKey } from './leases.ts';
import { Outage } from './outage.ts';
import { OwnLease } from './own-lease.ts';
import { readClock, type ClockSample } from './fleet-clock.ts';
import {
  createRedis,
  keepConnecting,
  probeRedis,
  type RedisClient,
  unavailable,
  wasNotSent,
} from '../redis/client.ts';
import { addressOf, type RedisOptions } from '../redis/options.ts';

export interface RedisStoreOptions {
  readonly redis: RedisOptions;
  /** The name of the deployment. Deployments that share a Redis do not see each other. */
  readonly audience: string;
  readonly ring: KeyRing<'lease'>;
  /** This replica. */
  readonly owner: PointerOwner;
  readonly clock: Clock;
  /** Jitter for reconnects, in [0, 1). */
  readonly random: () => number;
  /** How long a replica counts as alive after it renewed its lease. */
  readonly leaseMs?: number;
  readonly renewEveryMs?: number;
  /** Called each time that the lease is renewed. */
  readonly onClockSample?: (sample: ClockSample) => void;
}

const [LEASE_MS, RENEW_EVERY_MS] = [5000, 1500];
const INCOMPLETE = 'was unavailable, and some replicas may not have renewed their leases yet';

export class RedisMember {
  readonly #redis: RedisClient;
  readonly #options: RedisStoreOptions;
  /** The address for messages. */
  readonly #store: string;
  /** Of the keys of the deployment. */
  protected readonly prefix: string;
  readonly #leaseMs: number;
  readonly #listeners: ((up: boolean) => void)[] = [];
  readonly #leaseListeners: (() => void)[] = [];
  /** Says what is wrong while the store is unreachable. */
  readonly outage = new Outage();
  readonly #ownLease: OwnLease;
  /** Called each time that the state of the store may have changed. */
  readonly #startChecks = new Set<() => void>();
  #up = false;
  #wasUp = false;
  /** When the store was last away, in ms of `Clock.elapsed`. */
  #awayAtMs = -Infinity;
  #closed = false;
  #started = false;
  #renewal: Timer | undefined;
  /** The last error of the connection: a command only learns that there is no connection. */
  #lastError: unknown;

  /** Creates a member, which is not started. @throws RedisUrlInvalid */
  constructor(options: RedisStoreOptions) {
    this.#redis = createRedis(options.redis, options.random);
    this.#options = options;
    this.#store = addressOf(options.redis);
    // Encoded, so that a brace in the name is not taken for the hash tag of a Cluster key.
    this.prefix = `mrtr:${encodeURIComponent(options.audience)}:`;
    this.#leaseMs = options.leaseMs ?? LEASE_MS;
    const { owner, clock } = options;
    const key = leaseKey(this.prefix, owner.instance);
    const write = () => writeLease(owner, options);
    this.#ownLease = new OwnLease({ key, write, leaseMs: this.#leaseMs, clock });
    this.#redis.on('error', (error: unknown) => this.#onError(error));
    this.#redis.on('node error', (error: unknown) => this.#onError(error));
    this.#redis.on('close', () => this.#onUnreachable(this.#lastError));
    this.#redis.on('ready', () => inBackground(this.#renewLease()));
    keepConnecting(this.#redis, options.clock, () => this.#started && !this.#closed);
  }

  get up(): boolean {
    return this.#up;
  }

  get term(): number | null {
    return this.#ownLease.term;
  }

  onChange(listener: (up: boolean) => void): void {
    this.#listeners.push(listener);
  }

  onLeaseRestored(listener: () => void): void {
    this.#leaseListeners.push(listener);
  }

  async start(waitMs: number): Promise<void> {
    if (!this.#started) {
      this.#started = true;
      // It retries by itself after a failure. `up` and the last error show the result.
      this.#redis.connect().catch((error: unknown) => this.#onError(error));
      this.#keepLease();
    }
    await this.#untilUp(waitMs).catch(async (error: unknown) => {
      if (!(error instanceof DirectoryUnavailable) || error.failure !== 'network') throw error;
      throw unavailable(await probeRedis(this.#options.redis), this.#store);
    });
  }

  async isAlive(instance: string): Promise<boolean> {
    return (await this.renewedAgoMs(instance)) !== null;
  }

  async renewedAgoMs(instance: string): Promise<number | null> {
    const key = leaseKey(this.prefix, instance);
    const leftMs = await this.run((redis) => redis.pttl(key));
    // The clock of Redis was set back since it was renewed: from here on it lasts no longer than any lease does.
    if (leftMs > this.#leaseMs) await this.run((redis) => redis.pexpire(key, this.#leaseMs));
    if (leftMs >= 0) return Math.max(0, this.#leaseMs - leftMs);
    // Leases expire during an outage, and a failover can lose the newest ones. For the lifetime of a lease after it, a live
    // replica may have no lease because it has not reconnected yet.
    if (this.#options.clock.elapsed() - this.#awayAtMs < this.#leaseMs) throw this.incomplete();
    return null;
  }

  /** Finds the replicas that have a lease. @throws Error of the Redis client */
  readonly replicas = () => findLeases(this.#redis, this.prefix, this.#options);

  async endLease(instance: string): Promise<void> {
    await this.run((redis) => redis.del(leaseKey(this.prefix, instance)));
  }

  /** Whether a live replica is known to be possibly without what it had. */
  protected get isKnownIncomplete(): boolean {
    return !this.#up || this.#ownLease.isKnownNew;
  }

  /** Whether no live replica is without what it had: data that was lost is kept again when each has renewed its lease. */
  protected async isComplete(): Promise<boolean> {
    const isNew = await this.run((redis) => this.#ownLease.isNew(redis));
    return this.#up && !isNew;
  }

  /** Adds the address of a replica, if it has a lease. */
  protected async locate(owner: PointerOwner): Promise<PointerOwner> {
    const text = await this.run((redis) => redis.get(leaseKey(this.prefix, owner.instance)));
    const lease = text === null ? null : readLease(text, this.#options);
    return lease?.instance === owner.instance ? { ...owner, ...lease } : owner;
  }

  /** Called each time that the store works. */
  protected onWorks(): void {}

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#renewal?.cancel();
    // Best effort: if the store is unreachable, the lease expires.
    const released = this.#up ? this.endLease(this.#options.owner.instance) : Promise.resolve();
    this.#closed = true;
    await released.catch(() => {});
    this.#redis.disconnect();
    this.#setUp(false);
  }

  protected incomplete(): DirectoryUnavailable {
    return this.wrong(INCOMPLETE, 'incomplete');
  }

  protected wrong(problem: string, failure: 'data' | 'incomplete'): DirectoryUnavailable {
    return new DirectoryUnavailable(failure, `Redis at ${this.#store} ${problem}`);
  }

  protected async run<Reply>(command: (redis: RedisClient) => Promise<Reply>): Promise<Reply> {
    if (this.#closed || !this.#started) {
      throw new DirectoryUnavailable('closed', 'the store is not open');
    }
    try {
      return await command(this.#redis);
    } catch (error) {
      const problem = unavailable(error, this.#store, this.#lastError);
      if (problem.failure !== 'data') this.#onUnreachable(error);
      throw problem;
    }
  }

  /** The lease is also the check of the store: only a successful write shows that it works. */
  async #renewLease(): Promise<void> {
    const sampled = this.#sampleClock();
    try {
      const isRestored = await this.run((redis) => this.#ownLease.renew(redis));
      await sampled;
      this.#lastError = undefined;
      this.#setUp(!this.#closed);
      this.onWorks();
      if (isRestored && !this.#closed) for (const tell of this.#leaseListeners) tell();
    } catch (error) {
      this.#onError(error);
    }
  }

  /** Never rejects: a user that may not call TIME can still use the store. */
  async #sampleClock(): Promise<void> {
    const { onClockSample, clock } = this.#options;
    if (onClockSample === undefined) return;
    // Renewing the lease, at the same time, reports what is wrong with the store.
    await readClock(this.#redis, clock).then(onClockSample, () => {});
  }

  #keepLease(): void {
    this.#renewal = this.#options.clock.setTimer(
      this.#options.renewEveryMs ?? RENEW_EVERY_MS,
      () => {
        inBackground(
          this.#renewLease().finally(() => {
            if (!this.#closed) this.#keepLease();
          }),
        );
      },
    );
  }

  #untilUp(waitMs: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const finish = (end: () => void) => {
        timer.cancel();
        this.#startChecks.delete(check);
        end();
      };
      const fail = () => finish(() => reject(unavailable(this.#lastError, this.#store)));
      const check = () => {
        if (this.#up) finish(resolve);
        else if (unavailable(this.#lastError, this.#store).failure === 'auth') fail();
      };
      const timer = this.#options.clock.setTimer(waitMs, fail);
      this.#startChecks.add(check);
      check();
    });
  }

  #onError(error: unknown): void {
    // Every failure ends with a closed connection; the reason came before it.
    const isReason = error instanceof Error && error.message !== 'Connection is closed.';
    if (isReason || this.#lastError === undefined) this.#lastError = error;
    if (this.#wasUp && !this.#up) this.outage.goOn(unavailable(error, this.#store));
    for (const check of [...this.#startChecks]) check();
  }

  /** Before the first connection is complete, a command that was not sent says nothing about the store. */
  #onUnreachable(error: unknown): void {
    const isStarting = !this.#wasUp && (error === undefined || wasNotSent(error));
    if (!isStarting) this.#awayAtMs = this.#options.clock.elapsed();
    this.#setUp(false, error);
  }

  #setUp(up: boolean, cause?: unknown): void {
    if (this.#up === up) return;
    this.#up = up;
    this.#wasUp ||= up;
    for (const check of [...this.#startChecks]) check();
    // A connection that was closed on purpose says nothing about the store.
    if (this.#closed) return;
    if (!up) this.outage.begin(unavailable(cause, this.#store, this.#lastError));
    for (const listener of this.#listeners) listener(up);
  }
}
