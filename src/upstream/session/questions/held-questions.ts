/**
 * Questions on streams that name no call, while several calls of the session can have asked them. Each is
 * held until one of these calls is left, and is then a question of that call: a call that waits for an answer does
 * not end before it, unless it gives up. One that stays ambiguous is declined.
 */
import { inBackground } from '../../../lib/background.ts';
import type { Entries } from '../../../lib/containers.ts';
import type { Clock, Timer } from '../../../lib/clock.ts';
import type { ServerRequestId, UpstreamRequestId } from '../../../protocol/ids.ts';
import type { SessionCall } from '../session-call.ts';
import type { ServerRequest } from './routing.ts';

export interface HeldQuestionsOptions {
  readonly clock: Clock;
  /** The calls that run. */
  readonly running: Entries<UpstreamRequestId, SessionCall>;
  /** Returns the calls that ended without a reply, and can still ask. */
  readonly unfinished: () => readonly UpstreamRequestId[];
  /** Whether all calls of the session are known here. While another process may have some, a question can be one of those. */
  readonly knowsAllCalls: () => boolean;
  /**
   * Finds out, for a question that came just now, whether all calls of the session were known here until then: `knowsAllCalls` says so
   * when it resolves. Never rejects. `null` if there is nothing to find out.
   */
  readonly confirm: () => Promise<unknown> | null;
  /** Passes a question on to the call that asked it. */
  readonly ask: (call: SessionCall, question: ServerRequest) => void;
  /**
   * Declines a question at the server.
   * @param mayHaveAsked the calls that can have asked it, and still run
   * @param unfinished the other calls that can have asked it
   */
  readonly decline: (
    question: ServerRequest,
    mayHaveAsked: readonly SessionCall[],
    unfinished: readonly UpstreamRequestId[],
  ) => void;
}

/** How long a question is held, in ms. The tool has to hear that nobody could be asked, and not run into that timeout. */
export const HOLD_MS = 30_000;
const MAX_QUESTIONS = 64;
const MAX_BYTES = 1024 * 1024;

interface HeldQuestion {
  readonly question: ServerRequest;
  /** The calls that could ask when it came, and have not ended since. */
  readonly candidates: Set<UpstreamRequestId>;
  readonly bytes: number;
  readonly deadline: Timer;
  /** False until `confirm` has resolved for it. */
  isConfirmed: boolean;
}

export class HeldQuestions {
  readonly #options: HeldQuestionsOptions;
  #held: readonly HeldQuestion[] = [];
  #bytes = 0;

  constructor(options: HeldQuestionsOptions) {
    this.#options = options;
  }

  /** True while a question waits until it is certain whose it is. */
  get isHolding(): boolean {
    return this.#held.length > 0;
  }

  has(id: ServerRequestId): boolean {
    return this.#held.some(({ question }) => question.id === id);
  }

  /** Takes a question that came just now. */
  receive(question: ServerRequest): void {
    const { clock, running, unfinished } = this.#options;
    const working = [...running].filter(([, { canAsk }]) => canAsk).map(([id]) => id);
    const asking = working.length > 0 ? working : running.keys();
    const candidates = new Set([...asking, ...unfinished()]);
    const confirming = this.#options.confirm();
    const isConfirmed = confirming === null;
    if (this.#settle(question, candidates, isConfirmed)) return;
    const bytes = Buffer.byteLength(JSON.stringify(question));
    if (this.#held.length >= MAX_QUESTIONS || this.#bytes + bytes > MAX_BYTES) {
      return this.#decline(question, candidates);
    }
    const deadline = clock.setTimer(HOLD_MS, () => {
      this.#remove(held);
      this.#decline(question, candidates);
    });
    const held: HeldQuestion = { question, candidates, bytes, deadline, isConfirmed };
    this.#held = [...this.#held, held];
    this.#bytes += bytes;
    if (confirming !== null) inBackground(this.#settleOnce(confirming, held));
  }

  async #settleOnce(confirming: Promise<unknown>, held: HeldQuestion): Promise<void> {
    await confirming;
    held.isConfirmed = true;
    this.settle();
  }

  /**
   * A call has ended.
   * @param isCertain false if a held question may still be its own: the server may run it, or it may have given up
   */
  ended(id: UpstreamRequestId, isCertain: boolean): void {
    if (isCertain) for (const { candidates } of this.#held) candidates.delete(id);
    this.settle();
  }

  /** Passes on what has become certain. */
  settle(): void {
    for (const held of this.#held) {
      // What is passed on can end calls, and with them other questions.
      const { question, candidates, isConfirmed } = held;
      if (!this.#held.includes(held) || !this.#isSettled(candidates, isConfirmed)) continue;
      this.#remove(held);
      this.#settle(question, candidates, isConfirmed);
    }
  }

  /** The server takes a question back. It gets no reply (cancellation, "Behavior Requirements"). */
  withdraw(id: ServerRequestId): void {
    const held = this.#held.find(({ question }) => question.id === id);
    if (held !== undefined) this.#remove(held);
  }

  /** Forgets all questions: the session is over. */
  clear(): void {
    for (const held of this.#held) this.#remove(held);
  }

  #running(candidates: ReadonlySet<UpstreamRequestId>): SessionCall[] {
    const { running } = this.#options;
    return [...running].filter(([id]) => candidates.has(id)).map(([, call]) => call);
  }

  #isSettled(candidates: ReadonlySet<UpstreamRequestId>, isConfirmed: boolean): boolean {
    const running = this.#running(candidates).length;
    if (running === 0) return true;
    if (!isConfirmed) return false;
    return running === 1 && candidates.size === 1 && this.#options.knowsAllCalls();
  }

  /** @returns false if several calls can still have asked the question */
  #settle(
    question: ServerRequest,
    candidates: ReadonlySet<UpstreamRequestId>,
    isConfirmed: boolean,
  ): boolean {
    if (!this.#isSettled(candidates, isConfirmed)) return false;
    const [call] = this.#running(candidates);
    if (call === undefined) this.#decline(question, candidates);
    else this.#options.ask(call, question);
    return true;
  }

  #decline(question: ServerRequest, candidates: ReadonlySet<UpstreamRequestId>): void {
    const { running, decline } = this.#options;
    const unfinished = [...candidates].filter((id) => !running.has(id));
    decline(question, this.#running(candidates), unfinished);
  }

  #remove(gone: HeldQuestion): void {
    gone.deadline.cancel();
    this.#held = this.#held.filter((held) => held !== gone);
    this.#bytes -= gone.bytes;
  }
}
