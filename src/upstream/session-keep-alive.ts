/** Pings that keep a server from expiring a session which waits for its client. */
import type { Clock, Timer } from '../clock.ts';
import { asUpstreamFailure, type UpstreamFailure } from './upstream-failure.ts';

const MAX_FAILED_PINGS = 2;

export interface KeepAliveOptions {
  readonly clock: Clock;
  readonly intervalMs: number;
  /** Sends a ping; rejects with UpstreamFailure when it is not answered. */
  readonly ping: () => Promise<unknown>;
  readonly isDead: () => boolean;
  /** Called when the server must be taken for gone. */
  readonly gone: (failure: UpstreamFailure) => void;
}

export class KeepAlive {
  readonly #options: KeepAliveOptions;
  #timer: Timer | null = null;
  #failed = 0;

  constructor(options: KeepAliveOptions) {
    this.#options = options;
  }

  /** Starts the pings, anew if they go on already, or stops them. */
  set(on: boolean): void {
    this.#timer?.cancel();
    this.#timer = null;
    const { clock, intervalMs, isDead } = this.#options;
    if (!on || isDead()) return;
    this.#timer = clock.setTimer(intervalMs, () => void this.#ping());
  }

  async #ping(): Promise<void> {
    const { ping, gone } = this.#options;
    try {
      await ping();
      this.#failed = 0;
    } catch (error) {
      this.#failed += 1;
      const failure = asUpstreamFailure(error, true);
      if (failure.code === 'session_gone' || this.#failed >= MAX_FAILED_PINGS) gone(failure);
    }
    this.set(this.#timer !== null);
  }
}
