/** The laws, as clients, server and store see them. */
import { simulation } from '../engine/simulation.ts';
import { HOLD_MS } from '../../../src/upstream/session/questions/held-questions.ts';
import type { StoredClaim } from '../store/store.ts';
import { isOfLegacy } from './clients/legacy-plans.ts';
import type { Outcome, Questions } from './client.ts';
import type { JournalEntry } from './servers/journal.ts';
import { formOf, readQuestion } from './servers/questions.ts';

/** How long after the last fault a request has an outcome, and a call its end. */
export const OUTCOME_WITHIN_MS = 100_000;
export const END_WITHIN_MS = 200_000;
/** How long it may take until a question is shown or declined. */
const SHOWN_WITHIN_MS = 65_000;
/** How often a client is told to retry in a call without having been asked: the Go SDK ends a call at the third time. */
const MOST_STATE_ONLY = 2;
/** How often a task is kept within a second, and the outcome of a call at all. */
const MOST_KEPT_A_SECOND = 12;
const MOST_OUTCOMES = 6;
const QUESTION = /call=(\w+);question=([\w-]+);/g;

export class Checker {
  readonly violations: string[] = [];
  readonly #journal: () => readonly JournalEntry[];
  /** Questions that a client was shown. */
  readonly #shown = new Set<string>();
  /** Calls of which somebody said that they cannot have acted, and which nobody went on with. */
  readonly #denied = new Map<string, string>();
  /** Calls whose clients do not come back. */
  readonly #left = new Set<string>();
  readonly #holders = new Map<string, string>();
  readonly #fencingTokens = new Map<string, number>();
  readonly #outcomes = new Map<string, string>();
  /** Where the calls are whose clients have a question to answer. */
  readonly #parked = new Map<string, string>();
  readonly #kept = new Map<string, readonly number[]>();
  /** How many rounds without a question each call had. */
  readonly #stateOnly = new Map<string, number>();

  constructor(journal: () => readonly JournalEntry[]) {
    this.#journal = journal;
  }

  break(law: number, how: string): void {
    const violation = `law ${law}: ${how}`;
    if (!this.violations.includes(violation)) this.violations.push(violation);
  }

  /** Law 1: a home has one holder for each token, and tokens only grow. */
  claimed({ key, fencingToken, owner }: StoredClaim, hasLostData: boolean): void {
    if (hasLostData) return;
    const at = `${key} ${fencingToken}`;
    const holder = this.#holders.get(at);
    if (holder !== undefined && holder !== owner) {
      this.break(
        1,
        `${key} has two holders with the token ${fencingToken}: ${holder} and ${owner}`,
      );
    }
    this.#holders.set(at, owner);
    const last = this.#fencingTokens.get(key) ?? 0;
    if (fencingToken < last) this.break(1, `${key} has the token ${fencingToken} after ${last}`);
    this.#fencingTokens.set(key, Math.max(last, fencingToken));
  }

  /** Law 7: what does not change is not kept again and again, and what changes much not each time. */
  kept(key: string, nowMs: number): void {
    const isTask = key.includes('{task:');
    // Each start of a process keeps what its server said.
    if (key.includes('{greeting:') || (!isTask && !key.endsWith(':outcome'))) return;
    const withinMs = isTask ? 1_000 : Infinity;
    const times = [...(this.#kept.get(key) ?? []).filter((ms) => nowMs - ms < withinMs), nowMs];
    this.#kept.set(key, times);
    if (times.length !== 1 + (isTask ? MOST_KEPT_A_SECOND : MOST_OUTCOMES)) return;
    this.break(7, `${key} is kept again and again`);
  }

  /** Law 4: a question is shown only in the call that asked it. @returns the calls that ask */
  shown(call: string, questions: object): string[] {
    const asking: string[] = [];
    for (const [, other = '', question = ''] of JSON.stringify(questions).matchAll(QUESTION)) {
      if (other !== call && !this.#isUnknowable(question, call)) {
        this.break(4, `a question of ${other} is shown in ${call}`);
      }
      this.#shown.add(question);
      asking.push(other);
    }
    return asking;
  }

  /** Law 4: one of OpenAI's forms is shown as its server asked for it, to the letter. */
  formsShown(call: string, questions: Questions): void {
    for (const { params } of Object.values(questions)) {
      const asked = readQuestion(params.message);
      if (asked === null) continue;
      const { requestedSchema } = formOf(asked.call, asked.question);
      const shown = params._meta?.['openai/elicitation']?.requestedSchema;
      if (JSON.stringify(shown) === JSON.stringify(requestedSchema)) continue;
      this.break(4, `${call} is shown another form than that of ${asked.question}`);
    }
  }

  /**
   * Whether nobody can know that a question is not of this call (ADR 24): it came beside the streams of their session, and its own
   * call was lost with a process that was never asked there, and so kept no calls.
   */
  #isUnknowable(question: string, shownIn: string): boolean {
    const journal = this.#journal();
    const isBeside = ({ what, stream }: JournalEntry) =>
      what === 'asked' && stream === 'standalone';
    const asked = journal.find((entry) => isBeside(entry) && entry.question === question);
    const made = journal.filter(({ what }) => what === 'called');
    const owner = made.find(({ call }) => call === asked?.call)?.by;
    if (asked === undefined || owner === undefined || !simulation().isDead(owner)) return false;
    const isSameSession = made.some((one) => one.call === shownIn && one.session === asked.session);
    return isSameSession && !journal.some((entry) => isBeside(entry) && entry.by === owner);
  }

  /** Law 4: what a tool logs is shown only in its call, and only to who wants it. */
  logged(call: string, isWanted: boolean, data: string): void {
    const other = /^of=(\w+);/.exec(data)?.[1];
    if (other === undefined) return;
    if (other !== call) this.break(4, `what ${other} has logged is shown in ${call}`);
    if (!isWanted)
      this.break(4, `${call} is shown what it has logged, which its client does not want`);
    simulation().log(`client: ${call} is shown what it has logged`);
  }

  /** Law 7: no process parks more calls than it may. @param by where the call is; `null` if that can change */
  parked(call: string, by: string | null, most: number | null): void {
    if (by === null || most === null) return;
    this.#parked.set(call, by);
    const count = [...this.#parked.values()].filter((one) => one === by).length;
    if (count > most) this.break(7, `${by} parks ${count} calls, and may park ${most}`);
  }

  /** The client of a parked call retries. */
  retried(call: string): void {
    this.#parked.delete(call);
  }

  /** Law 5: who is told that a call cannot have acted is told the truth. */
  failed(call: string, { reason, mayHaveActed, isRetryable }: Outcome & { type: 'failed' }): void {
    if (mayHaveActed !== 'no') return;
    if (this.#count('acted', call) > 0) {
      this.break(5, `${call} has acted, and it is denied (${reason})`);
    }
    if (!isRetryable) this.#denied.set(call, reason);
  }

  /** The client of a call does not come back. */
  left(call: string): void {
    this.#left.add(call);
  }

  /** A call is begun again, after it was said that it cannot have acted. */
  begunAgain(call: string): void {
    this.#denied.delete(call);
    this.#stateOnly.delete(call);
  }

  /** Law 10: no client is told to retry without a question more often than it stands, whichever processes have its call. */
  toldToRetry(call: string): void {
    const times = (this.#stateOnly.get(call) ?? 0) + 1;
    this.#stateOnly.set(call, times);
    if (times > MOST_STATE_ONLY) this.break(10, `${call} has ${times} rounds without a question`);
  }

  /**
   * Laws 3 and 6: the same retry twice gets the same outcome, or hears that the call is lost.
   * @param mayBeLost whether something happened after which nobody may have the outcome
   */
  repeated(call: string, round: number, outcome: Outcome, mayBeLost: boolean): void {
    const text = textOf(outcome);
    const key = `${call} ${round}`;
    const before = this.#outcomes.get(key);
    if (text === null) {
      const isRefused = outcome.type === 'failed' && !outcome.isRetryable;
      if (before === undefined || !isRefused || mayBeLost) return;
      return this.break(6, `the same retry of ${call} has an outcome, and then ${outcome.reason}`);
    }
    if (before !== undefined && before !== text) {
      this.break(6, `the same retry of ${call} has two outcomes: ${before} and ${text}`);
    }
    this.#outcomes.set(key, text);
  }

  /** What only the end shows. */
  atEnd(calls: readonly string[]): void {
    for (const call of calls) {
      const acts = this.#count('acted', call);
      if (acts > 1) this.break(5, `${call} acted ${acts} times`);
      const denied = this.#denied.get(call);
      if (acts > 0 && denied !== undefined) {
        this.break(5, `${call} acted after that was excluded (${denied})`);
      }
    }
    this.#checkAcknowledgements();
  }

  /** Law 8: another process reads a stream only after what a client has seen of it. */
  #checkAcknowledgements(): void {
    const journal = this.#journal();
    for (const [at, entry] of journal.entries()) {
      if (entry.what !== 'resumed' || entry.stream === 'standalone') continue;
      const before = journal.slice(0, at);
      const own = before.filter(
        (other) =>
          other.what === 'resumed' &&
          other.by === entry.by &&
          other.session === entry.session &&
          other.stream === entry.stream,
      );
      // What it was sent when it resumed the stream before, it has.
      const ownFrom = Math.min(...own.map(({ event = 0 }) => event));
      const unseen = before.filter(
        ({ what, session, stream, event = 0, question = '', by }) =>
          what === 'asked' &&
          session === entry.session &&
          stream === entry.stream &&
          event <= Math.min(entry.event ?? 0, ownFrom) &&
          by !== entry.by &&
          !this.#shown.has(question) &&
          !before.some((other) => closes(other) && other.question === question),
      );
      for (const { call, question } of unseen) {
        const who = `${entry.by} acknowledges ${question} of ${call}`;
        this.break(8, `${who}, which nobody was shown`);
      }
    }
  }

  /** Law 6: a question that reached a process which lives is shown or declined, unless the client of its call has left. */
  questionsUnanswered(nowMs: number, isWorking: (process: string, atMs: number) => boolean): void {
    const journal = this.#journal();
    for (const { what, question, call, by, atMs } of journal) {
      // The stream of a legacy client is its own, and breaks as it breaks.
      if (what !== 'asked' || by === 'nobody' || isOfLegacy(call)) continue;
      if (!isWorking(by, atMs) || !isWorking(by, atMs + HOLD_MS)) continue;
      const isOver = journal.some(
        (entry) =>
          (closes(entry) && entry.question === question) ||
          (entry.what === 'forgotten' && entry.call === call) ||
          // A process has no other credentials until the client comes again.
          (entry.what === 'refused' && entry.by === by && entry.atMs > atMs) ||
          // Its client withdrew the call, or its tool did without an answer.
          (['cancelled', 'ended'].includes(entry.what) &&
            entry.call === call &&
            entry.atMs < atMs + SHOWN_WITHIN_MS),
      );
      if (isOver || nowMs - atMs < SHOWN_WITHIN_MS) continue;
      if (this.#shown.has(question ?? '') || this.#left.has(call)) continue;
      this.break(6, `${question} of ${call} reached ${by}, which neither shows nor declines it`);
    }
  }

  #count(what: JournalEntry['what'], call: string): number {
    return this.#journal().filter((entry) => entry.what === what && entry.call === call).length;
  }
}

/** Whether a question needs no answer any more. */
function closes({ what }: JournalEntry): boolean {
  return what === 'answered' || what === 'withdrawn';
}

/** @returns `null` if it is no outcome of the call */
function textOf(outcome: Outcome): string | null {
  if (outcome.type === 'done') return outcome.text;
  if (outcome.type !== 'asks') return null;
  const text = JSON.stringify(outcome.questions);
  return text === '{}' ? null : text;
}
