/**
 * Containers for what comes and goes with each call.
 *
 * A `Map` or `Set` of V8 gets a new table after so many deletions, and the table before points to the new one. As soon as
 * one table has reached the old generation, it keeps all that come after it, with what was in them, until the whole
 * heap is collected. So calls that ended long ago would be moved to the old generation, each of them. What these
 * containers leave behind points to nothing.
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
