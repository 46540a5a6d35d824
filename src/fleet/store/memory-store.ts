/**
 * The store of processes on one machine: one of them has it, such as the primary of several workers. A claim ends with the process of
 * its holder; what was kept stays for the next holder.
 */
import type { Clock } from '../../lib/clock.ts';
import type { ClaimsAndBytes, HeldClaim, Part } from '../../model/store.ts';
import type { PointerOwner } from '../../seal/pointer.ts';

/** What is kept of an id. */
interface Row {
  /** The last claim, also of one who has it no more. */
  last: (HeldClaim & { readonly untilMs: number }) | null;
  /** Until when that counts as held, in ms of `Clock.elapsed`. */
  heldUntilMs: number;
  readonly parts: Map<Part, KeptBytes>;
}

interface KeptBytes {
  readonly sealed: Uint8Array;
  /** The instance that has ended them; `null` if they can change. */
  readonly endedBy: string | null;
  readonly untilMs: number;
}

/** The most rows that nobody has. The one that was written to least recently is forgotten first. */
const MAX_ROWS = 100_000;
/** How many rows are looked at each time that one is written, to forget what has expired: more than are added. */
const LOOKS_A_WRITE = 2;
/** How many rows are looked at to forget one: if somebody has them all, they stay. */
const MAX_LOOKS = 100;

export class MemoryStore {
  readonly #clock: Clock;
  readonly #hasEnded: (instance: string) => boolean;
  readonly #rows = new Map<string, Row>();
  /** Goes round them, to forget those of which nothing is left. */
  #sweep = this.#rows.entries();

  /** @param hasEnded tells whether a process has ended, so that its claims can be taken over */
  constructor(clock: Clock, hasEnded: (instance: string) => boolean) {
    this.#clock = clock;
    this.#hasEnded = hasEnded;
  }

  /** Returns the store as one process has it. */
  of(owner: PointerOwner): ClaimsAndBytes {
    const mayWrite = (row: Row, fencingToken: number | null) => {
      const last = this.#lastOf(row);
      return (
        last === null ||
        (last.fencingToken === fencingToken && last.owner.instance === owner.instance)
      );
    };
    const own: ClaimsAndBytes = {
      claim: async (id, ttlMs) => {
        const row = this.#write(id);
        const last = this.#lastOf(row);
        const holder = this.#holderOf(row);
        const isOwn = holder?.owner.instance === owner.instance;
        if (holder !== null && !isOwn && !this.#hasEnded(holder.owner.instance)) {
          return { type: 'held', by: holder.owner };
        }
        const fencingToken = (last?.fencingToken ?? 0) + (isOwn ? 0 : 1);
        const untilMs = Math.max(this.#until(2 * ttlMs), last?.untilMs ?? 0);
        row.last = { owner, fencingToken, untilMs };
        row.heldUntilMs = this.#until(ttlMs);
        return { type: 'claimed', fencingToken };
      },
      claimAndRead: async (id, part, ttlMs) => {
        const claim = await own.claim(id, ttlMs);
        return { claim, kept: await own.read(id, part) };
      },
      holderOf: async (id) => {
        const row = this.#rows.get(id);
        const holder = row === undefined ? null : this.#holderOf(row);
        return holder && { owner: holder.owner, fencingToken: holder.fencingToken };
      },
      release: async (id, fencingToken) => {
        const row = this.#rows.get(id);
        const holder = row === undefined ? null : this.#holderOf(row);
        const isOwn = holder?.owner.instance === owner.instance;
        const isMeant = fencingToken === null || holder?.fencingToken === fencingToken;
        if (row !== undefined && isOwn && isMeant) row.heldUntilMs = 0;
      },
      state: async (id, part, sealed, ttlMs, fencingToken) => {
        const row = this.#write(id);
        if (!mayWrite(row, fencingToken)) return 'lost';
        if ((this.#keptOf(row, part)?.endedBy ?? null) !== null) return 'ended';
        row.parts.set(part, { sealed, endedBy: null, untilMs: this.#until(ttlMs) });
        return 'kept';
      },
      end: async (id, part, sealed, ttlMs) => {
        const row = this.#write(id);
        const { instance } = owner;
        if ((this.#keptOf(row, part)?.endedBy ?? instance) !== instance) return 'ended';
        row.parts.set(part, { sealed, endedBy: instance, untilMs: this.#until(ttlMs) });
        return 'kept';
      },
      read: async (id, part) => {
        const row = this.#rows.get(id);
        return (row && this.#keptOf(row, part)?.sealed) ?? null;
      },
      forget: async (id, part, fencingToken) => {
        const row = this.#rows.get(id);
        if (row !== undefined && mayWrite(row, fencingToken)) row.parts.delete(part);
      },
      isAlive: async (instance) => !this.#hasEnded(instance),
    };
    return own;
  }

  /** @returns the row of an id, as the one that was written to last */
  #write(id: string): Row {
    for (let looks = 0; looks < LOOKS_A_WRITE; looks += 1) this.#sweepOne();
    this.#makeRoom();
    const row = this.#rows.get(id) ?? { last: null, heldUntilMs: 0, parts: new Map() };
    this.#rows.delete(id);
    this.#rows.set(id, row);
    return row;
  }

  #sweepOne(): void {
    const { value, done = false } = this.#sweep.next();
    if (done) this.#sweep = this.#rows.entries();
    if (value === undefined) return;
    const [id, row] = value;
    for (const part of [...row.parts.keys()]) this.#keptOf(row, part);
    if (row.parts.size === 0 && this.#lastOf(row) === null) this.#rows.delete(id);
  }

  #makeRoom(): void {
    let looks = 0;
    for (const [id, row] of this.#rows) {
      if (this.#rows.size < MAX_ROWS || looks === MAX_LOOKS) return;
      looks += 1;
      this.#rows.delete(id);
      if (this.#holderOf(row) !== null) this.#rows.set(id, row);
    }
  }

  #until(ttlMs: number): number {
    return this.#clock.elapsed() + ttlMs;
  }

  #lastOf({ last }: Row): Row['last'] {
    return last !== null && last.untilMs > this.#clock.elapsed() ? last : null;
  }

  #holderOf(row: Row): Row['last'] {
    return row.heldUntilMs > this.#clock.elapsed() ? this.#lastOf(row) : null;
  }

  #keptOf({ parts }: Row, part: Part): KeptBytes | null {
    const kept = parts.get(part);
    if (kept !== undefined && kept.untilMs > this.#clock.elapsed()) return kept;
    parts.delete(part);
    return null;
  }
}
