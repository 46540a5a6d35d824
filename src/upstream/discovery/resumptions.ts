/** Learns whether a server sends new events on a resumed stream at once (transports, "Resumability and Redelivery"). */
import type { Clock } from '../../lib/clock.ts';
import type { RouteLog } from '../../ops/route-log.ts';

/**
 * What became of a stream that was resumed.
 * - `delivered`: the reply came on it when the server had it
 * - `late`: the reply came with a later resumption only, or the head of the response came with the reply only
 * - `refused`: the server did not resume the stream
 */
export type ResumptionOutcome = 'delivered' | 'late' | 'refused';

/** How long what fails outweighs what works, in ms. */
const DISTRUST_MS = 600_000;

export class Resumptions {
  readonly #clock: Clock;
  readonly #log: RouteLog | undefined;
  #delivers = false;
  #distrustedUntilMs = 0;

  /** @param log is told each change of mind. At first, the server does not deliver */
  constructor(clock: Clock, log?: RouteLog) {
    this.#clock = clock;
    this.#log = log;
  }

  /** Whether a reply was seen to be delivered, and nothing has failed since. */
  get deliver(): boolean {
    return this.#delivers;
  }

  note(outcome: ResumptionOutcome): void {
    const nowMs = this.#clock.elapsed();
    const delivers = outcome === 'delivered';
    if (!delivers) this.#distrustedUntilMs = nowMs + DISTRUST_MS;
    if (delivers === this.#delivers || (delivers && nowMs < this.#distrustedUntilMs)) return;
    this.#delivers = delivers;
    this.#log?.event('upstream.resumption', { delivers, cause: outcome });
  }
}
