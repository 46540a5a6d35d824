/** The line that shows, on a terminal only, what is measured and how long it still takes. */
export interface Step {
  readonly name: string;
  /** How long it takes on a quiet machine, in ms. */
  readonly estimateMs: number;
}

/** Where the line is written; `process.stderr` is one. */
export interface Screen {
  readonly isTTY?: boolean;
  readonly columns?: number;
  write(text: string): unknown;
}

/** Before that share of all the work is done, the pace of this machine is not known, and 1 is assumed. */
const PACE_IS_KNOWN = 0.03;
const REFRESH_MS = 500;

export class Progress {
  readonly #steps: readonly Step[];
  readonly #screen: Screen | null;
  readonly #now: () => number;
  readonly #startedAt: number;
  readonly #timer: NodeJS.Timeout | null;
  #current = 0;
  #share = 0;

  /**
   * @param steps the parts of the run, in their order
   * @param screen nothing is written unless it is a terminal
   * @param now the time in ms
   */
  constructor(steps: readonly Step[], screen: Screen, now: () => number) {
    this.#steps = steps;
    this.#screen = screen.isTTY === true ? screen : null;
    this.#now = now;
    this.#startedAt = now();
    this.#timer = this.#screen === null ? null : setInterval(() => this.#draw(), REFRESH_MS);
    this.#timer?.unref();
  }

  /** Shows that this part is measured now. */
  begin(index: number): void {
    this.#current = index;
    this.done(0);
  }

  /** Shows which share of the part is done, from 0 to 1. */
  done(share: number): void {
    this.#share = Math.min(1, share);
    this.#draw();
  }

  /** Removes the line. */
  end(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#screen?.write(CLEAR_LINE);
  }

  #draw(): void {
    if (this.#screen === null) return;
    const line = this.#line().slice(0, (this.#screen.columns ?? 80) - 1);
    this.#screen.write(`${CLEAR_LINE}${line}`);
  }

  #line(): string {
    const step = this.#steps[this.#current];
    const elapsedMs = this.#now() - this.#startedAt;
    return [
      `[${this.#current + 1}/${this.#steps.length}] ${step?.name ?? ''} ${Math.floor(this.#share * 100)} %`,
      `${minutes(elapsedMs)} elapsed`,
      `about ${minutes(this.#leftMs(elapsedMs))} left`,
    ].join(', ');
  }

  #leftMs(elapsedMs: number): number {
    const estimates = this.#steps.map(({ estimateMs }) => estimateMs);
    const all = estimates.reduce((sum, ms) => sum + ms, 0);
    const before = estimates.slice(0, this.#current).reduce((sum, ms) => sum + ms, 0);
    const doneMs = before + (estimates[this.#current] ?? 0) * this.#share;
    const pace = doneMs > all * PACE_IS_KNOWN ? elapsedMs / doneMs : 1;
    return (all - doneMs) * pace;
  }
}

const CLEAR_LINE = '\r\u001B[2K';

function minutes(ms: number): string {
  const seconds = Math.round(ms / 1_000);
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`;
}
