/**
 * Whether a server can have one session only. The operator says so, or the server shows it: it refuses or breaks off each
 * session that is opened beside another one, and accepts it alone. That of mcp-server-kubernetes over HTTP+SSE breaks it off.
 */
import type { UpstreamFailure } from '../../model/upstream-failure.ts';
import { isRefusal } from '../discovery/detection.ts';
import type { Session } from '../session/session.ts';

/**
 * - `configured`: the limits of the operator allow no second session
 * - `refused`: it refused a second session, and accepted it when the first one had ended
 * - `crashed`: connections broke and the other sessions were lost each time that a second session was opened
 */
type OneSessionCause = 'configured' | 'refused' | 'crashed';

/** How long a server may take to notice that a session has ended, in ms. Over HTTP+SSE nobody tells it. */
export const FREED_AFTER_MS = 100;
/** After so many refusals that had another reason, no session is ended to find out more. */
const MAX_TRIALS = 3;
/** A server that is redeployed breaks connections, too. */
const MIN_CRASHES = 2;

/** A session that is being opened. */
export interface Opening {
  /** The sessions that were open before. */
  readonly others: readonly Session[];
  /** Whether another session was open or being opened. */
  readonly isSecond: boolean;
  readonly isTrial: boolean;
  /** The connections to the server that had broken before. */
  readonly broken: number;
  readonly end: PromiseWithResolvers<void>;
}

export interface OneSessionOptions {
  readonly isConfigured: boolean;
  /** Returns how many connections to the server have broken. */
  readonly broken: () => number;
  /** Finds out whether the server replies to a ping in a session. */
  readonly replies: (session: Session) => Promise<boolean>;
  /** Called once, when the server has shown that it can have one session only. */
  readonly onCertain: (cause: 'refused' | 'crashed') => void;
}

export class OneSession {
  readonly #options: OneSessionOptions;
  #cause: OneSessionCause | null = null;
  /** Whether `#cause` is a guess, which the next session confirms or refutes. */
  #isTrial = false;
  #trials = 0;
  #crashes = 0;
  /** Whether two sessions were open at once. */
  #hasHadTwo = false;
  /** Whether the last session that was opened was refused by a server that said it was busy. */
  #wasBusy = false;
  readonly #opening = new Set<Opening>();
  #open: readonly Session[] = [];

  constructor(options: OneSessionOptions) {
    this.#options = options;
    if (options.isConfigured) this.#cause = 'configured';
  }

  get isOne(): boolean {
    return this.#cause !== null;
  }

  /** Notes that a session is being opened. `opened` or `failed` follows. */
  begin(): Opening {
    const others = this.#others();
    const isSecond = this.#opening.size > 0 || others.length > 0;
    const broken = this.#options.broken();
    const end = Promise.withResolvers<void>();
    const opening = { others, isSecond, isTrial: this.#isTrial, broken, end };
    this.#opening.add(opening);
    return opening;
  }

  async opened(opening: Opening, session: Session): Promise<void> {
    this.#ended(opening);
    this.#wasBusy = false;
    if (this.#hasHadTwo) return;
    const others = this.#others();
    this.#open = [...others, session];
    if (opening.isTrial && this.#isTrial) this.#found('refused');
    if (this.#cause !== null || !opening.isSecond) return;
    const broken = this.#hasBroken(opening);
    // Those that were open when this one began to open, and those that are now.
    const beside = broken ? [...opening.others, ...others] : others;
    if (beside.length === 0) return;
    if (broken && !(await this.#isAnyLeft(beside))) return this.#crashed();
    this.#hasHadTwo = true;
    this.#open = [];
  }

  async failed(opening: Opening, failure: UpstreamFailure): Promise<void> {
    this.#ended(opening);
    if (opening.isTrial && this.#isTrial) {
      // It refuses the only session as well.
      this.#isTrial = false;
      this.#cause = null;
      return;
    }
    if (this.#isKnown || !opening.isSecond) return;
    if (this.#hasBroken(opening)) {
      const beside = [...opening.others, ...this.#others()];
      if (beside.length > 0 && !(await this.#isAnyLeft(beside))) this.#crashed();
      return;
    }
    if (!(await this.#isRefused(failure))) return;
    // It may have been refused for one of those that are being opened.
    await Promise.all([...this.#opening].map(({ end }) => end.promise));
    if (this.#others().length !== 1 || this.#trials >= MAX_TRIALS || this.#isKnown) return;
    this.#trials += 1;
    this.#isTrial = true;
    this.#cause = 'refused';
  }

  /** Whether it is known how many sessions the server can have, or guessed that it is one. */
  get #isKnown(): boolean {
    return this.#cause !== null || this.#hasHadTwo;
  }

  /** Tells whether the server may have refused a session because of another one. */
  async #isRefused(failure: UpstreamFailure): Promise<boolean> {
    if (failure.code === 'upstream_busy') return this.#isBusyAgain();
    // A server that starts says nothing of its sessions, nor does a proxy in front of it.
    return isRefusal(failure) && failure.details.isOtherJson !== true;
  }

  /** Most servers are busy for a moment, and then in all sessions. */
  async #isBusyAgain(): Promise<boolean> {
    const wasBusy = this.#wasBusy;
    this.#wasBusy = true;
    return wasBusy && (await this.#isAnyLeft(this.#others()));
  }

  #ended(opening: Opening): void {
    this.#opening.delete(opening);
    opening.end.resolve();
  }

  #hasBroken({ broken }: Opening): boolean {
    return this.#options.broken() > broken;
  }

  /** A network breaks connections, too. A server that crashed has lost its sessions. */
  async #isAnyLeft(sessions: readonly Session[]): Promise<boolean> {
    const last = sessions.findLast(({ dead }) => !dead);
    return last !== undefined && (await this.#options.replies(last));
  }

  #crashed(): void {
    if (this.#isKnown) return;
    this.#crashes += 1;
    if (this.#crashes >= MIN_CRASHES) this.#found('crashed');
  }

  #found(cause: 'refused' | 'crashed'): void {
    this.#isTrial = false;
    this.#cause = cause;
    this.#options.onCertain(cause);
  }

  #others(): readonly Session[] {
    return this.#open.filter((session) => !session.dead);
  }
}
