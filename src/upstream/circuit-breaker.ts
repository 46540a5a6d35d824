/** Finds out from the responses of a server whether it is down, so that it is left alone for a while. */
import type { Clock } from '../lib/clock.ts';

export interface CircuitBreakerOptions {
  /** `null` if the server never counts as down. */
  readonly consecutiveFailures: number | null;
  readonly openForMs: number;
  readonly maxOpenForMs: number;
  /** The statuses that count as failures. */
  readonly statuses: readonly number[];
  /** Called when the server begins to count as down, and when it responds again. */
  readonly onChange: (isOpen: boolean) => void;
  /** Jitter in [0, 1), so that replicas do not try at the same time. */
  readonly random: () => number;
}

export class CircuitBreaker {
  readonly #options: CircuitBreakerOptions;
  readonly #clock: Pick<Clock, 'elapsed'>;
  #failures = 0;
  /** When the next request is tried, in ms of `Clock.elapsed`; `null` while the server counts as up. */
  #openUntilMs: number | null = null;
  #openForMs = 0;
  /** Whether a request was tried whose outcome is not known. */
  #isTrying = false;

  constructor(options: CircuitBreakerOptions, clock: Pick<Clock, 'elapsed'>) {
    this.#options = options;
    this.#clock = clock;
  }

  get isOpen(): boolean {
    return this.#openUntilMs !== null;
  }

  /** How long requests have to wait, in ms; 0 if one can be sent. */
  get waitMs(): number {
    if (this.#openUntilMs === null) return 0;
    return Math.max(0, Math.ceil(this.#openUntilMs - this.#clock.elapsed()));
  }

  /**
   * Lets a request through that is then sent, or refuses it. While the server counts as down, one request is tried in each
   * interval.
   * @returns how long to wait, in ms; 0 if the request can be sent
   */
  admit(): number {
    const { waitMs } = this;
    if (this.#openUntilMs !== null && waitMs === 0) {
      this.#isTrying = true;
      this.#stayOpen();
    }
    return waitMs;
  }

  /** Notes what became of a request. @param status of the response; `null` if there is none */
  readonly ended = (status: number | null): void => {
    const { consecutiveFailures, statuses, maxOpenForMs, openForMs } = this.#options;
    if (consecutiveFailures === null) return;
    if (status !== null && !statuses.includes(status)) return this.#close();
    if (this.#openUntilMs !== null) {
      // Requests that were sent before say nothing new.
      if (!this.#isTrying) return;
      this.#isTrying = false;
      this.#openForMs = Math.min(this.#openForMs * 2, maxOpenForMs);
      return this.#stayOpen();
    }
    this.#failures += 1;
    if (this.#failures < consecutiveFailures) return;
    this.#openForMs = Math.min(openForMs, maxOpenForMs);
    this.#stayOpen();
    this.#options.onChange(true);
  };

  #stayOpen(): void {
    const jitter = 0.75 + this.#options.random() / 2;
    this.#openUntilMs = this.#clock.elapsed() + this.#openForMs * jitter;
  }

  #close(): void {
    this.#failures = 0;
    this.#isTrying = false;
    if (this.#openUntilMs === null) return;
    this.#openUntilMs = null;
    this.#options.onChange(false);
  }
}
