/** Whether the stream of a call is open, as the call was told last. */
import type { Clock, Timer } from '../../../lib/clock.ts';
import { HELD_HEAD_MS } from '../../transport/stream-get.ts';
import type { ExchangeListener } from '../call-exchange.ts';

export class StreamStatus {
  readonly #listener: ExchangeListener;
  readonly #clock: Clock;
  #isBroken: boolean;
  #expectsHead = false;
  #held: Timer | null = null;

  constructor(listener: ExchangeListener, clock: Clock, isBroken: boolean) {
    this.#listener = listener;
    this.#clock = clock;
    this.#isBroken = isBroken;
  }

  broke(): void {
    this.end();
    if (this.#isBroken) return;
    this.#isBroken = true;
    this.#listener.interrupted();
  }

  isBack(): void {
    this.end();
    if (!this.#isBroken) return;
    this.#isBroken = false;
    this.#listener.resumed();
  }

  /** The response to the next request is the stream. It is back with its head, which a server can hold back until something happens. */
  expectHead(): void {
    this.end();
    this.#expectsHead = true;
  }

  /** A request is written on a connection. */
  sent(): void {
    if (!this.#expectsHead) return;
    this.#held ??= this.#clock.setTimer(HELD_HEAD_MS, () => this.isBack());
  }

  /** Expects no head any more. */
  end(): void {
    this.#expectsHead = false;
    this.#held?.cancel();
    this.#held = null;
  }
}
