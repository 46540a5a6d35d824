/**
 * The directory in Redis. A replica's lease and a call's claim expire by themselves, and so does every
 * other key: a fleet that is gone leaves nothing behind.
 */
import type { Clock, Timer } from '../../lib/clock.ts';
import type { CallId } from '../../protocol/ids.ts';
import type { PointerOwner } from '../../seal/pointer.ts';
import {
  CLAIM,
  RELEASE,
  readClaim,
  writeClaim,
  writeOwner,
  type ClaimRecord,
} from './claim-record.ts';
import { DirectoryUnavailable, type Claim, type Directory } from '../../model/directory.ts';
import type { ClockSample } from './fleet-clock.ts';
import { createRedis, neverGiveUp, type RedisClient } from '../redis/client.ts';
import { addressOf, type RedisOptions } from '../redis/options.ts';
import { unavailable } from '../redis/failure.ts';
import { probe } from '../redis/probe.ts';

export interface RedisDirectoryOptions {
  readonly redis: RedisOptions;
  /** The name of the fleet; fleets that share a Redis do not see each other. */
  readonly audience: string;
  /** This replica. */
  readonly owner: PointerOwner;
  readonly clock: Clock;
  /** Jitter for reconnects, in [0, 1). */
  readonly random: () => number;
  /** How long a replica counts as alive after its last sign of life. */
  readonly leaseMs?: number;
  readonly renewEveryMs?: number;
  /** Called with a look at the store's clock each time that the lease is renewed. */
  readonly onClockSample?: (sample: ClockSample) => void;
}

const LEASE_MS = 5000;
const RENEW_EVERY_MS = 1500;
/** How many dead holders of one call a claim deals with; each more means that others race for it too. */
const MOST_TAKEOVERS = 3;

/** In: where Redis is and who this replica is. Out: its directory, before `start`. Throws `RedisUrlInvalid`. */
export function createRedisDirectory(options: RedisDirectoryOptions): Directory {
  return new RedisDirectory(options);
}

class RedisDirectory implements Directory {
  readonly #redis: RedisClient;
  readonly #options: RedisOptions;
  readonly #store: string;
  readonly #prefix: string;
  readonly #owner: PointerOwner;
  readonly #ownerText: string;
  readonly #clock: Clock;
  readonly #leaseMs: number;
  readonly #renewEveryMs: number;
  readonly #onClockSample: ((sample: ClockSample) => void) | undefined;
  readonly #listeners: ((up: boolean) => void)[] = [];
  /** Called whenever there is news of the store, good or bad. */
  readonly #starting = new Set<() => void>();
  #up = false;
  /** When the store was last seen to be away, in ms of `Clock.elapsed`. */
  #awayAtMs = -Infinity;
  #closed = false;
  #started = false;
  #renewal: Timer | undefined;
  /** What the connection last failed with: the commands themselves only learn that there is none. */
  #lastError: unknown;

  constructor(options: RedisDirectoryOptions) {
    this.#redis = createRedis(options.redis, options.random);
    this.#options = options.redis;
    this.#store = addressOf(options.redis);
    // Encoded, so that a brace in the fleet's name is not taken for the tag that picks the slot.
    this.#prefix = `mrtr:${encodeURIComponent(options.audience)}:`;
    this.#owner = options.owner;
    this.#ownerText = writeOwner(options.owner);
    this.#clock = options.clock;
    this.#leaseMs = options.leaseMs ?? LEASE_MS;
    this.#renewEveryMs = options.renewEveryMs ?? RENEW_EVERY_MS;
    this.#onClockSample = options.onClockSample;
    this.#redis.on('error', (error: unknown) => this.#failed(error));
    this.#redis.on('node error', (error: unknown) => this.#failed(error));
    this.#redis.on('close', () => this.#wentAway());
    this.#redis.on('ready', () => void this.#renewLease());
    neverGiveUp(this.#redis, options.clock, () => this.#started && !this.#closed);
  }

  get up(): boolean {
    return this.#up;
  }

  onChange(listener: (up: boolean) => void): void {
    this.#listeners.push(listener);
  }

  async start(waitMs: number): Promise<void> {
    if (!this.#started) {
      this.#started = true;
      // It goes on by itself after a failure; what came of it is seen in `up` and the last error.
      this.#redis.connect().catch((error: unknown) => this.#failed(error));
      this.#keepLease();
    }
    await this.#untilUp(waitMs).catch(async (error: unknown) => {
      if (!(error instanceof DirectoryUnavailable) || error.failure !== 'network') throw error;
      throw unavailable(await probe(this.#options), this.#store);
    });
  }

  /**
   * Two steps, because a call and a lease are on different Cluster slots: see that the holder's lease
   * is gone, then replace exactly the claim that was seen. If another replica was faster, its claim is
   * another text and stands. If the holder came back in between, it has lost the call all the same,
   * as it would have a moment earlier; its epoch is past, and `holderOf` tells it of another holder.
   */
  async claim(call: CallId, ttlMs: number): Promise<Claim> {
    let replaceable = '';
    for (let takeovers = 0; ; takeovers++) {
      const outcome = await this.#claimUnlessHeld(call, ttlMs, replaceable);
      if (outcome.type === 'claimed') return outcome;
      const { owner } = outcome.standing;
      if (takeovers === MOST_TAKEOVERS || (await this.isAlive(owner.boot))) {
        return { type: 'held', by: owner };
      }
      replaceable = outcome.text;
    }
  }

  async holderOf(call: CallId): Promise<ClaimRecord | null> {
    const text = await this.#run((redis) => redis.get(this.#callKey(call, 'claim')));
    return text === null ? null : this.#read(text);
  }

  async release(call: CallId, epoch: number): Promise<void> {
    const text = writeClaim(this.#ownerText, epoch);
    await this.#run((redis) => redis.eval(RELEASE, 1, this.#callKey(call, 'claim'), text));
  }

  async isAlive(boot: string): Promise<boolean> {
    return (await this.renewedAgoMs(boot)) !== null;
  }

  async renewedAgoMs(boot: string): Promise<number | null> {
    const leftMs = await this.#run((redis) => redis.pttl(this.#leaseKey(boot)));
    if (leftMs >= 0) return Math.max(0, this.#leaseMs - leftMs);
    this.#requireRenewedLeases();
    return null;
  }

  async keepOutcome(call: CallId, sealed: Uint8Array, ttlMs: number): Promise<void> {
    const value = Buffer.from(sealed);
    await this.#run((redis) =>
      redis.set(this.#callKey(call, 'outcome'), value, 'PX', wholeMs(ttlMs)),
    );
  }

  async outcomeOf(call: CallId): Promise<Uint8Array | null> {
    return this.#run((redis) => redis.getBuffer(this.#callKey(call, 'outcome')));
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#renewal?.cancel();
    const lease = this.#leaseKey(this.#owner.boot);
    // Best effort: where the store is away, the lease ends by itself.
    const givenUp = this.#up ? this.#run((redis) => redis.del(lease)) : Promise.resolve(0);
    this.#closed = true;
    await givenUp.catch(() => 0);
    this.#redis.disconnect();
    this.#setUp(false);
  }

  async #claimUnlessHeld(call: CallId, ttlMs: number, replaceable: string) {
    const keys = [this.#callKey(call, 'claim'), this.#callKey(call, 'epoch')] as const;
    const reply = await this.#run((redis) =>
      redis.eval(CLAIM, 2, ...keys, this.#ownerText, wholeMs(ttlMs), replaceable),
    );
    const [won, value]: unknown[] = Array.isArray(reply) ? reply : [];
    if (won === 1 && typeof value === 'number') return { type: 'claimed', epoch: value } as const;
    if (typeof value !== 'string') throw this.#unreadable();
    return { type: 'held', text: value, standing: this.#read(value) } as const;
  }

  /** Who holds a claim that we cannot read is not known, so nobody may act on it until it expires. */
  #read(text: string): ClaimRecord {
    const claim = readClaim(text);
    if (claim === null) throw this.#unreadable();
    return claim;
  }

  #unreadable(): DirectoryUnavailable {
    return new DirectoryUnavailable(
      'store',
      `Redis at ${this.#store} holds a claim that this version cannot read`,
    );
  }

  async #run<Reply>(command: (redis: RedisClient) => Promise<Reply>): Promise<Reply> {
    if (this.#closed || !this.#started) {
      throw new DirectoryUnavailable('closed', 'the directory is not open');
    }
    try {
      return await command(this.#redis);
    } catch (error) {
      this.#wentAway();
      throw unavailable(error, this.#store, this.#lastError);
    }
  }

  /**
   * Leases expire while the store is away, and one that fails over may lose the newest: for the time of a
   * lease after that, a replica without one may only not have reconnected yet.
   */
  #requireRenewedLeases(): void {
    if (this.#clock.elapsed() - this.#awayAtMs >= this.#leaseMs) return;
    throw new DirectoryUnavailable(
      'store',
      `Redis at ${this.#store} was away, and not every replica may have renewed its lease yet`,
    );
  }

  /** The lease is the heartbeat: only a write that went through shows that the store does its work. */
  async #renewLease(): Promise<void> {
    const { boot } = this.#owner;
    const looked = this.#lookAtClock();
    try {
      await this.#run((redis) =>
        redis.set(this.#leaseKey(boot), this.#ownerText, 'PX', this.#leaseMs),
      );
      await looked;
      this.#lastError = undefined;
      this.#setUp(!this.#closed);
    } catch (error) {
      this.#failed(error);
    }
  }

  /** Never rejects: a store that does not tell the time (an ACL without TIME) is as good as any other. */
  async #lookAtClock(): Promise<void> {
    if (this.#onClockSample === undefined) return;
    const askedAtMs = this.#clock.now();
    try {
      const [seconds, microseconds] = await this.#redis.time();
      const storeMs = Number(seconds) * 1000 + Number(microseconds) / 1000;
      this.#onClockSample({ storeMs, askedAtMs, answeredAtMs: this.#clock.now() });
    } catch {
      // The lease, which is renewed at the same time, tells what is wrong with the store.
    }
  }

  #keepLease(): void {
    this.#renewal = this.#clock.setTimer(this.#renewEveryMs, () => {
      void this.#renewLease().finally(() => {
        if (!this.#closed) this.#keepLease();
      });
    });
  }

  #untilUp(waitMs: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const finish = (settle: () => void) => {
        timer.cancel();
        this.#starting.delete(look);
        settle();
      };
      const fail = () => finish(() => reject(unavailable(this.#lastError, this.#store)));
      const look = () => {
        if (this.#up) finish(resolve);
        else if (unavailable(this.#lastError, this.#store).failure === 'auth') fail();
      };
      const timer = this.#clock.setTimer(waitMs, fail);
      this.#starting.add(look);
      this.#redis.on('error', look);
      look();
    });
  }

  #failed(error: unknown): void {
    // That the connection closed is how every failure ends; the reason came before it.
    const isReason = error instanceof Error && error.message !== 'Connection is closed.';
    if (isReason || this.#lastError === undefined) this.#lastError = error;
    for (const look of [...this.#starting]) look();
  }

  #wentAway(): void {
    this.#awayAtMs = this.#clock.elapsed();
    this.#setUp(false);
  }

  #setUp(up: boolean): void {
    if (this.#up === up) return;
    this.#up = up;
    for (const look of [...this.#starting]) look();
    // A connection that is closed on purpose says nothing about the store.
    if (this.#closed) return;
    for (const listener of this.#listeners) listener(up);
  }

  /** The braces choose the Cluster slot: all keys of a call are on one. */
  #callKey(call: CallId, name: 'claim' | 'epoch' | 'outcome'): string {
    return `${this.#prefix}{${call}}:${name}`;
  }

  #leaseKey(boot: string): string {
    return `${this.#prefix}{${encodeURIComponent(boot)}}:lease`;
  }
}

/** Redis counts in whole milliseconds, from 1. */
function wholeMs(ms: number): number {
  return Math.max(1, Math.ceil(ms));
}
