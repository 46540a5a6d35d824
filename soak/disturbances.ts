/** What happens to replicas while they serve: new settings, rotated keys, deployments and crashes. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Outcomes } from './load.ts';
import type { Settings, World } from './world.ts';

/** Requests that were sent before a crash are known to be cut by then. */
const CUT_MS = 5_000;

export class Disturbances {
  readonly counts = { reloads: 0, rotations: 0, restarts: 0, crashes: 0, lostSessions: 0 };
  readonly #world: World;
  readonly #outcomes: Outcomes;
  #settings: Settings;

  constructor(world: World, settings: Settings, outcomes: Outcomes) {
    this.#world = world;
    this.#settings = settings;
    this.#outcomes = outcomes;
  }

  /** Disturbs until the signal aborts, with a pause after each step. */
  async run(pauseMs: number, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      for (const step of this.#round()) {
        if (signal.aborted) return;
        await step();
        await sleep(pauseMs, undefined, { signal }).catch(() => {});
      }
    }
  }

  #round(): (() => Promise<void>)[] {
    const [old = ''] = this.#settings.keys;
    const next = `key-${(this.counts.rotations += 1)}`;
    const { maxRounds } = this.#settings;
    return [
      () => this.#change({ keys: [old, next] }),
      () => this.#change({ maxRounds: maxRounds === 10 ? 11 : 10 }),
      () => this.#restart('SIGTERM'),
      () => this.#change({ keys: [next, old] }),
      () => this.#change({ hasThirdRoute: true }),
      () => this.#restart('SIGKILL'),
      () => this.#change({ keys: [next] }),
      () => this.#change({ hasThirdRoute: false }),
    ];
  }

  async #change(change: Partial<Settings>): Promise<void> {
    this.#settings = { ...this.#settings, ...change };
    await this.#world.write(this.#settings);
    await Promise.all(this.#world.replicas.map((replica) => replica.reload()));
    this.counts.reloads += 1;
  }

  /** Restarts the last replica. The others stay, so that their memory tells something. */
  async #restart(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    const { replicas, front } = this.#world;
    const last = replicas.at(-1);
    const origins = replicas.map(({ origin }) => origin);
    if (signal === 'SIGKILL') {
      this.counts.lostSessions += (await last?.sessions()) ?? 0;
      this.#outcomes.mayBeCut(CUT_MS);
    }
    // Who balances the load knows of a deployment before, and of a crash at once.
    front.use(origins.slice(0, -1));
    await last?.end(signal);
    await last?.start();
    front.use(origins);
    this.counts[signal === 'SIGTERM' ? 'restarts' : 'crashes'] += 1;
  }
}
