/**
 * How many listeners want to hear of each resource: the first one makes us subscribe, the last one
 * unsubscribe. What is asked of the server for one resource is asked in order, so that somebody who
 * comes while the last one leaves is not unsubscribed.
 */

/** Names one connection with the server; subscriptions do not outlive it. */
export type Epoch = number;

export interface SubscriptionRequests {
  /** Resolves with where the subscription holds, or `null` when the server did not take it. Never rejects. */
  subscribe(uri: string): Promise<Epoch | null>;
  /** Never rejects. */
  unsubscribe(uri: string): Promise<void>;
}

/** A server that has just come back is not asked for everything at the same moment. */
const AT_ONCE = 16;

interface Watched {
  listeners: number;
  /** Everything asked for so far; resolves with where the subscription holds, or `null`. */
  done: Promise<Epoch | null>;
}

export class WatchedResources {
  readonly #requests: SubscriptionRequests;
  readonly #watched = new Map<string, Watched>();
  #epoch: Epoch = 0;

  constructor(requests: SubscriptionRequests) {
    this.#requests = requests;
  }

  /** Counts one more listener. Resolves with whether the server will tell it of the resource. */
  async join(uri: string): Promise<boolean> {
    const watched = this.#watched.get(uri) ?? { listeners: 0, done: Promise.resolve(null) };
    this.#watched.set(uri, watched);
    watched.listeners += 1;
    return (await this.#subscribe(uri, watched)) !== null;
  }

  /** Counts one listener less. Resolves when the server was told, if it had to be. */
  async leave(uri: string): Promise<void> {
    const watched = this.#watched.get(uri);
    if (watched === undefined || watched.listeners === 0) return;
    watched.listeners -= 1;
    if (watched.listeners > 0) return;
    const done = watched.done.then(async (epoch) => {
      if (watched.listeners > 0) return epoch;
      if (epoch === this.#epoch) await this.#requests.unsubscribe(uri);
      return null;
    });
    watched.done = done;
    await done;
    if (watched.listeners === 0 && watched.done === done) this.#watched.delete(uri);
  }

  /** There is another connection now: everything is subscribed to anew. Resolves when all was asked for. */
  async moveTo(epoch: Epoch): Promise<void> {
    this.#epoch = epoch;
    const all = [...this.#watched];
    for (let start = 0; start < all.length; start += AT_ONCE) {
      const some = all.slice(start, start + AT_ONCE);
      await Promise.all(some.map(([uri, watched]) => this.#subscribe(uri, watched)));
    }
  }

  #subscribe(uri: string, watched: Watched): Promise<Epoch | null> {
    watched.done = watched.done.then((epoch) => {
      if (epoch === this.#epoch || watched.listeners === 0) return epoch;
      return this.#requests.subscribe(uri);
    });
    return watched.done;
  }
}
