/**
 * The questions of a session on streams that name no call: which call is asked each of them, and what is known of
 * how the server asks. A question on the stream of a call does not come here.
 */
import { RepeatedQuestions } from '../../quirks/repeated-questions.ts';
import { inBackground } from '../../../lib/background.ts';
import { Closing, sleep, type Clock } from '../../../lib/clock.ts';
import { type Entries, RecentMap } from '../../../lib/containers.ts';
import {
  type ServerRequestId,
  upstreamRequestId,
  type UpstreamRequestId,
} from '../../../protocol/ids.ts';
import type { JsonRpcReply } from '../../../protocol/json-rpc.ts';
import type {
  AskingStyle,
  AskingStyleDetector,
  BroadcastDetector,
} from '../../discovery/broadcast-detector.ts';
import { TRAITS } from '../../transport/traits.ts';
import type { Transport } from '../../transport/transport.ts';
import { HeldQuestions } from './held-questions.ts';
import { BROADCAST_REFUSAL, unasked, type ServerRequest } from './routing.ts';
import { ANSWER_WAIT_MS, STOPPED_CALL_MS, type SessionCall } from '../session-call.ts';
import { SharedRoots } from './shared-roots.ts';

/** What questions need of their session. */
export interface QuestionsHost {
  readonly clock: Clock;
  readonly transport: Pick<Transport, 'kind'>;
  readonly detector: BroadcastDetector;
  readonly askingStyle: AskingStyleDetector;
  /** The calls that run. */
  readonly calls: Entries<UpstreamRequestId, SessionCall>;
  /** Replies to a request of the server. @param onRefused called if the server does not take the reply */
  reply(id: ServerRequestId, reply: JsonRpcReply, onRefused?: () => void): void;
  /** Asks the server whether it still knows the session. */
  confirm(): Promise<boolean>;
}

/** Stands for all calls of a session that nobody here knows. */
export const UNKNOWN_CALLS = upstreamRequestId('unknown');
/** The most calls that are named to another replica: a pointer must stay small. */
const MAX_BESIDE = 64;
const MIN_ENDED = 256;
/** How long a ping is waited for that shows the end of a turn, in ms. A process that works may reply to nothing. */
const TURN_MS = 2_000;

interface UncorrelatedQuestions {
  readonly held: HeldQuestions;
  readonly roots: SharedRoots;
}

export class SessionQuestions {
  readonly #session: QuestionsHost;
  /** Whether no other process may have calls in the session. Whoever has the session can set it. */
  knowsAllCalls: () => boolean = () => true;
  /** See `HeldQuestionsOptions.confirm`. Whoever has the session can set it. */
  confirm: () => Promise<unknown> | null = () => null;
  /** Called when `callsToKeep` is another. Whoever has the session can set it. */
  onCalls: () => void = () => {};
  #unfinished: UnfinishedCalls;
  /** The calls that ended last. Another replica may not know it. */
  #ended = new RecentMap<UpstreamRequestId, true>(MIN_ENDED);
  readonly #repeated: RepeatedQuestions;
  /** What the server asks on streams that name no call; `null` until it does. */
  #uncorrelated: UncorrelatedQuestions | null = null;
  #turn: Promise<void> | null = null;

  constructor(session: QuestionsHost) {
    this.#session = session;
    this.#unfinished = new UnfinishedCalls(session.clock);
    this.#repeated = new RepeatedQuestions(session.calls, session.clock);
  }

  /** Where the server was seen to ask. One stream for all names no call. */
  get askingStyle(): AskingStyle {
    const { transport, askingStyle } = this.#session;
    return TRAITS[transport.kind].namesTheCall ? askingStyle.style : 'uncorrelated';
  }

  /** True while a question waits until it is certain which of several calls asked it. */
  get isHolding(): boolean {
    return this.#uncorrelated?.held.isHolding === true;
  }

  /** True if calls may go on that ended here without a reply, or that another process has: the server was not told to stop them. */
  get hasUnfinished(): boolean {
    return !this.#unfinished.allStopped;
  }

  /**
   * False if the server asks on streams that name no call, and calls ended without a reply that the server was not
   * told to stop. They can ask for long, and the questions of later calls are declined.
   */
  get isCertain(): boolean {
    return !this.hasUnfinished || this.askingStyle !== 'uncorrelated';
  }

  /**
   * Returns in how many ms calls that ended without a reply can ask no more; 0 for now, or if that takes too long. A call that begins
   * earlier can have a question declined.
   * @param asks whether the next call is to ask, and can wait for longer
   */
  certainInMs(asks: boolean): number {
    if (this.askingStyle !== 'uncorrelated') return 0;
    const { overInMs } = this.#unfinished;
    const patienceMs = asks ? STOPPED_CALL_MS : GOES_ON_MS;
    return overInMs <= patienceMs ? overInMs : 0;
  }

  /**
   * Resolves when the calls that have just asked beside the streams ask no more before they are answered. A tool that asks several
   * questions at once sends them in one turn, and a reply to a ping that was sent after the first of them comes after them all.
   * @returns `null` at once if there is no such call
   */
  turn(): Promise<void> | null {
    const asking = [...this.#session.calls.values()].filter(({ turn }) => turn !== null);
    if (asking.length === 0) return null;
    return (this.#turn ??= this.#endTurn(asking).finally(() => (this.#turn = null)));
  }

  /** Takes a question that came just now: passes it on, or holds it. */
  receive({ id, method, params }: ServerRequest): void {
    if (this.wasAsked(id) || this.#repeated.has(id)) return;
    this.#repeated.asked(id);
    if (method !== 'roots/list') {
      const isFirst = this.askingStyle !== 'uncorrelated';
      this.#session.askingStyle.asked('uncorrelated');
      if (isFirst) this.callsChanged();
      this.#begun().held.receive({ id, method, params });
    } else if (!this.#begun().roots.receive(id, params)) {
      this.#session.reply(id, unasked(method));
    }
  }

  /** A stream that names no call was opened, or opened again. */
  streamOpened(): void {
    this.#repeated.streamOpened();
  }

  /** A question came on the stream of its call. */
  cameOnStream(method: string): void {
    if (method !== 'roots/list') this.#session.askingStyle.asked('on-stream');
  }

  /** True if a question is open, or was asked in a call that runs: an id is used once in a session. */
  wasAsked(id: ServerRequestId): boolean {
    if (this.#uncorrelated?.held.has(id) || this.#uncorrelated?.roots.has(id)) return true;
    for (const call of this.#session.calls.values()) if (call.wasAsked(id)) return true;
    return false;
  }

  /** Returns the requests of the server that share a call's answer; see `SharedRoots.answeredBy`. */
  sharing(
    call: SessionCall,
    id: ServerRequestId,
  ): readonly ServerRequestId[] | Promise<boolean> | null {
    return this.#uncorrelated?.roots.answeredBy(call, id) ?? null;
  }

  /** The server has not taken the answer of a call. */
  notTaken(call: SessionCall): void {
    this.#uncorrelated?.roots.notTaken(call);
  }

  /** The server has taken an answer of a call that these requests share. Gives it to all of them but the first. */
  shared(call: SessionCall, requests: readonly ServerRequestId[], reply: JsonRpcReply): void {
    const later = this.#uncorrelated?.roots.close(call, requests) ?? [];
    for (const id of [...requests.slice(1), ...later]) this.#session.reply(id, reply);
  }

  /** The server takes a question back. */
  withdraw(id: ServerRequestId): void {
    this.#uncorrelated?.held.withdraw(id);
    if (this.#uncorrelated?.roots.withdraw(id) === false) return;
    for (const call of this.#session.calls.values()) call.withdraw(id);
  }

  callBegan(id: UpstreamRequestId): void {
    this.#unfinished.delete(id);
    this.callsChanged();
  }

  /** The calls that a process has to know that goes on with the session: none before the server was seen to ask on streams that name no call. */
  get callsToKeep(): KeptCall[] {
    if (this.askingStyle !== 'uncorrelated') return [];
    const calls = [...this.#session.calls.values(), ...this.#unfinished.calls()].map(kept);
    if (calls.length <= MAX_BESIDE) return calls;
    return [...calls.slice(0, MAX_BESIDE), { id: UNKNOWN_CALLS, waitsSinceMs: null }];
  }

  /** A call has begun or ended, or waits for another answer than before. */
  callsChanged(): void {
    if (this.askingStyle === 'uncorrelated') this.onCalls();
    // What the others ask is told from what those that wait ask.
    const works = ({ waitsSinceMs }: SessionCall) => waitsSinceMs === null;
    const isBeside = this.#uncorrelated !== null && [...this.#session.calls.values()].some(works);
    if (isBeside) inBackground(this.turn() ?? undefined);
  }

  /** Returns the other calls that can ask on streams that name no call. */
  callsBeside(id: UpstreamRequestId): UpstreamRequestId[] {
    const { calls } = this.#session;
    const others = [...calls.keys(), ...this.#unfinished.ids()].filter((one) => one !== id);
    return others.length <= MAX_BESIDE ? others : [...others.slice(0, MAX_BESIDE), UNKNOWN_CALLS];
  }

  /** Calls of another replica may run in the session, or `UNKNOWN_CALLS`. They are known here until they are resumed. */
  mayRun(calls: readonly UpstreamRequestId[]): void {
    for (const id of calls) {
      if (this.#session.calls.has(id) || this.#ended.has(id)) continue;
      this.#unfinished.add({ ...UNKNOWN_CALL, id, wasStopped: false });
    }
  }

  /**
   * Another process had the session, and these calls in it. Until they are resumed, nobody hears of their end. Calls are kept only for
   * servers that ask beside them.
   */
  inherit(calls: readonly KeptCall[]): void {
    if (calls.length > 0) this.#session.askingStyle.asked('uncorrelated');
    this.#unfinished.inherit(calls);
  }

  /** The session was let go of here, and is taken up again. */
  goOnAfter(former: SessionQuestions): void {
    this.#unfinished = former.#unfinished;
    this.#ended = former.#ended;
    this.#unfinished.inherit(this.#unfinished.takeLeft().map(kept));
  }

  callCancelled(call: SessionCall): void {
    this.#uncorrelated?.roots.cancelled(call);
  }

  /** A call is not among those that run any more. @param isOver false if the server may still run it */
  callLeft(call: SessionCall, isOver: boolean): void {
    for (const id of this.#uncorrelated?.roots.ended(call) ?? []) {
      this.#session.reply(id, unasked('roots/list'));
    }
    if (isOver) return this.#over(call);
    this.#unfinished.add(call);
    this.#uncorrelated?.held.ended(call.id, false);
    this.callsChanged();
  }

  /** The server has replied to a request that no longer waits. It may be a call that has ended here. */
  lateReply(id: UpstreamRequestId): void {
    const call = this.#unfinished.delete(id);
    if (call !== null) this.#over(call);
  }

  /** All calls of the session are known here from now on. */
  settle(): void {
    this.#uncorrelated?.held.settle();
  }

  /** Forgets all questions: the session is over. */
  clear(): void {
    this.#uncorrelated?.held.clear();
    this.#uncorrelated?.roots.clear();
  }

  /** The server has replied to a call. */
  #over({ id, mayHaveGivenUp }: UnfinishedCall): void {
    this.#ended.set(id, true);
    // One stream brings the reply after all that the call has asked.
    if (mayHaveGivenUp && TRAITS[this.#session.transport.kind].namesTheCall)
      this.#unfinished.goOn([id], GOES_ON_MS);
    this.#uncorrelated?.held.ended(id, !mayHaveGivenUp);
    this.callsChanged();
  }

  async #endTurn(asking: readonly SessionCall[]): Promise<void> {
    const { clock, transport } = this.#session;
    const turns = asking.map((call) => [call, call.turn] as const);
    const replied = new Closing();
    const reply = () => replied.abort();
    inBackground(this.#session.confirm().then(reply, reply));
    await sleep(clock, TURN_MS, replied);
    // What came before on another connection is read first.
    if (TRAITS[transport.kind].namesTheCall) await sleep(clock, 0);
    for (const [call, turn] of turns) if (turn !== null) call.turnOver(turn);
  }

  #begun(): UncorrelatedQuestions {
    const { clock, calls } = this.#session;
    this.#uncorrelated ??= {
      roots: new SharedRoots(calls, clock),
      held: new HeldQuestions({
        clock,
        running: calls,
        unfinished: () => this.#unfinished.ids(),
        knowsAllCalls: () => this.knowsAllCalls(),
        confirm: () => this.confirm(),
        ask: (call, question) => this.#ask(call, question),
        decline: ({ id, method }, mayHaveAsked, unfinished) => {
          // Its tool waits on then, and goes on when it has given up.
          const onRefused = () => {
            const waiting = unfinished.filter((id) => !this.#ended.has(id));
            this.#unfinished.goOn(waiting, ANSWER_WAIT_MS);
          };
          this.#unfinished.goOn(unfinished, STOPPED_CALL_MS);
          this.#session.reply(id, unasked(method), onRefused);
          for (const { listener } of mayHaveAsked) listener.unanswerable(method, 'ambiguous');
        },
      }),
    };
    return this.#uncorrelated;
  }

  #ask(call: SessionCall, { id, method, params }: ServerRequest): void {
    if (this.#session.detector.isOnlyCall(call.id)) return call.ask(id, method, params);
    // While the question was held, the server was seen to broadcast.
    this.#session.reply(id, BROADCAST_REFUSAL);
    call.listener.unanswerable(method, 'broadcast');
  }
}

/** A call, as far as it matters here. */
type UnfinishedCall = Pick<
  SessionCall,
  'id' | 'wasStopped' | 'mayHaveGivenUp' | 'isSilent' | 'isLeft' | 'waitsSinceMs'
>;

/** A call of a session, for a process that goes on with the session. */
export interface KeptCall {
  readonly id: UpstreamRequestId;
  /** Since when it waits for an answer, in ms of `Clock.elapsed`; `null` if it works, and can ask at any time. */
  readonly waitsSinceMs: number | null;
}

const kept = ({ id, waitsSinceMs }: UnfinishedCall) => ({ id, waitsSinceMs });

const UNKNOWN_CALL = {
  wasStopped: true,
  mayHaveGivenUp: true,
  isSilent: false,
  isLeft: false,
  waitsSinceMs: null,
};

/** As `STOPPED_CALL_MS`, for a call that the server was not told to stop, or that waits for an answer. */
const UNFINISHED_CALL_MS = 600_000;
/** How much longer a call can ask when one of its questions can be on its way, in ms. New calls wait so long. */
const GOES_ON_MS = 5_000;
/** Beyond this number one entry stands for the oldest. */
const MAX_CALLS = 1_000;

interface UnfinishedEntry {
  readonly call: UnfinishedCall;
  readonly endedAtMs: number;
  readonly goesOnUntilMs: number;
  /** From when on it can ask; absent for now. */
  readonly asksFromMs?: number;
}

/** Calls of a session that may still ask, or whose questions may still come. Most have ended without a reply. */
class UnfinishedCalls {
  readonly #clock: Clock;
  readonly #calls = new Map<UpstreamRequestId, UnfinishedEntry>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  add(call: UnfinishedCall): void {
    const nowMs = this.#clock.elapsed();
    this.#set({ call, endedAtMs: nowMs, goesOnUntilMs: nowMs });
  }

  /** These can ask more now: the server has declined or sent what can have been their own. */
  goOn(ids: readonly UpstreamRequestId[], forMs: number): void {
    const untilMs = this.#clock.elapsed() + forMs;
    for (const id of ids) {
      const entry = this.#calls.get(id);
      const { call = { ...UNKNOWN_CALL, id }, endedAtMs = -Infinity } = entry ?? {};
      const goesOnUntilMs = Math.max(untilMs, entry?.goesOnUntilMs ?? untilMs);
      this.#set({ call, endedAtMs, goesOnUntilMs });
    }
  }

  /**
   * Nobody hears of these calls. The tool of one that waits for an answer can give up, which nobody tells, and go on. A question can
   * have been on its way for some time.
   */
  inherit(calls: readonly KeptCall[]): void {
    const nowMs = this.#clock.elapsed();
    for (const { id, waitsSinceMs } of calls) {
      const sinceMs = waitsSinceMs ?? nowMs;
      const goesOnUntilMs = sinceMs + ANSWER_WAIT_MS + STOPPED_CALL_MS;
      const asksFromMs = waitsSinceMs === null ? nowMs : sinceMs + ANSWER_WAIT_MS - GOES_ON_MS;
      const call = { ...UNKNOWN_CALL, id, waitsSinceMs };
      this.#set({ call, endedAtMs: -Infinity, goesOnUntilMs, asksFromMs });
    }
  }

  /** The call has ended after all, or is resumed. @returns the call, if it was one of these */
  delete(id: UpstreamRequestId): UnfinishedCall | null {
    const entry = this.#calls.get(id);
    this.#calls.delete(id);
    return entry?.call ?? null;
  }

  /** True if the server was told to stop all of them, so that they are over soon. */
  get allStopped(): boolean {
    this.#forgetOld();
    for (const { call } of this.#calls.values()) if (!call.wasStopped) return false;
    return true;
  }

  /** Returns the ids of those that can still ask. */
  ids(): UpstreamRequestId[] {
    return this.#asking().map(({ call }) => call.id);
  }

  /** Returns those that can still ask, or can later. */
  calls(): UnfinishedCall[] {
    this.#forgetOld();
    return [...this.#calls.values()].map(({ call }) => call);
  }

  /** In how many ms all of them can ask no more. */
  get overInMs(): number {
    return Math.max(0, ...this.#asking().map((entry) => this.#leftMs(entry)));
  }

  takeLeft(): UnfinishedCall[] {
    const left = this.calls().filter(({ isLeft }) => isLeft);
    for (const { id } of left) this.#calls.delete(id);
    return left;
  }

  #asking(): UnfinishedEntry[] {
    this.#forgetOld();
    const nowMs = this.#clock.elapsed();
    return [...this.#calls.values()].filter(({ asksFromMs = nowMs }) => asksFromMs <= nowMs);
  }

  #set(entry: UnfinishedEntry): void {
    this.#calls.set(entry.call.id, entry);
    if (this.#calls.size <= MAX_CALLS) return;
    const [oldest = UNKNOWN_CALLS] = this.#calls.keys();
    this.#calls.delete(oldest);
    this.add({ ...UNKNOWN_CALL, id: UNKNOWN_CALLS, wasStopped: false });
  }

  #forgetOld(): void {
    for (const [id, entry] of this.#calls) if (this.#leftMs(entry) <= 0) this.#calls.delete(id);
  }

  #leftMs({ call, endedAtMs, goesOnUntilMs }: UnfinishedEntry): number {
    const stoppedMs = call.isSilent ? GOES_ON_MS : STOPPED_CALL_MS;
    const limitMs = call.wasStopped ? stoppedMs : UNFINISHED_CALL_MS;
    return Math.max(endedAtMs + limitMs, goesOnUntilMs) - this.#clock.elapsed();
  }
}
