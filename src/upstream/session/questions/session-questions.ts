/**
 * The questions of a session on streams that name no call: which call is asked each of them, and what is known of
 * how the server asks. A question on the stream of a call does not come here.
 */
import type { Entries } from '../../../lib/releasing.ts';
import type { Clock } from '../../../lib/clock.ts';
import { RecentMap } from '../../../lib/containers.ts';
import type { ServerRequestId, UpstreamRequestId } from '../../../protocol/ids.ts';
import type { JsonRpcReply } from '../../../protocol/json-rpc.ts';
import type {
  AskingStyle,
  AskingStyleDetector,
  BroadcastDetector,
} from '../../discovery/broadcast-detector.ts';
import { hasOneStream, type Transport } from '../../transport/transport.ts';
import {
  ASKS_TOGETHER_MS,
  HeldQuestions,
  type UnrelatedQuestion,
  UnfinishedCalls,
} from './held-questions.ts';
import { BROADCAST_REFUSAL, unasked } from './routing.ts';
import type { SessionCall } from '../session-call.ts';
import { SharedRoots } from './shared-roots.ts';

export interface SessionQuestionsOptions {
  readonly clock: Clock;
  readonly transport: Transport['kind'];
  readonly detector: BroadcastDetector;
  readonly askingStyle: AskingStyleDetector;
  /** The calls that run. */
  readonly calls: Entries<UpstreamRequestId, SessionCall>;
  /** Replies to a request of the server. */
  readonly reply: (id: ServerRequestId, reply: JsonRpcReply) => void;
}

/** The most calls that are named to another replica: a pointer must stay small. */
const MAX_BESIDE = 64;
const MIN_ENDED = 256;

export class SessionQuestions {
  readonly #options: SessionQuestionsOptions;
  readonly #unfinished: UnfinishedCalls;
  /** The calls that ended last. Another replica may not know it. */
  readonly #ended = new RecentMap<UpstreamRequestId, true>(MIN_ENDED);
  readonly #held: HeldQuestions<SessionCall>;
  readonly #roots: SharedRoots<SessionCall>;

  constructor(options: SessionQuestionsOptions) {
    this.#options = options;
    const { clock, calls, reply } = options;
    this.#unfinished = new UnfinishedCalls(clock);
    this.#roots = new SharedRoots(calls);
    this.#held = new HeldQuestions({
      clock,
      running: calls,
      askedAtMs: (call) => call.askedAtMs,
      unfinished: this.#unfinished,
      ask: (call, question) => this.#ask(call, question),
      decline: ({ id, method }, mayHaveAsked) => {
        reply(id, unasked(method));
        for (const { listener } of mayHaveAsked) listener.unanswerable(method, 'ambiguous');
      },
    });
  }

  /** Where the server was seen to ask. One stream for all names no call. */
  get askingStyle(): AskingStyle {
    const { transport, askingStyle } = this.#options;
    return hasOneStream(transport) ? 'unrelated' : askingStyle.style;
  }

  /** True if the server has asked a question in this session while several calls ran that can have asked it. */
  get hadSeveral(): boolean {
    return this.#held.hadSeveral;
  }

  /** True if calls that ended without a reply can still ask. */
  get hasUnfinished(): boolean {
    return !this.#unfinished.isEmpty;
  }

  /** True if the server was told to stop all of those, so that they are over soon. */
  get allStopped(): boolean {
    return this.#unfinished.allStopped;
  }

  /** In how many ms neither they nor the calls that wait for an answer now can ask more. */
  get certainInMs(): number {
    const { calls, clock } = this.#options;
    const nowMs = clock.elapsed();
    const waitMs = [...calls.values()].map(({ askedAtMs }) =>
      askedAtMs === null ? 0 : askedAtMs + ASKS_TOGETHER_MS - nowMs,
    );
    return Math.max(this.#unfinished.overInMs, ...waitMs);
  }

  /** Takes a question that came just now: passes it on, or holds it. */
  receive({ id, method, params }: UnrelatedQuestion): void {
    if (this.wasAsked(id)) return;
    if (method !== 'roots/list') {
      this.#options.askingStyle.asked('unrelated');
      this.#held.receive({ id, method, params });
    } else if (!this.#roots.receive(id, params)) {
      this.#options.reply(id, unasked(method));
    }
  }

  /** A question came on the stream of its call. */
  cameOnStream(method: string): void {
    if (method !== 'roots/list') this.#options.askingStyle.asked('on-stream');
  }

  /** True if a question is open, or was asked in a call that runs: an id is used once in a session. */
  wasAsked(id: ServerRequestId): boolean {
    if (this.#held.has(id) || this.#roots.has(id)) return true;
    for (const call of this.#options.calls.values()) if (call.wasAsked(id)) return true;
    return false;
  }

  /** Returns the requests of the server that share a call's answer, or `null` if it is for one question only. */
  sharing(call: SessionCall, id: ServerRequestId): readonly ServerRequestId[] | null {
    return this.#roots.answeredBy(call, id);
  }

  /** The server has taken an answer that these requests share. Gives it to all of them but the first. */
  shared(requests: readonly ServerRequestId[], reply: JsonRpcReply): void {
    const later = this.#roots.close(requests);
    for (const id of [...requests.slice(1), ...later]) this.#options.reply(id, reply);
  }

  /** The server takes a question back. */
  withdraw(id: ServerRequestId): void {
    this.#held.withdraw(id);
    if (!this.#roots.withdraw(id)) return;
    for (const call of this.#options.calls.values()) call.withdraw(id);
  }

  callBegan(id: UpstreamRequestId): void {
    this.#unfinished.delete(id);
  }

  /** Returns the other calls that can ask on streams that name no call. */
  callsBeside(id: UpstreamRequestId): UpstreamRequestId[] {
    const { calls } = this.#options;
    const others = [...calls.keys(), ...this.#unfinished.ids()].filter((one) => one !== id);
    return others.slice(0, MAX_BESIDE);
  }

  /** Calls of another replica may run in the session. They are known here until they are resumed. */
  mayRun(calls: readonly UpstreamRequestId[]): void {
    for (const id of calls) {
      if (this.#options.calls.has(id) || this.#ended.has(id)) continue;
      this.#unfinished.add({ id, wasStopped: false });
    }
  }

  callCancelled(call: SessionCall): void {
    this.#roots.cancelled(call);
  }

  /** A call is not among those that run any more. @param isOver false if the server may still run it */
  callLeft(call: SessionCall, isOver: boolean): void {
    for (const id of this.#roots.ended(call)) this.#options.reply(id, unasked('roots/list'));
    if (isOver) this.#ended.set(call.id, true);
    else this.#unfinished.add(call);
    this.#held.ended(call.id, isOver);
  }

  /** The server has replied to a request that does not wait any more. It may be a call that has ended here. */
  lateReply(id: UpstreamRequestId): void {
    if (!this.#unfinished.delete(id)) return;
    this.#ended.set(id, true);
    this.#held.ended(id, true);
  }

  /** Forgets all questions: the session is over. */
  clear(): void {
    this.#held.clear();
    this.#roots.clear();
  }

  #ask(call: SessionCall, { id, method, params }: UnrelatedQuestion): void {
    if (this.#options.detector.isOnlyCall(call.id)) return call.ask(id, method, params);
    // While the question was held, the server was seen to broadcast.
    this.#options.reply(id, BROADCAST_REFUSAL);
    call.listener.unanswerable(method, 'broadcast');
  }
}
