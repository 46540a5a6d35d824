/** What another server says, kept for a while, however many ask for it at a time. */
import type { Clock } from './clock.ts';

/** A value, and how long it is kept, in ms. */
export interface Timed<Value> {
  readonly value: Value;
  readonly keepMs: number;
}

export class Cached<Value> {
  #value: Promise<Value> | null = null;
  /** In ms of `Clock.elapsed`; `Infinity` while it is asked for. */
  #untilMs = -Infinity;

  /**
   * Returns the value that is kept, or asks for it.
   * @param ask must not reject
   */
  get(clock: Pick<Clock, 'elapsed'>, ask: () => Promise<Timed<Value>>): Promise<Value> {
    if (this.#value !== null && this.#untilMs > clock.elapsed()) return this.#value;
    this.#untilMs = Infinity;
    return (this.#value = ask().then(({ value, keepMs }) => {
      this.#untilMs = clock.elapsed() + keepMs;
      return value;
    }));
  }
}
