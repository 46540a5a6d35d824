/** What the gateway replies by itself to requests of a server, such as to pings: so many at a time. */
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

export class OwnReplies {
  readonly #turns = new Semaphore(MAX_REPLIES);
  readonly #respond: (id: RequestId, reply: JsonRpcReply) => Promise<void>;
  readonly #isOver: () => boolean;

  /** @param isOver whether nothing is sent in the session any more */
  constructor(
    respond: (id: RequestId, reply: JsonRpcReply) => Promise<void>,
    isOver: () => boolean,
  ) {
    this.#respond = respond;
    this.#isOver = isOver;
  }

  /** Sends a reply. Whether the server takes it does not matter to anybody here. */
  send(id: RequestId, reply: JsonRpcReply): void {
    const { waiting } = this.#turns;
    if (waiting >= MAX_WAITING_REPLIES) return;
    if (waiting > 0 && JSON.stringify(id).length > MAX_WAITING_ID_CHARACTERS) return;
    const sent = this.#turns.take(async (hasWaited) => {
      if (!hasWaited || !this.#isOver()) await this.#respond(id, reply);
    });
    sent.catch(() => {});
  }
}
