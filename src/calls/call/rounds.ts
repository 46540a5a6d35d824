/** The rounds of one call: what each `InputRequiredResult` says, and the pointer in it. */
import { inputRequiredResult } from '../../protocol/translate/edge-result.ts';
import type { InputKey } from '../../protocol/ids.ts';
import type { Continuation } from '../../seal/pointer.ts';
import type { CallReply } from '../../model/request.ts';
import type { Questions } from './questions.ts';
import type { CallContext } from './context.ts';
import type { CallExchange } from './exchange.ts';
import type { GivenAnswers } from './given-answers.ts';
import type { Machine } from './machine.ts';

export interface RoundsParts {
  readonly context: CallContext;
  readonly machine: Machine;
  readonly exchange: CallExchange;
  readonly questions: Questions;
  readonly given: GivenAnswers;
  readonly startedAtMs: number;
}

export class Rounds {
  /** A client holds a pointer to this call and may come back with it. */
  pointed = false;
  /** And the last one holds what another reader of the stream would need. */
  resumable = false;
  readonly #parts: RoundsParts;
  #last: { readonly keys: readonly InputKey[]; readonly answer: Promise<CallReply> } | null = null;

  constructor(parts: RoundsParts) {
    this.#parts = parts;
  }

  /** What the last round said, to the letter; `null` before the first. */
  get last(): { readonly keys: readonly InputKey[]; readonly answer: Promise<CallReply> } | null {
    return this.#last;
  }

  /** Asks the client these questions in a round of this number. */
  ask(round: number, keys: readonly InputKey[]): Promise<CallReply> {
    const answer = this.#ask(round, keys);
    this.#last = { keys, answer };
    return answer;
  }

  async #ask(round: number, keys: readonly InputKey[]): Promise<CallReply> {
    const { context, machine, exchange, questions, startedAtMs } = this.#parts;
    const { clock, limits, leaveWhenParked } = context;
    const expiresAtMs = Math.min(clock.now() + limits.parkTtlMs, startedAtMs + limits.callTtlMs);
    const inputRequests = questions.inputRequests(keys);
    this.pointed = true;
    const continuation = this.#continuation(keys);
    const { requestState, continues } = await context.point(round, expiresAtMs, continuation);
    this.resumable =
      continues && context.reattach && continuation !== null && continuation.resume !== null;
    const leaves = leaveWhenParked && continues && continuation?.resume;
    if (leaves && machine.state.name === 'parked') machine.feed({ type: 'drain', resumable: true });
    return {
      kind: 'result',
      result: inputRequiredResult(inputRequests, requestState, exchange.serverInfo),
    };
  }

  /** What another replica would need to go on with the call, when it could. */
  #continuation(keys: readonly InputKey[]): Continuation | null {
    const { context, machine, exchange, questions, given, startedAtMs } = this.#parts;
    const resume = exchange.resumePoint;
    // A call that the server ended with URLs to visit (-32042) is to be made again by whoever goes on.
    const goesOn = resume !== null || context.mayReplay || machine.state.name === 'suspended';
    if (!goesOn) return null;
    const replay = context.mayReplay ? given.all : null;
    const shown = questions.sealed(keys);
    return { startedAtMs, questions: shown, keys: questions.keysGiven, resume, replay };
  }
}
