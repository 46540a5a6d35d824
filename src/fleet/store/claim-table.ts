/**
 * Claims without Redis: a table of who has which home. The primary of several workers has one, and each worker asks it. A claim ends with the process of its holder; what was kept stays for the next holder.
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

/** What a process asks of the table. */
export type ClaimRequest =
  | { readonly type: 'claim'; readonly id: string; readonly ttlMs: number }
  | { readonly type: 'release'; readonly id: string; readonly fencingToken: number }
  | { readonly type: 'keep'; readonly id: string; readonly text: string; readonly ttlMs: number }
  | { readonly type: 'kept' | 'forget'; readonly id: string };

/** The reply to a `claim` or a `kept`; `null` to the others, and where nothing is kept. */
export type ClaimReply = Claim | string | null;

/** What the table says of one claim. */
interface ClaimEntry {
  readonly holder: PointerOwner | null;
  readonly fencingToken: number;
  readonly text: string | null;
  readonly ttlMs: number;
}

interface ClaimRow extends Omit<ClaimEntry, 'ttlMs'> {
  readonly expiresAtMs: number;
}

/** The most entries. The one that was not used for the longest time is forgotten first. */
const MAX_ENTRIES = 100_000;
const NOTHING = { holder: null, fencingToken: 0, text: null, ttlMs: 0 } as const;

export class ClaimTable {
  readonly #clock: Clock;
  readonly #hasEnded: (instance: string) => boolean;
  readonly #rows = new LruMap<string, ClaimRow>(MAX_ENTRIES);

  /** @param hasEnded tells whether a process has ended, so that its claims can be taken over */
  constructor(clock: Clock, hasEnded: (instance: string) => boolean) {
    this.#clock = clock;
    this.#hasEnded = hasEnded;
  }

  /** @param holder who asks */
  answer(request: ClaimRequest, holder: PointerOwner): ClaimReply {
    const { id, type } = request;
    const entry = this.#find(id);
    const { fencingToken, ttlMs } = entry ?? NOTHING;
    switch (type) {
      case 'claim':
        return this.#claim(id, request.ttlMs, entry, holder);
      case 'release':
        if (entry?.holder?.instance === holder.instance && fencingToken === request.fencingToken) {
          this.#set(id, { ...entry, holder: null });
        }
        return null;
      case 'keep':
        this.#set(id, {
          ...(entry ?? NOTHING),
          text: request.text,
          ttlMs: Math.max(ttlMs, request.ttlMs),
        });
        return null;
      case 'kept':
        return entry?.text ?? null;
      case 'forget':
        if (entry !== null) this.#set(id, { ...entry, text: null });
        return null;
    }
  }

  #find(id: string): ClaimEntry | null {
    const row = this.#rows.get(id);
    if (row === undefined) return null;
    const { expiresAtMs, ...entry } = row;
    const ttlMs = expiresAtMs - this.#clock.elapsed();
    return ttlMs > 0 ? { ...entry, ttlMs } : null;
  }

  #set(id: string, { ttlMs, ...entry }: ClaimEntry): void {
    this.#rows.set(id, { ...entry, expiresAtMs: this.#clock.elapsed() + ttlMs });
  }

  #claim(id: string, ttlMs: number, entry: ClaimEntry | null, holder: PointerOwner): Claim {
    const { holder: other, fencingToken: last, text } = entry ?? NOTHING;
    const isOwn = other?.instance === holder.instance;
    if (other !== null && !isOwn && !this.#hasEnded(other.instance))
      return { type: 'held', by: other };
    const fencingToken = isOwn ? last : last + 1;
    this.#set(id, { holder, fencingToken, text, ttlMs });
    return { type: 'claimed', fencingToken };
  }
}

/** How long a process waits for the table, in ms: far longer than a primary takes that responds at all. */
const REPLY_TIMEOUT_MS = 4_000;

/** The table as the process sees it that asks. */
export class RemoteClaims implements ClaimStore {
  readonly #clock: Clock;
  readonly #send: (request: number, claim: ClaimRequest) => void;
  readonly #waiting = new Map<number, (reply: ClaimReply) => void>();
  readonly up = true;
  /** A claim ends with its process. */
  readonly term = 1;
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
    if (reply === null || typeof reply === 'string') throw tableUnavailable();
    return reply;
  }

  async release(id: Claimable, fencingToken: number): Promise<void> {
    await this.#ask({ type: 'release', id, fencingToken });
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

  /** The table does not outlive the processes that use it, nor they the table. */
  async requireComplete(): Promise<void> {}

  #ask(claim: ClaimRequest): Promise<ClaimReply> {
    const request = (this.#lastRequest += 1);
    return new Promise((resolve, reject) => {
      const end = () => {
        timer.cancel();
        this.#waiting.delete(request);
      };
      const timer = this.#clock.setTimer(REPLY_TIMEOUT_MS, () => {
        end();
        reject(tableUnavailable());
      });
      this.#waiting.set(request, (reply) => {
        end();
        resolve(reply);
      });
      this.#send(request, claim);
    });
  }
}

function tableUnavailable(): DirectoryUnavailable {
  return new DirectoryUnavailable(
    'timeout',
    'the process that assigns sessions to callers does not respond',
  );
}
