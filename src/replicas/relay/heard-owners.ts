/**
 * When other replicas were heard last. What one retry hears of its owner holds for all others that the
 * same process was asked for: under load each of them may be silent for long.
 */
import type { Clock } from '../../lib/clock.ts';
import { LruMap } from '../../lib/lru-map.ts';

/** How long a replica that says nothing may be alive all the same, where no lease tells, in ms. */
const MAY_LIVE_MS = 10_000;
/** A silence of which nobody took notice for so long says nothing of now, in ms. */
const FORGOTTEN_MS = 60_000;
const MAX_OWNERS = 10_000;

interface Owner {
  heardAtMs: number | null;
  /** When it was first asked in vain since then. */
  silentSinceMs: number | null;
  askedAtMs: number;
}

export class HeardOwners {
  readonly #clock: Pick<Clock, 'elapsed'>;
  readonly #owners = new LruMap<string, Owner>(MAX_OWNERS);

  constructor(clock: Pick<Clock, 'elapsed'>) {
    this.#clock = clock;
  }

  /** The process is asked now. */
  asked(boot: string): void {
    const nowMs = this.#clock.elapsed();
    const {
      heardAtMs = null,
      silentSinceMs = null,
      askedAtMs = nowMs,
    } = this.#owners.get(boot) ?? {};
    const isForgotten = nowMs - askedAtMs > FORGOTTEN_MS;
    this.#owners.set(boot, {
      heardAtMs,
      silentSinceMs: isForgotten ? nowMs : (silentSinceMs ?? nowMs),
      askedAtMs: nowMs,
    });
  }

  heard(boot: string): void {
    const nowMs = this.#clock.elapsed();
    const { askedAtMs = nowMs } = this.#owners.get(boot) ?? {};
    this.#owners.set(boot, { heardAtMs: nowMs, silentSinceMs: null, askedAtMs });
  }

  /** How long ago anything came from the process, in ms; infinite when nothing ever did. */
  heardAgoMs(boot: string): number {
    const heardAtMs = this.#owners.get(boot)?.heardAtMs ?? -Infinity;
    return this.#clock.elapsed() - heardAtMs;
  }

  /** False for a process that was asked in vain for so long that it is taken for dead. */
  mayLive(boot: string): boolean {
    const silentSinceMs = this.#owners.get(boot)?.silentSinceMs ?? null;
    return silentSinceMs === null || this.#clock.elapsed() - silentSinceMs < MAY_LIVE_MS;
  }
}
