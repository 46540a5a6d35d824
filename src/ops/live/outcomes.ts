/** How calls ended lately, by route: a few numbers for each bar of a plot. */
import type { Clock } from '../../lib/clock.ts';
import { BUCKET_MS, BUCKETS, eachSeries, type LiveRoute, type Series } from './snapshot.ts';

type Bar = Partial<Record<Series, number>>;

/** Ends of calls that their clients or the operator wanted. */
const STOPPED: ReadonlySet<string> = new Set(['declined', 'cancelled', 'stopped']);

export class Outcomes {
  readonly #clock: Pick<Clock, 'now'>;
  /** The bars of each route, by the number of their bucket. */
  readonly #routes = new Map<string, Map<number, Bar>>();

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock;
  }

  /** The number of the current bucket. */
  get bucket(): number {
    return Math.floor(this.#clock.now() / BUCKET_MS);
  }

  /**
   * Notes that a call ended.
   * @param end how, as in the log. A call that was left goes on elsewhere.
   * @param errorType as in the log; `null` for a success
   * @param workMs the time that the server took
   */
  ended(route: string, end: string, errorType: string | null, workMs: number): void {
    if (end === 'left') return;
    this.add(route, seriesOf(end, errorType), 1);
    this.add(route, 'serverMs', workMs);
  }

  /** Adds to the bar of now. */
  add(route: string, series: Series, value: number): void {
    const { bucket } = this;
    const bars = this.#routes.get(route) ?? new Map<number, Bar>();
    this.#routes.set(route, bars);
    const bar = bars.get(bucket) ?? {};
    bar[series] = (bar[series] ?? 0) + Math.max(0, value);
    if (bars.has(bucket)) return;
    bars.set(bucket, bar);
    // No plot has them any more. A clock that is set back makes some of them later ones.
    for (const one of bars.keys()) if (Math.abs(one - bucket) >= BUCKETS) bars.delete(one);
  }

  /** Returns the plots of a route, whose last bars are those of now. */
  of(route: string): LiveRoute['recent'] {
    const bars = this.#routes.get(route);
    const first = this.bucket - BUCKETS + 1;
    return eachSeries((one) =>
      Array.from({ length: BUCKETS }, (_, at) => bars?.get(first + at)?.[one] ?? 0),
    );
  }
}

function seriesOf(end: string, errorType: string | null): Series {
  if (end === 'expired') return 'abandoned';
  if (STOPPED.has(end)) return 'stopped';
  return end === 'complete' && errorType === null ? 'succeeded' : 'failed';
}
