/**
 * Maps, sets and rings for what calls add and remove, at little cost to a call.
 *
 * A `Map` or `Set` of V8 gets a new table after so many deletions, and the table before points to the new one. As soon as
 * one table has reached the old generation, it keeps all that come after it, with what was in them, until the whole
 * heap is collected. So calls that ended long ago would be moved to the old generation, each of them. What
 * `ReleasingMap` and `Members` leave behind points to nothing; `RecentMap` deletes no single entry.
 */

/** What can be read of a `Map`, and of a `ReleasingMap`. */
export interface Entries<Key, Value> extends Iterable<readonly [Key, Value]> {
  readonly size: number;
  has(key: Key): boolean;
  get(key: Key): Value | undefined;
  keys(): Iterable<Key>;
  values(): Iterable<Value>;
}

/** A map that lets a value go as soon as it is deleted. Its keys should be small. */
export class ReleasingMap<Key, Value extends object> implements Entries<Key, Value> {
  readonly #cells = new Map<Key, Cell<Value>>();

  get size(): number {
    return this.#cells.size;
  }

  has(key: Key): boolean {
    return this.#cells.has(key);
  }

  get(key: Key): Value | undefined {
    return this.#cells.get(key)?.value;
  }

  set(key: Key, value: Value): void {
    const cell = this.#cells.get(key);
    if (cell === undefined) this.#cells.set(key, { value });
    else cell.value = value;
  }

  delete(key: Key): void {
    const cell = this.#cells.get(key);
    if (cell === undefined) return;
    cell.value = undefined;
    this.#cells.delete(key);
  }

  keys(): Iterable<Key> {
    return this.#cells.keys();
  }

  *values(): Generator<Value, void> {
    for (const { value } of this.#cells.values()) if (value !== undefined) yield value;
  }

  *[Symbol.iterator](): Generator<readonly [Key, Value], void> {
    for (const [key, { value }] of this.#cells) if (value !== undefined) yield [key, value];
  }
}

/** What the tables of a map hold in place of a value. */
interface Cell<Value> {
  value: Value | undefined;
}

/**
 * A place in a ring of places, in the order in which they came. It is alone until it joins others; one that left holds none of
 * them, and none of them holds it.
 */
export class RingPlace {
  next: this = this;
  #previous: this = this;

  putBefore(other: this): void {
    this.#previous = other.#previous;
    this.next = other;
    this.#previous.next = this;
    other.#previous = this;
  }

  /** It does nothing if this has left. */
  leave(): void {
    this.#previous.next = this.next;
    this.next.#previous = this.#previous;
    this.next = this;
    this.#previous = this;
  }
}

/** Objects in the order in which they came. Each leaves by its own place. */
export class Members<Member extends object> {
  /** The end of a ring of places. */
  readonly #end = new Place<Member>(undefined);

  add(member: Member): Place<Member> {
    const place = new Place(member);
    place.putBefore(this.#end);
    return place;
  }

  *[Symbol.iterator](): Generator<Member, void> {
    const places: Place<Member>[] = [];
    for (let place = this.#end.next; place !== this.#end; place = place.next) places.push(place);
    // Some can leave meanwhile.
    for (const { member } of places) if (member !== undefined) yield member;
  }
}

/** The place of one object among `Members`. */
export class Place<Member extends object> extends RingPlace {
  #member: Member | undefined;

  constructor(member: Member | undefined) {
    super();
    this.#member = member;
  }

  /** `undefined` once the object has left. */
  get member(): Member | undefined {
    return this.#member;
  }

  override leave(): void {
    super.leave();
    this.#member = undefined;
  }
}

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
  readonly #clock: { elapsed(): number };
  #lifetimeMs: number;
  /** When each member expires, oldest first. */
  readonly #members = new Map<Member, number>();

  constructor(clock: { elapsed(): number }, lifetimeMs: number) {
    this.#clock = clock;
    this.#lifetimeMs = lifetimeMs;
  }

  /** Lets the members that are added from here on live at least so long. */
  extend(lifetimeMs: number): void {
    this.#lifetimeMs = Math.max(this.#lifetimeMs, lifetimeMs);
  }

  add(member: Member): void {
    this.#forgetExpired();
    this.#members.delete(member);
    this.#members.set(member, this.#clock.elapsed() + this.#lifetimeMs);
  }

  delete(member: Member): void {
    this.#members.delete(member);
  }

  has(member: Member): boolean {
    return (this.#members.get(member) ?? 0) > this.#clock.elapsed();
  }

  get size(): number {
    this.#forgetExpired();
    return this.#members.size;
  }

  #forgetExpired(): void {
    const nowMs = this.#clock.elapsed();
    for (const [oldest, expiresAtMs] of this.#members) {
      if (expiresAtMs > nowMs) return;
      this.#members.delete(oldest);
    }
  }
}
