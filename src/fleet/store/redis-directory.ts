/** The directory in Redis. Every key expires, so a deployment that is gone leaves nothing behind. */
import { inBackground } from '../../lib/background.ts';
import type { Clock, Timer } from '../../lib/clock.ts';
import { isHomeId } from '../../protocol/ids.ts';
import type { KeyRing } from '../../seal/key-ring.ts';
import type { PointerOwner } from '../../seal/pointer.ts';
import { CLAIM, RELEASE, readClaim, writeOwner, type ClaimRecord } from './claim-record.ts';
import {
  DirectoryUnavailable,
  type Claim,
  type Claimable,
  type Directory,
  type Keepable,
} from '../../model/directory.ts';
import { writeLease } from './lease-record.ts';
import { findLeases, leaseKey, leaseLeftMs, locate } from './leases.ts';
import { Outage } from './outage.ts';
import { OwnLease } from './own-lease.ts';
import { UnreleasedClaims } from './unreleased-claims.ts';
import { readClock, type ClockSample } from './fleet-clock.ts';
import {
  createRedis,
  keepConnecting,
  probeRedis,
  type RedisClient,
  unavailable,
  wasNotSent,
  wholeMs,
} from '../redis/client.ts';
import { addressOf, type RedisOptions } from '../redis/options.ts';

export interface RedisDirectoryOptions {
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

/** What the keys of a home are called. */
const KEYS_OF_HOMES = {
  claim: 'holder',
  token: 'token',
  outcome: 'session',
} as const;
const [LEASE_MS, RENEW_EVERY_MS] = [5000, 1500];
/** How many dead holders of one call a claim replaces. More means that other replicas claim it, too. */
const MAX_TAKEOVERS = 3;
const INCOMPLETE = 'was unavailable, and some replicas may not have renewed their leases yet';

export class RedisDirectory implements Directory {
  readonly #redis: RedisClient;
  readonly #options: RedisDirectoryOptions;
  /** The address for messages. */
  readonly #store: string;
  readonly #prefix: string;
  readonly #ownerText: string;
  readonly #leaseMs: number;
  readonly #listeners: ((up: boolean) => void)[] = [];
  /** Says what is wrong while the store is unreachable. */
  readonly outage = new Outage();
  readonly #ownLease: OwnLease;
  readonly #unreleased = new UnreleasedClaims();
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

  /** Creates a directory, which is not started. @throws RedisUrlInvalid */
  constructor(options: RedisDirectoryOptions) {
    this.#redis = createRedis(options.redis, options.random);
    this.#options = options;
    this.#store = addressOf(options.redis);
    // Encoded, so that a brace in the name is not taken for the hash tag of a Cluster key.
    this.#prefix = `mrtr:${encodeURIComponent(options.audience)}:`;
    this.#ownerText = writeOwner(options.owner);
    this.#leaseMs = options.leaseMs ?? LEASE_MS;
    const { owner, clock } = options;
    const key = leaseKey(this.#prefix, owner.instance);
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
    this.#ownLease.onRestored(listener);
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

  /**
   * Takes two steps, since a claim and a lease are on different Cluster slots: check that the holder's lease has
   * expired, then replace exactly the claim that was read. If another replica was faster, its claim has another
   * text and stays. A holder that renews its lease in between has lost the call, as it would have a moment
   * earlier: its fencing token is over, and `holderOf` returns another holder.
   */
  async claim(call: Claimable, ttlMs: number): Promise<Claim> {
    return this.#unreleased.replace(call, () => this.#claim(call, ttlMs));
  }

  async #claim(call: Claimable, ttlMs: number): Promise<Claim> {
    let replaceable = '';
    for (let takeovers = 0; ; takeovers++) {
      const outcome = await this.#claimUnlessHeld(call, ttlMs, replaceable);
      if (outcome.type === 'claimed') return outcome;
      const { owner } = outcome.existing;
      if (takeovers === MAX_TAKEOVERS || (await this.isAlive(owner.instance))) {
        const by = await this.#run((redis) => locate(redis, this.#prefix, owner, this.#options));
        return { type: 'held', by };
      }
      replaceable = outcome.text;
    }
  }

  async holderOf(id: Claimable): Promise<ClaimRecord | null> {
    const text = await this.#run((redis) => redis.get(this.#callKey(id, 'claim')));
    return text === null ? null : this.#read(text);
  }

  async release(call: Claimable, fencingToken: number | null): Promise<void> {
    const key = this.#callKey(call, 'claim');
    try {
      await this.#run((redis) => redis.eval(RELEASE, 1, key, this.#ownerText, fencingToken ?? ''));
    } catch (error) {
      // What is no claim is none of this replica.
      const isClaim = !(error instanceof DirectoryUnavailable && error.failure === 'data');
      if (isClaim) this.#unreleased.add(call, fencingToken);
      throw error;
    }
  }

  async isAlive(instance: string): Promise<boolean> {
    return (await this.renewedAgoMs(instance)) !== null;
  }

  async renewedAgoMs(instance: string): Promise<number | null> {
    const key = leaseKey(this.#prefix, instance);
    const leftMs = await this.#run((redis) => leaseLeftMs(redis, key, this.#leaseMs));
    if (leftMs >= 0) return Math.max(0, this.#leaseMs - leftMs);
    // Leases expire during an outage, and a failover can lose the newest ones. For the lifetime of a lease after it, a live
    // replica may have no lease because it has not reconnected yet.
    if (this.#options.clock.elapsed() - this.#awayAtMs < this.#leaseMs)
      throw this.#wrong(INCOMPLETE);
    return null;
  }

  /** Finds the replicas that have a lease. @throws Error of the Redis client */
  readonly replicas = () => findLeases(this.#redis, this.#prefix, this.#options);

  async endLease(instance: string): Promise<void> {
    await this.#run((redis) => redis.del(leaseKey(this.#prefix, instance)));
  }

  async keep(call: Keepable, sealed: Uint8Array, ttlMs: number): Promise<void> {
    const [key, bytes] = [this.#callKey(call, 'outcome'), Buffer.from(sealed)];
    await this.#run((redis) => redis.set(key, bytes, 'PX', wholeMs(ttlMs)));
  }

  async kept(call: Keepable): Promise<Uint8Array | null> {
    return this.#run((redis) => redis.getBuffer(this.#callKey(call, 'outcome')));
  }

  async forget(call: Claimable): Promise<void> {
    await this.#run((redis) => redis.del(this.#callKey(call, 'outcome')));
  }

  /** Data that was lost is kept again when each replica has renewed its lease: what is gone is seen from a lease that is gone. */
  async requireComplete(claimed?: Claimable): Promise<void> {
    const isNew = await this.#run((redis) => this.#ownLease.isNew(redis));
    if (this.#up && !isNew) return;
    const holder = claimed === undefined ? null : await this.holderOf(claimed);
    if (holder === null) throw this.#wrong(INCOMPLETE);
  }

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

  async #claimUnlessHeld(call: Claimable, ttlMs: number, replaceable: string) {
    const [claim, fencingToken] = [this.#callKey(call, 'claim'), this.#callKey(call, 'token')];
    const args = [this.#ownerText, wholeMs(ttlMs), replaceable] as const;
    const reply = await this.#run((redis) => redis.eval(CLAIM, 2, claim, fencingToken, ...args));
    const [won, value] = Array.isArray(reply) ? (reply as unknown[]) : [];
    if (won === 1 && typeof value === 'number')
      return { type: 'claimed', fencingToken: value } as const;
    const text = typeof value === 'string' ? value : '';
    return { type: 'held', text, existing: this.#read(text) } as const;
  }

  /** The holder of an unreadable claim is unknown, so no replica may take the call until the claim expires. */
  #read(text: string): ClaimRecord {
    const claim = readClaim(text);
    if (claim === null) throw this.#wrong('holds a claim that this version cannot read', 'data');
    return claim;
  }

  #wrong(problem: string, failure: 'data' | 'incomplete' = 'incomplete'): DirectoryUnavailable {
    return new DirectoryUnavailable(failure, `Redis at ${this.#store} ${problem}`);
  }

  async #run<Reply>(command: (redis: RedisClient) => Promise<Reply>): Promise<Reply> {
    if (this.#closed || !this.#started) {
      throw new DirectoryUnavailable('closed', 'the directory is not open');
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
      const tell = await this.#run((redis) => this.#ownLease.renew(redis));
      await sampled;
      this.#lastError = undefined;
      this.#setUp(!this.#closed);
      this.#releaseAgain();
      if (!this.#closed) tell();
    } catch (error) {
      this.#onError(error);
    }
  }

  /** Releases what could not be released: until then no other replica could take the calls. */
  #releaseAgain(): void {
    for (const [call, fencingToken] of this.#unreleased.takeAll()) {
      this.release(call, fencingToken).catch(() => {});
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

  /** The braces choose the Cluster slot: all keys of a call are on the same one. */
  #callKey(call: Keepable, name: 'claim' | 'token' | 'outcome'): string {
    return `${this.#prefix}{${call}}:${isHomeId(call) ? KEYS_OF_HOMES[name] : name}`;
  }
}
