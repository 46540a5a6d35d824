/**
 * What the workers of one gateway claim, where they have no Redis: the primary has the table, and each worker asks it.
 * A claim ends with its worker; what was kept stays for the next holder.
 */
import { LruMap } from '../../lib/containers.ts';
import {
  DirectoryUnavailable,
  type Claim,
  type Claimable,
  type ClaimStore,
} from '../../model/directory.ts';
import type { Clock } from '../../lib/clock.ts';
import type { PointerOwner } from '../../seal/pointer.ts';

/** What a worker asks of the table. */
export type ClaimRequest =
  | { readonly type: 'claim'; readonly id: string; readonly ttlMs: number }
  | { readonly type: 'release'; readonly id: string; readonly epoch: number }
  | { readonly type: 'keep'; readonly id: string; readonly text: string; readonly ttlMs: number }
  | { readonly type: 'kept' | 'forget'; readonly id: string };

/** The reply to a `claim` or a `kept`; `null` to the others, and where nothing is kept. */
export type ClaimReply = Claim | string | null;

interface Entry {
  readonly holder: PointerOwner | null;
  readonly epoch: number;
  readonly text: string | null;
  readonly expiresAtMs: number;
}

/** The most entries. The one that was not used for the longest time is forgotten first. */
const MAX_ENTRIES = 100_000;
const MAX_ENDED = 1_000;

export class ClaimTable {
  readonly #clock: Clock;
  readonly #entries = new LruMap<string, Entry>(MAX_ENTRIES);
  readonly #ended = new LruMap<string, true>(MAX_ENDED);

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** @param worker who asks */
  answer(request: ClaimRequest, worker: PointerOwner): ClaimReply {
    const entry = this.#find(request.id);
    switch (request.type) {
      case 'claim':
        return this.#claim(request.id, request.ttlMs, entry, worker);
      case 'release':
        if (entry?.holder?.boot === worker.boot && entry.epoch === request.epoch) {
          this.#entries.set(request.id, { ...entry, holder: null });
        }
        return null;
      case 'keep':
        this.#entries.set(request.id, {
          holder: entry?.holder ?? null,
          epoch: entry?.epoch ?? 0,
          text: request.text,
          expiresAtMs: Math.max(entry?.expiresAtMs ?? 0, this.#clock.elapsed() + request.ttlMs),
        });
        return null;
      case 'kept':
        return entry?.text ?? null;
      case 'forget':
        if (entry !== undefined) this.#entries.set(request.id, { ...entry, text: null });
        return null;
    }
  }

  /** Ends the claims of a worker that has ended. */
  leave(boot: string): void {
    this.#ended.set(boot, true);
  }

  #find(id: string): Entry | undefined {
    const entry = this.#entries.get(id);
    return entry !== undefined && entry.expiresAtMs > this.#clock.elapsed() ? entry : undefined;
  }

  #claim(id: string, ttlMs: number, entry: Entry | undefined, worker: PointerOwner): Claim {
    const holder = entry?.holder ?? null;
    const isOwn = holder?.boot === worker.boot;
    if (holder !== null && !isOwn && !this.#ended.has(holder.boot)) {
      return { type: 'held', by: holder };
    }
    const epoch = isOwn ? (entry?.epoch ?? 1) : (entry?.epoch ?? 0) + 1;
    const expiresAtMs = this.#clock.elapsed() + ttlMs;
    this.#entries.set(id, { holder: worker, epoch, text: entry?.text ?? null, expiresAtMs });
    return { type: 'claimed', epoch };
  }
}

/** How long a worker waits for the primary, in ms. */
const REPLY_TIMEOUT_MS = 1_000;

/** The table as a worker sees it. */
export class RemoteClaims implements ClaimStore {
  readonly #clock: Clock;
  readonly #send: (request: number, claim: ClaimRequest) => void;
  readonly #waiting = new Map<number, (reply: ClaimReply) => void>();
  #lastRequest = 0;

  constructor(clock: Clock, send: (request: number, claim: ClaimRequest) => void) {
    this.#clock = clock;
    this.#send = send;
  }

  /** Takes the reply of the primary to a request. */
  receive(request: number, reply: ClaimReply): void {
    this.#waiting.get(request)?.(reply);
  }

  async claim(id: Claimable, ttlMs: number): Promise<Claim> {
    const reply = await this.#ask({ type: 'claim', id, ttlMs });
    if (reply === null || typeof reply === 'string') throw unavailable();
    return reply;
  }

  async release(id: Claimable, epoch: number): Promise<void> {
    await this.#ask({ type: 'release', id, epoch });
  }

  async keep(id: Claimable, sealed: Uint8Array, ttlMs: number): Promise<void> {
    await this.#ask({ type: 'keep', id, text: Buffer.from(sealed).toString('latin1'), ttlMs });
  }

  async kept(id: Claimable): Promise<Uint8Array | null> {
    const reply = await this.#ask({ type: 'kept', id });
    return typeof reply === 'string' ? Buffer.from(reply, 'latin1') : null;
  }

  async forget(id: Claimable): Promise<void> {
    await this.#ask({ type: 'forget', id });
  }

  #ask(claim: ClaimRequest): Promise<ClaimReply> {
    const request = (this.#lastRequest += 1);
    return new Promise((resolve, reject) => {
      const end = () => {
        timer.cancel();
        this.#waiting.delete(request);
      };
      const timer = this.#clock.setTimer(REPLY_TIMEOUT_MS, () => {
        end();
        reject(unavailable());
      });
      this.#waiting.set(request, (reply) => {
        end();
        resolve(reply);
      });
      this.#send(request, claim);
    });
  }
}

function unavailable(): DirectoryUnavailable {
  return new DirectoryUnavailable('timeout', 'the primary does not respond');
}
