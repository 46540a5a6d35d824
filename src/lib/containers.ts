import type { Clock } from './clock.ts';

/** A map that evicts the least recently used entry if it exceeds its size. */
export class LruMap<Key, Value> {
  readonly #max: number;
  /** Least recently used first. */
  readonly #entries = new Map<Key, Value>();
  /**
   * Stands before the least recently used key. A new iterator for each eviction would step over the places of all
   * entries that were deleted before, which can be as many as the map is large. It begins with the first eviction: an
   * iterator that never moves keeps each table that the map has outgrown.
   */
  #oldest: MapIterator<Key> | undefined;
  /** The key of the last entry: it is often used several times in a row. */
  #newest: Key | undefined;

  constructor(max: number) {
    this.#max = max;
  }

  /** Tells whether an entry exists, without counting as a use. */
  has(key: Key): boolean {
    return this.#entries.has(key);
  }

  get(key: Key): Value | undefined {
    const value = this.#entries.get(key);
    if (value === undefined || key === this.#newest) return value;
    this.#entries.delete(key);
    this.#entries.set(key, value);
    this.#newest = key;
    return value;
  }

  set(key: Key, value: Value): void {
    if (key !== this.#newest) this.#entries.delete(key);
    this.#entries.set(key, value);
    this.#newest = key;
    if (this.#entries.size <= this.#max) return;
    this.#oldest ??= this.#entries.keys();
    const oldest = this.#oldest.next();
    if (!oldest.done) this.#entries.delete(oldest.value);
  }

  delete(key: Key): void {
    this.#entries.delete(key);
  }

  /** Removes all entries. @returns them, the least recently used first */
  takeAll(): [Key, Value][] {
    const entries = [...this.#entries];
    this.#entries.clear();
    return entries;
  }

  clear(): void {
    this.#entries.clear();
  }
}

/**
 * A map that keeps the last entries, at least `min` and at most twice as many. Unlike `LruMap` it does not count uses, and
 * deletes no single entry, so that it costs little where every call adds one.
 */
export class RecentMap<Key, Value> {
  readonly #min: number;
  #newer = new Map<Key, Value>();
  #older = new Map<Key, Value>();

  constructor(min: number) {
    this.#min = min;
  }

  has(key: Key): boolean {
    return this.#newer.has(key) || this.#older.has(key);
  }

  get(key: Key): Value | undefined {
    return this.#newer.get(key) ?? this.#older.get(key);
  }

  set(key: Key, value: Value): void {
    if (this.#newer.size >= this.#min && !this.#newer.has(key)) {
      this.#older = this.#newer;
      this.#newer = new Map();
    }
    this.#newer.set(key, value);
  }
}

/** A set whose members expire, so that it cannot grow without limit. */
export class TtlSet<Member> {
  readonly #clock: Clock;
  readonly #lifetimeMs: number;
  /** When each member expires, oldest first. */
  readonly #members = new Map<Member, number>();

  constructor(clock: Clock, lifetimeMs: number) {
    this.#clock = clock;
    this.#lifetimeMs = lifetimeMs;
  }

  add(member: Member): void {
    this.#forgetExpired();
    this.#members.delete(member);
    this.#members.set(member, this.#clock.now() + this.#lifetimeMs);
  }

  delete(member: Member): void {
    this.#members.delete(member);
  }

  has(member: Member): boolean {
    return (this.#members.get(member) ?? 0) > this.#clock.now();
  }

  get size(): number {
    this.#forgetExpired();
    return this.#members.size;
  }

  #forgetExpired(): void {
    const nowMs = this.#clock.now();
    for (const [oldest, expiresAtMs] of this.#members) {
      if (expiresAtMs > nowMs) return;
      this.#members.delete(oldest);
    }
  }
}
