/**
 * Counts the listeners of each resource: the first one subscribes, the last one unsubscribes. Requests for
 * one resource are sent in order, so that a listener that joins while the last one leaves stays subscribed.
 */

/** Identifies one connection with the server. Subscriptions do not outlive it. */
export type ConnectionNumber = number;

export interface SubscriptionRequests {
  /** Resolves to the number of the connection that it was accepted on, or `null` if the server refused it. Never rejects. */
  subscribe(uri: string): Promise<ConnectionNumber | null>;
  /** Never rejects. */
  unsubscribe(uri: string): Promise<void>;
}

/** The number of concurrent requests after a reconnect, so that the server is not flooded. */
const AT_ONCE = 16;

interface ResourceWatch {
  listeners: number;
  /** The requests sent so far. Resolves to the number of the connection that it was accepted on, or `null`. */
  done: Promise<ConnectionNumber | null>;
}

export class WatchedResources {
  readonly #requests: SubscriptionRequests;
  readonly #watched = new Map<string, ResourceWatch>();
  #connectionNumber: ConnectionNumber = 0;

  constructor(requests: SubscriptionRequests) {
    this.#requests = requests;
  }

  /** Counts one more listener. Resolves to true if the server will notify it of the resource. */
  async join(uri: string): Promise<boolean> {
    const watched = this.#watched.get(uri) ?? { listeners: 0, done: Promise.resolve(null) };
    this.#watched.set(uri, watched);
    watched.listeners += 1;
    return (await this.#subscribe(uri, watched)) !== null;
  }

  /** Counts one listener less. Resolves when the server has unsubscribed, if it has to. */
  async leave(uri: string): Promise<void> {
    const watched = this.#watched.get(uri);
    if (watched === undefined || watched.listeners === 0) return;
    watched.listeners -= 1;
    if (watched.listeners > 0) return;
    const done = watched.done.then(async (connectionNumber) => {
      if (watched.listeners > 0) return connectionNumber;
      if (connectionNumber === this.#connectionNumber) await this.#requests.unsubscribe(uri);
      return null;
    });
    watched.done = done;
    await done;
    if (watched.listeners === 0 && watched.done === done) this.#watched.delete(uri);
  }

  /** Subscribes to everything on a new connection. Resolves when all requests are done. */
  async moveTo(connectionNumber: ConnectionNumber): Promise<void> {
    this.#connectionNumber = connectionNumber;
    const all = [...this.#watched];
    for (let start = 0; start < all.length; start += AT_ONCE) {
      const some = all.slice(start, start + AT_ONCE);
      await Promise.all(some.map(([uri, watched]) => this.#subscribe(uri, watched)));
    }
  }

  #subscribe(uri: string, watched: ResourceWatch): Promise<ConnectionNumber | null> {
    watched.done = watched.done.then((connectionNumber) => {
      if (connectionNumber === this.#connectionNumber || watched.listeners === 0)
        return connectionNumber;
      return this.#requests.subscribe(uri);
    });
    return watched.done;
  }
}
