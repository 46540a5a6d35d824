/** Delays the start of processes whose last ones have crashed, so that a broken server is not started in a loop. */
import type { Clock } from '../../../lib/clock.ts';
import { LruMap } from '../../../lib/containers.ts';
import { UpstreamFailure } from '../../../model/upstream-failure.ts';

export interface EndedProcess {
  readonly problem: string;
  /** True if the gateway did not want the end. */
  readonly isCrash: boolean;
  /** Whether it had replied to anything. */
  readonly hasSpoken: boolean;
  readonly livedMs: number;
}

interface Crashes {
  readonly count: number;
  readonly lastProblem: string;
  readonly untilMs: number;
}

const FIRST_DELAY_MS = 500;
const MAX_DELAY_MS = 30_000;
/** A process that lived for so long did not crash because of its start, in ms. */
const STEADY_MS = 60_000;
const MAX_OWNERS = 1_000;

export class StartDelays {
  readonly #clock: Clock;
  /** By owner, so that one who crashes the server delays nobody else. */
  readonly #crashes = new LruMap<string, Crashes>(MAX_OWNERS);

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** @throws UpstreamFailure if the next process must not start yet */
  check(owner: string): void {
    const crashes = this.#crashes.get(owner);
    const waitMs = Math.ceil((crashes?.untilMs ?? 0) - this.#clock.elapsed());
    if (crashes === undefined || waitMs <= 0) return;
    const problem = `${crashes.lastProblem} (${crashes.count} times in a row; the next start is allowed in ${waitMs} ms)`;
    const details = { mayHaveActed: false, retryAfterMs: waitMs };
    throw new UpstreamFailure('upstream_unavailable', problem, details);
  }

  ended(owner: string, { problem, isCrash, hasSpoken, livedMs }: EndedProcess): void {
    if (livedMs >= STEADY_MS) this.#crashes.delete(owner);
    if (!isCrash) return;
    const count = (this.#crashes.get(owner)?.count ?? 0) + 1;
    // A server that worked is started again at once the first time.
    const isFree = hasSpoken && count === 1;
    const delayMs = isFree ? 0 : Math.min(FIRST_DELAY_MS * 2 ** (count - 1), MAX_DELAY_MS);
    const untilMs = this.#clock.elapsed() + delayMs;
    this.#crashes.set(owner, { count, lastProblem: problem, untilMs });
  }
}
