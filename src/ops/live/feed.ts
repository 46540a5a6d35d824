/** Takes snapshots while somebody looks: one for all viewers, and none if there are none. */
import { inBackground } from '../../lib/background.ts';
import type { Clock, Timer } from '../../lib/clock.ts';
import type { LiveSnapshot } from './snapshot.ts';

/** How often viewers get a snapshot, and how old one can be, in ms. */
const TICK_MS = 1_000;
const MAX_VIEWERS = 20;

/** Gets each snapshot as JSON. */
export interface Viewer {
  show(json: string): void;
  /** Called when no further snapshot comes. */
  end(): void;
}

export class LiveFeed {
  readonly #take: () => Promise<LiveSnapshot>;
  readonly #clock: Clock;
  readonly #viewers = new Set<Viewer>();
  #last: { readonly json: Promise<string>; readonly atMs: number } | null = null;
  #timer: Timer | null = null;
  #isClosed = false;

  constructor(take: () => Promise<LiveSnapshot>, clock: Clock) {
    this.#take = take;
    this.#clock = clock;
  }

  /** Returns a snapshot as JSON. Requests at the same time share one. */
  current(): Promise<string> {
    const atMs = this.#clock.elapsed();
    if (this.#last === null || atMs - this.#last.atMs >= TICK_MS) {
      this.#last = { json: this.#take().then((snapshot) => JSON.stringify(snapshot)), atMs };
    }
    return this.#last.json;
  }

  /**
   * Shows snapshots to a viewer from here on.
   * @returns a function that ends that, or `null` if there are too many viewers
   */
  watch(viewer: Viewer): (() => void) | null {
    if (this.#isClosed || this.#viewers.size >= MAX_VIEWERS) return null;
    this.#viewers.add(viewer);
    inBackground(this.#show([viewer]));
    this.#timer ??= this.#clock.setTimer(TICK_MS, () => inBackground(this.#tick()));
    return () => {
      this.#viewers.delete(viewer);
      if (this.#viewers.size > 0) return;
      this.#timer?.cancel();
      this.#timer = null;
    };
  }

  close(): void {
    this.#isClosed = true;
    this.#timer?.cancel();
    for (const viewer of this.#viewers) viewer.end();
    this.#viewers.clear();
  }

  async #tick(): Promise<void> {
    await this.#show(this.#viewers);
    if (this.#viewers.size === 0) return;
    this.#timer?.cancel();
    this.#timer = this.#clock.setTimer(TICK_MS, () => inBackground(this.#tick()));
  }

  async #show(viewers: Iterable<Viewer>): Promise<void> {
    // A snapshot that fails is one that viewers miss: they see that the last one gets old.
    const json = await this.current().catch(() => null);
    if (json === null) return;
    for (const viewer of viewers) if (this.#viewers.has(viewer)) viewer.show(json);
  }
}
