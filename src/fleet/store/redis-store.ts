/** The store in Redis. Every key expires, so a deployment that is gone leaves nothing behind. */
import {
  DirectoryUnavailable,
  type Claim,
  type ClaimAndBytes,
  type Directory,
  type HeldClaim,
  type Keepable,
  type Part,
  type Written,
} from '../../model/store.ts';
import type { HomeId } from '../../protocol/ids.ts';
import { wholeMs } from '../redis/client.ts';
import { RedisMember, type RedisStoreOptions } from './redis-member.ts';
import {
  CLAIM,
  END,
  KEEP_END,
  readBytes,
  readClaim,
  RELEASE,
  STATE,
  STATE_LINE,
  writeClaim,
  writeOwner,
} from './redis-scripts.ts';
import { UnreleasedClaims } from './unreleased-claims.ts';

/** How many dead holders of one claim another one replaces. More means that other replicas claim it, too. */
const MAX_TAKEOVERS = 3;
/** What the scripts reply that keep bytes. */
const WRITTEN: readonly Written[] = ['lost', 'kept', 'ended'];

export class RedisStore extends RedisMember implements Directory {
  readonly #owner: string;
  readonly #instance: string;
  readonly #unreleased = new UnreleasedClaims();

  /** Creates a store, which is not started. @throws RedisUrlInvalid */
  constructor(options: RedisStoreOptions) {
    super(options);
    this.#owner = writeOwner(options.owner);
    this.#instance = options.owner.instance;
  }

  /**
   * Takes two steps, since a claim and a lease are on different Cluster slots: check that the holder's lease has
   * expired, then replace exactly the claim that was read. If another replica was faster, its claim has another
   * text and stays. A holder that renews its lease in between has lost the call, as it would have a moment
   * earlier: its fencing token is over, and `holderOf` returns another holder.
   */
  async claim(id: HomeId, ttlMs: number): Promise<Claim> {
    return this.#unreleased.replace(id, async () => (await this.#claim(id, ttlMs)).claim);
  }

  /**
   * Takes one round trip, if there is nothing to take over: it is known only afterwards whether the store was complete. If it was not,
   * what was claimed anew is taken back without a trace, since a live process would lose what it is about to claim again. A process
   * whose lease may have expired looks first: in a store that has lost nothing, others can claim the same number after it.
   */
  async claimAndRead(id: HomeId, part: Part, ttlMs: number): Promise<ClaimAndBytes> {
    if (this.isKnownIncomplete || (this.term === null && !(await this.isComplete()))) {
      const isKnown = (await this.holderOf(id)) !== null || (await this.read(id, part)) !== null;
      if (!isKnown) throw this.incomplete();
    }
    const [isComplete, { claim, hasReplaced }, read] = await Promise.all([
      this.isComplete(),
      this.#unreleased.replace(id, () => this.#claim(id, ttlMs)),
      this.read(id, part),
    ]);
    // Until it was replaced, the former holder could still keep something.
    const kept = hasReplaced ? await this.read(id, part) : read;
    const isNew = claim.type === 'claimed' && claim.fencingToken === 1 && kept === null;
    if (isComplete || !isNew) return { claim, kept };
    const keys = [this.#key(id, 'claim'), this.#key(id, 'token')];
    await this.run((redis) => redis.eval(RELEASE, 2, ...keys, this.#owner, 1));
    throw this.incomplete();
  }

  async holderOf(id: HomeId): Promise<HeldClaim | null> {
    const text = await this.run((redis) => redis.get(this.#key(id, 'claim')));
    return text === null ? null : this.#read(text);
  }

  async release(id: HomeId, fencingToken: number | null): Promise<void> {
    const key = this.#key(id, 'claim');
    try {
      await this.run((redis) => redis.eval(RELEASE, 1, key, this.#owner, fencingToken ?? ''));
    } catch (error) {
      // What is no claim is none of this replica.
      const isClaim = !(error instanceof DirectoryUnavailable && error.failure === 'data');
      if (isClaim) this.#unreleased.add(id, fencingToken);
      throw error;
    }
  }

  state(
    id: Keepable,
    part: Part,
    sealed: Uint8Array,
    ttlMs: number,
    fencingToken: number | null,
  ): Promise<Written> {
    const value = Buffer.concat([Buffer.from(STATE_LINE), sealed]);
    return this.#change(id, part, value, ttlMs, fencingToken);
  }

  async end(id: Keepable, part: Part, sealed: Uint8Array, ttlMs: number): Promise<Written> {
    const line = `${END}${this.#instance}\n`;
    const value = Buffer.concat([Buffer.from(line), sealed]);
    const key = this.#key(id, part);
    const reply = await this.run((redis) =>
      redis.eval(KEEP_END, 1, key, line, wholeMs(ttlMs), value),
    );
    return writtenOf(reply);
  }

  async read(id: Keepable, part: Part): Promise<Uint8Array | null> {
    const value = await this.run((redis) => redis.getBuffer(this.#key(id, part)));
    return value && readBytes(value);
  }

  async forget(id: HomeId, part: Part, fencingToken: number | null): Promise<void> {
    await this.#change(id, part, '', 1, fencingToken);
  }

  async requireComplete(): Promise<void> {
    if (!(await this.isComplete())) throw this.incomplete();
  }

  /** Releases what could not be released: until then no other replica could take it. */
  protected override onWorks(): void {
    for (const [id, fencingToken] of this.#unreleased.takeAll()) {
      this.release(id, fencingToken).catch(() => {});
    }
  }

  async #claim(
    id: HomeId,
    ttlMs: number,
  ): Promise<{ readonly claim: Claim; readonly hasReplaced: boolean }> {
    const keys = [this.#key(id, 'claim'), this.#key(id, 'token')];
    let replaceable = '';
    for (let takeovers = 0; ; takeovers++) {
      const args = [...keys, this.#owner, wholeMs(ttlMs), replaceable];
      const reply = await this.run((redis) => redis.eval(CLAIM, 2, ...args));
      const [won, value] = Array.isArray(reply) ? (reply as unknown[]) : [];
      if (won === 1 && typeof value === 'number') {
        return { claim: { type: 'claimed', fencingToken: value }, hasReplaced: takeovers > 0 };
      }
      const text = typeof value === 'string' ? value : '';
      const { owner } = this.#read(text);
      const [isAlive, by] = await Promise.all([this.isAlive(owner.instance), this.locate(owner)]);
      if (takeovers === MAX_TAKEOVERS || isAlive) {
        return { claim: { type: 'held', by }, hasReplaced: false };
      }
      replaceable = text;
    }
  }

  async #change(
    id: Keepable,
    part: Part,
    value: Buffer | '',
    ttlMs: number,
    fencingToken: number | null,
  ): Promise<Written> {
    const keys = [this.#key(id, 'token'), this.#key(id, part)];
    const own = fencingToken === null ? '' : writeClaim(fencingToken, this.#owner);
    const args = [...keys, own, wholeMs(ttlMs), value];
    return writtenOf(await this.run((redis) => redis.eval(STATE, 2, ...args)));
  }

  /** The holder of an unreadable claim is unknown, so no replica may take it until the claim expires. */
  #read(text: string): HeldClaim {
    const claim = readClaim(text);
    if (claim === null) throw this.wrong('holds a claim that this version cannot read', 'data');
    return claim;
  }

  /** The braces choose the Cluster slot: all keys of an id are on the same one. */
  #key(id: Keepable, name: 'claim' | 'token' | Part): string {
    return `${this.prefix}{${id}}:${name}`;
  }
}

function writtenOf(reply: unknown): Written {
  return WRITTEN[Number(reply)] ?? 'lost';
}
