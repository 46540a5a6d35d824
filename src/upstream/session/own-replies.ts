/** What the gateway replies by itself to requests of a server, such as to pings: so many at a time. */
import type { Clock } from '../../lib/clock.ts';
import { RecentMap } from '../../lib/containers.ts';
import { Semaphore } from '../../lib/semaphore.ts';
import type { ServerRequestId } from '../../protocol/ids.ts';
import type { ExactNumber } from '../../protocol/json.ts';
import type { JsonRpcReply } from '../../protocol/json-rpc.ts';

type RequestId = ServerRequestId | ExactNumber;

/** The most that are under way. The others wait. */
const MAX_REPLIES = 32;
/** A server that asks more than this, and does not take the replies, gets none to the rest. */
const MAX_WAITING_REPLIES = 1_000;
const MAX_WAITING_ID_CHARACTERS = 1_024;
/** How long what a server sends twice comes again, in ms. */
const REPEATS_MS = 1_000;
const MIN_REPLIED = 64;
const MAX_REPLIED_ID_CHARACTERS = 64;

export class OwnReplies {
  readonly #turns = new Semaphore(MAX_REPLIES);
  readonly #respond: (id: RequestId, reply: JsonRpcReply) => Promise<void>;
  readonly #isOver: () => boolean;
  readonly #clock: Clock;
  /** The requests that got their replies last, and when. */
  readonly #replied = new RecentMap<string, number>(MIN_REPLIED);

  /** @param isOver whether nothing is sent in the session any more */
  constructor(
    respond: (id: RequestId, reply: JsonRpcReply) => Promise<void>,
    isOver: () => boolean,
    clock: Clock,
  ) {
    this.#clock = clock;
    this.#respond = respond;
    this.#isOver = isOver;
  }

  /**
   * Sends a reply. A request that has just got one gets no second: some servers send each message twice.
   * @param onRefused called if the server does not take it, or it is not sent
   */
  send(id: RequestId, reply: JsonRpcReply, onRefused = () => {}): void {
    const nowMs = this.#clock.elapsed();
    const written = JSON.stringify(id);
    if (nowMs - (this.#replied.get(written) ?? -Infinity) < REPEATS_MS) return;
    if (written.length <= MAX_REPLIED_ID_CHARACTERS) this.#replied.set(written, nowMs);
    const { waiting } = this.#turns;
    if (waiting >= MAX_WAITING_REPLIES) return onRefused();
    if (waiting > 0 && written.length > MAX_WAITING_ID_CHARACTERS) return onRefused();
    const sent = this.#turns.take(async (hasWaited) => {
      if (!hasWaited || !this.#isOver()) await this.#respond(id, reply);
    });
    sent.catch(onRefused);
  }
}
