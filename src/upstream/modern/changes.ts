/**
 * What a server tells a session of its own accord: changes of its lists, and of the resources that the client has subscribed to.
 * They come on a request that stays open (subscriptions). Another one replaces it whenever what it asks for changes.
 */
import { inBackground } from '../../lib/background.ts';
import type { Clock, Timer } from '../../lib/clock.ts';
import type { ModernServer, SentRequest } from '../../model/modern-server.ts';
import { ACKNOWLEDGED, changesIn, CHANGING_LISTS } from '../../protocol/changes.ts';
import { objectMember, type JsonObject } from '../../protocol/json.ts';
import { withoutReservedMeta } from '../../protocol/translate/cleaning.ts';

export interface ChangesOptions {
  readonly server: ModernServer;
  readonly clock: Clock;
  /** Of the server, as `server/discover` says. */
  readonly capabilities: JsonObject;
  /** How long the server can take to acknowledge, in ms. */
  readonly timeoutMs: number;
  readonly params: (params: JsonObject) => JsonObject;
  /** The headers of the caller's last request. */
  readonly headers: () => Readonly<Record<string, string>>;
  readonly notified: (method: string, params: JsonObject) => void;
}

/** How soon a request that has ended is sent again, at first and at most, in ms. */
const FIRST_PAUSE_MS = 1_000;
const LAST_PAUSE_MS = 60_000;
/** The most resources of one session. */
const MAX_SUBSCRIPTIONS = 1_000;

/** One request that listens. */
interface Listening {
  readonly uris: ReadonlySet<string>;
  readonly sent: SentRequest;
  readonly sinceMs: number;
  /** What the server sends; `null` before it says so. */
  acknowledged: JsonObject | null;
}

export class ServerChanges {
  readonly #options: ChangesOptions;
  #uris: ReadonlySet<string> = new Set();
  #current: Listening | null = null;
  /** Not acknowledged yet. */
  #beginning: SentRequest | null = null;
  /** Changes of subscriptions, one after the other. */
  #changing: Promise<unknown> = Promise.resolve();
  #again: Timer | null = null;
  #pauseMs = FIRST_PAUSE_MS;
  #isPaused = false;
  #isOver = false;

  constructor(options: ChangesOptions) {
    this.#options = options;
  }

  /** Begins to listen, if the server promises anything. */
  begin(): void {
    if (this.#hasLists) inBackground(this.#change(() => this.#listen(this.#uris, false)));
  }

  /** @returns whether the server tells of the resource from here on */
  subscribe(uri: string): Promise<boolean> {
    return this.#change(async () => {
      if (this.#uris.has(uri)) return true;
      if (this.#uris.size >= MAX_SUBSCRIPTIONS) return false;
      return this.#listen(new Set([...this.#uris, uri]), true);
    });
  }

  unsubscribe(uri: string): Promise<boolean> {
    return this.#change(async () => {
      if (!this.#uris.has(uri)) return true;
      const left = new Set([...this.#uris].filter((each) => each !== uri));
      if (left.size > 0 || this.#hasLists) return this.#listen(left, true);
      this.#uris = left;
      this.#current?.sent.cancel();
      this.#current = null;
      return true;
    });
  }

  /** The caller has other credentials. With those before, what listened can have been refused: that is tried again soon. */
  renewed(): void {
    if (this.#again === null || this.#isOver) return;
    this.#pauseMs = FIRST_PAUSE_MS;
    this.#listenLater();
  }

  pause(): void {
    this.#isPaused = true;
    this.#current?.sent.pause();
    this.#beginning?.pause();
  }

  resume(): void {
    this.#isPaused = false;
    this.#current?.sent.resume();
    this.#beginning?.resume();
  }

  end(): void {
    this.#isOver = true;
    this.#again?.cancel();
    this.#current?.sent.cancel();
    this.#beginning?.cancel();
  }

  get #hasLists(): boolean {
    return Object.keys(this.#lists).length > 0;
  }

  get #lists(): JsonObject {
    const { capabilities } = this.#options;
    const told = CHANGING_LISTS.filter(
      (list) => objectMember(capabilities, list)?.['listChanged'] === true,
    );
    return Object.fromEntries(told.map((list) => [`${list}ListChanged`, true]));
  }

  #filterOf(uris: ReadonlySet<string>): JsonObject {
    return { ...this.#lists, ...(uris.size > 0 && { resourceSubscriptions: [...uris] }) };
  }

  #change(change: () => Promise<boolean>): Promise<boolean> {
    const changed = this.#changing.then(change);
    this.#changing = changed;
    return changed;
  }

  /**
   * Replaces the request that listens once the server has acknowledged another one, so that no change is missed.
   * @param isWanted whether all resources have to be acknowledged, or else all stays as it was
   */
  async #listen(uris: ReadonlySet<string>, isWanted: boolean): Promise<boolean> {
    if (this.#isOver) return false;
    this.#again?.cancel();
    this.#again = null;
    const { server, clock, params, headers, timeoutMs } = this.#options;
    const begun = Promise.withResolvers<boolean>();
    const ended = () => {
      begun.resolve(false);
      if (this.#current !== listening) return;
      // One that ends soon ends again: the pause grows until one has lived.
      if (clock.elapsed() - listening.sinceMs > LAST_PAUSE_MS) this.#pauseMs = FIRST_PAUSE_MS;
      this.#lost();
    };
    const request = {
      method: 'subscriptions/listen',
      params: params({ notifications: this.#filterOf(uris) }),
      headers: headers(),
      timeoutMs: null,
    };
    const sent = server.send(request, {
      notified: (method, content) => {
        if (method !== ACKNOWLEDGED) return this.#heard(listening, method, content);
        listening.acknowledged = objectMember(content, 'notifications') ?? {};
        begun.resolve(true);
      },
      replied: ended,
      failed: ended,
    });
    const listening: Listening = { uris, sent, sinceMs: clock.elapsed(), acknowledged: null };
    this.#beginning = sent;
    if (this.#isPaused) sent.pause();
    const late = clock.setTimer(timeoutMs, () => begun.resolve(false));
    const isTold = (await begun.promise) && (!isWanted || hasAll(listening, uris));
    late.cancel();
    this.#beginning = null;
    if (!isTold || this.#isOver) {
      sent.cancel();
      if (this.#current === null && !this.#isOver) this.#listenLater();
      return false;
    }
    this.#current?.sent.cancel();
    this.#current = listening;
    this.#uris = uris;
    return true;
  }

  /** Passes a change on. The request that was replaced tells it until then. */
  #heard(listening: Listening, method: string, params: JsonObject): void {
    if (this.#current === null || this.#current === listening) {
      this.#options.notified(method, withoutReservedMeta(params));
    }
  }

  #lost(): void {
    this.#current = null;
    this.#listenLater();
  }

  /** Changes can be missed until then, so that each is told once. */
  #listenLater(): void {
    const { clock, notified } = this.#options;
    // Where nothing was listened for, nothing is missed.
    if (!this.#hasLists && this.#uris.size === 0) return;
    this.#again?.cancel();
    this.#again = clock.setTimer(this.#pauseMs, () => {
      this.#again = null;
      const again = this.#change(async () => {
        const uris = this.#uris;
        const isListening = this.#current !== null || (await this.#listen(uris, false));
        if (!isListening) return false;
        for (const missed of changesIn(this.#filterOf(uris))) {
          notified(missed.method, missed.params);
        }
        return true;
      });
      inBackground(again);
    });
    this.#pauseMs = Math.min(this.#pauseMs * 2, LAST_PAUSE_MS);
  }
}

/** Tells whether the server has acknowledged all resources. */
function hasAll({ acknowledged }: Listening, uris: ReadonlySet<string>): boolean {
  const told = acknowledged?.['resourceSubscriptions'];
  return [...uris].every((uri) => Array.isArray(told) && told.includes(uri));
}
