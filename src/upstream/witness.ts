/**
 * A session that nobody uses, with a server of HTTP+SSE: what it is sent and was for others is broadcast.
 * One stream keeps its order; so when the witness has its answer to a ping, it has heard whatever was
 * sent to everybody before.
 */
import { sleep, type Clock } from '../lib/clock.ts';
import type { CrossTalk } from './cross-talk.ts';
import type { Session } from './session/session.ts';

/** A server that leaves a ping unanswered proves nothing, and holds up nobody for longer, in ms. */
const PING_WAIT_MS = 2_000;

export class Witness {
  readonly #clock: Clock;
  readonly #crossTalk: CrossTalk;
  #session: Promise<Session | null> | null = null;
  /** The server was seen to keep its sessions apart, or not to. */
  #dismissed = false;
  /** The server was seen to send replies to their own session only. */
  #repliesApart = false;

  constructor(clock: Clock, crossTalk: CrossTalk) {
    this.#clock = clock;
    this.#crossTalk = crossTalk;
  }

  /** True while there is a session that hears what is sent to everybody. */
  get listens(): boolean {
    return this.#session !== null && !this.#dismissed;
  }

  /** Opens the session, if there is none. A server that allows no further one has no witness. */
  async summon(open: () => Promise<Session>): Promise<void> {
    if (this.#dismissed) return;
    this.#session ??= open().catch(() => null);
    const session = await this.#session;
    if (session?.dead !== false) this.#session = null;
  }

  /** Resolves when the witness has heard whatever was sent to everybody before; false when it has not. */
  async hearAll(): Promise<boolean> {
    const session = await this.#session;
    if (session?.dead !== false) return false;
    const over = new AbortController();
    const late = sleep(this.#clock, PING_WAIT_MS, over.signal).then(() => false);
    const heard = session.request('ping', {}, session.headers, over.signal).then(
      () => true,
      () => false,
    );
    const all = await Promise.race([heard, late]);
    over.abort();
    if (this.#crossTalk.broadcasts) await this.dismiss();
    return all;
  }

  /** Finds out whether what a session was answered that was opened just now is sent to all. */
  async watchNewcomer(): Promise<void> {
    if (!this.listens || this.#repliesApart) return;
    this.#repliesApart = await this.hearAll();
  }

  /** Finds out whether a question that one session was sent is sent to all. */
  async judge(question: string): Promise<void> {
    const session = await this.#session;
    if (session === null || !(await this.hearAll())) return;
    if (this.#crossTalk.wasAsked(question, session.party)) this.#crossTalk.broadcastSeen();
    await this.dismiss();
  }

  /** Ends the session; no other one is opened. */
  async dismiss(): Promise<void> {
    this.#dismissed = true;
    const session = await this.#session;
    this.#session = null;
    await session?.close();
  }
}
