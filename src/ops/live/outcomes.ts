/** How calls ended lately, by route: a few numbers for each bar of a plot. */
import type { Clock } from '../../lib/clock.ts';
import { BUCKET_MS, BUCKETS, eachSeries, SERIES, type LiveRoute, type Series } from './snapshot.ts';

interface History {
  /** `BUCKETS` values of each series, at the number of the bucket modulo `BUCKETS`. */
  readonly values: Float64Array;
  newest: number;
}

/** Ends of calls that their clients or the operator wanted. */
const STOPPED: ReadonlySet<string> = new Set(['declined', 'cancelled', 'stopped']);

export class Outcomes {
  readonly #clock: Pick<Clock, 'now'>;
  readonly #routes = new Map<string, History>();

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
    const history = this.#historyOf(route);
    add(history, seriesOf(end, errorType), 1);
    add(history, 'serverMs', workMs);
  }

  /** Notes a request that a limit refused, or whose `requestState` is not valid. */
  refused(route: string): void {
    add(this.#historyOf(route), 'refused', 1);
  }

  /** Notes how long people took for an answer, in ms. */
  answered(route: string, ms: number): void {
    add(this.#historyOf(route), 'peopleMs', ms);
  }

  /** Returns the plots of a route, whose last bars are those of now. */
  of(route: string): LiveRoute['recent'] {
    const { bucket } = this;
    const history = this.#routes.get(route);
    return eachSeries((one) =>
      Array.from({ length: BUCKETS }, (_, at) => {
        const number = bucket - BUCKETS + 1 + at;
        const isKept =
          history !== undefined && number <= history.newest && number > history.newest - BUCKETS;
        return isKept ? (history.values[placeOf(one, number)] ?? 0) : 0;
      }),
    );
  }

  #historyOf(route: string): History {
    const { bucket } = this;
    let history = this.#routes.get(route);
    if (history === undefined) {
      history = { values: new Float64Array(SERIES.length * BUCKETS), newest: bucket };
      this.#routes.set(route, history);
    }
    // Clears what was there a turn of the ring ago.
    const first = Math.max(history.newest + 1, bucket - BUCKETS + 1);
    for (let number = first; number <= bucket; number += 1) {
      for (const series of SERIES) history.values[placeOf(series, number)] = 0;
    }
    history.newest = Math.max(history.newest, bucket);
    return history;
  }
}

function add(history: History, series: Series, value: number): void {
  const place = placeOf(series, history.newest);
  history.values[place] = (history.values[place] ?? 0) + Math.max(0, value);
}

function placeOf(series: Series, bucket: number): number {
  return SERIES.indexOf(series) * BUCKETS + (bucket % BUCKETS);
}

function seriesOf(end: string, errorType: string | null): Series {
  if (end === 'expired') return 'abandoned';
  if (STOPPED.has(end)) return 'stopped';
  return end === 'complete' && errorType === null ? 'succeeded' : 'failed';
}
