/**
 * Which ways of the network are cut. What is sent on one that is cut waits, as TCP sends it again, and arrives when it is whole
 * again; so do connects. A way has one direction: a cut way from a server to a client is a client that reads slowly.
 */
import { placeOf } from './places.ts';

/** Every place. */
export const EVERYWHERE = '*';

export class Links {
  readonly #cut = new Set<string>();
  readonly #refusing = new Set<string>();
  readonly #onWhole = new Set<() => void>();

  cut(from: string, to: string): void {
    this.#cut.add(wayOf(from, to));
  }

  /** Ends a cut. What has waited goes on. */
  mend(from: string, to: string): void {
    if (this.#cut.delete(wayOf(from, to))) this.#goOn();
  }

  /** Ends all cuts and refusals. */
  mendAll(): void {
    this.#cut.clear();
    this.#refusing.clear();
    this.#goOn();
  }

  /** Whether what a process sends to another is on its way for as long as the way is cut. */
  isCut(from: string, to: string): boolean {
    if (this.#cut.size === 0) return false;
    const [here, there] = [placeOf(from), placeOf(to)];
    return [wayOf(here, there), wayOf(here, EVERYWHERE), wayOf(EVERYWHERE, there)].some((way) =>
      this.#cut.has(way),
    );
  }

  /** From now on a place refuses connections, or takes them again. */
  refuse(place: string, refuses: boolean): void {
    if (refuses) this.#refusing.add(place);
    else this.#refusing.delete(place);
  }

  refuses(owner: string): boolean {
    return this.#refusing.has(placeOf(owner));
  }

  /** Calls `listener` once, when a cut ends. */
  onWhole(listener: () => void): void {
    this.#onWhole.add(listener);
  }

  #goOn(): void {
    const waiting = [...this.#onWhole];
    this.#onWhole.clear();
    for (const goOn of waiting) goOn();
  }
}

function wayOf(from: string, to: string): string {
  return `${from}>${to}`;
}
