/**
 * Bridges from stdio to HTTP+SSE can send each message to all sessions. To find that out, the gateway has a session that no
 * caller uses: a message of another session that it receives is a broadcast. A stream keeps its order, so the reply to a ping
 * comes after all earlier broadcasts.
 */
import { sleep, type Clock } from '../../lib/clock.ts';
import type { BroadcastDetector } from '../discovery/broadcast-detector.ts';
import { FREED_AFTER_MS } from './one-session.ts';
import type { Session } from '../session/session.ts';

/** How long to wait for the reply to a ping, in ms. Without a reply nothing is proved. */
const PING_TIMEOUT_MS = 2_000;

export class BroadcastProbe {
  readonly #clock: Clock;
  readonly #detector: BroadcastDetector;
  #session: Promise<Session | null> | null = null;
  /** Sessions over HTTP+SSE of callers. Dead ones are removed when the next one is opened. */
  #others: readonly Session[] = [];
  #opening = 0;
  /** It is known whether the server broadcasts. */
  #closed = false;
  #leaving: Promise<void> | null = null;
  /** The server was seen to send replies to their own session only. */
  #repliesSeparate = false;

  constructor(clock: Clock, detector: BroadcastDetector) {
    this.#clock = clock;
    this.#detector = detector;
  }

  get isOpen(): boolean {
    return this.#session !== null && !this.#closed;
  }

  /**
   * Opens a session for a caller. If there are others, the probe shows first whether the server broadcasts, before a
   * message can reach the wrong caller.
   */
  async openSession(open: () => Promise<Session>): Promise<Session> {
    this.#others = this.#others.filter((session) => !session.dead);
    const mayBeSeenElsewhere =
      this.#others.length + this.#opening > 0 || this.#detector.hasSiblings;
    this.#opening += 1;
    try {
      if (mayBeSeenElsewhere && !this.#detector.broadcasts) await this.#open(open);
      const session = await open();
      this.#others = [...this.#others, session];
      // The probe shows whether the replies that the new session received were broadcast.
      if (this.isOpen && !this.#repliesSeparate) this.#repliesSeparate = await this.#ping();
      return session;
    } finally {
      this.#opening -= 1;
    }
  }

  /** Checks whether a question that a session received was broadcast. */
  async checkQuestion(question: string): Promise<void> {
    const session = await this.#session;
    if (session === null || !(await this.#ping())) return;
    if (this.#detector.hasReceived(question, session.identity)) this.#detector.reportBroadcast();
    await this.close();
  }

  /**
   * Closes the session if no caller has one: it may have taken the only place.
   * @returns resolves when the server has noticed; `null` if nothing was closed
   */
  makeRoom(): Promise<void> | null {
    const session = this.#session;
    if (session !== null && this.#others.every(({ dead }) => dead)) {
      this.#session = null;
      this.#leaving = session
        .then((opened) => opened?.close())
        .then(() => sleep(this.#clock, FREED_AFTER_MS))
        .finally(() => {
          this.#leaving = null;
        });
    }
    return this.#leaving;
  }

  /** Closes the session for good. */
  async close(): Promise<void> {
    this.#closed = true;
    const session = await this.#session;
    this.#session = null;
    await session?.close();
  }

  /** Opens the session, if it is not open. A server may refuse one more session; then there is no probe. */
  async #open(openSession: () => Promise<Session>): Promise<void> {
    if (this.#closed) return;
    this.#session ??= openSession().catch(() => null);
    const session = await this.#session;
    if (session?.dead !== false) this.#session = null;
  }

  /** @returns true when all earlier broadcasts have arrived, false if that is not known */
  async #ping(): Promise<boolean> {
    const session = await this.#session;
    if (session?.dead !== false) return false;
    const all = await repliesToPing(session, this.#clock);
    if (this.#detector.broadcasts) await this.close();
    return all;
  }
}

/** Finds out whether the server replies to a ping in a session, and soon. */
export async function repliesToPing(session: Session, clock: Clock): Promise<boolean> {
  const over = new AbortController();
  const late = sleep(clock, PING_TIMEOUT_MS, over.signal).then(() => false);
  const replied = session.request('ping', {}, session.headers, over.signal).then(
    () => true,
    () => false,
  );
  const isThere = await Promise.race([replied, late]);
  over.abort();
  return isThere;
}
