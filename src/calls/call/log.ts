/** What the operator sees of one call. No question, no answer and no result is in it. */
import type { Clock } from '../../lib/clock.ts';
import type { Log } from '../../ops/log.ts';
import type { CallId } from '../../protocol/ids.ts';
import type { UpstreamFailure } from '../../upstream/failure.ts';
import type { CallState, EventNamed, LegReply } from '../machine/states.ts';
import type { Missed } from '../thinned-leg.ts';
import type { CallContext } from './context.ts';
import type { Transition } from './machine.ts';

export class CallLog {
  readonly #log: Log;
  readonly #clock: Clock;
  readonly #of: { readonly route: string; readonly call: CallId };
  readonly #method: string;
  readonly #target: string;
  readonly #startedAtMs: number;
  /** How the next retry that goes on reached its call. */
  #rung: 'here' | 'reattach' = 'here';

  constructor(context: CallContext, method: string, startedAtMs: number) {
    this.#log = context.log;
    this.#clock = context.clock;
    this.#of = { route: context.route, call: context.id };
    this.#method = method;
    this.#target = context.loggedTarget;
    this.#startedAtMs = startedAtMs;
  }

  /** The call was another replica's; the retry that brought it here is the next to go on. */
  reattached(): void {
    this.#rung = 'reattach';
  }

  moved({ rule, from, to, effects }: Transition): void {
    this.#log.event('call.moved', { ...this.#of, rule, from: from.name, to: to.name });
    const asked = effects.find(
      (effect) => effect.do === 'reply' && effect.reply.type === 'inputRequired',
    );
    if (asked?.do === 'reply' && asked.reply.type === 'inputRequired') {
      const { round, keys } = asked.reply;
      this.#log.event('call.parked', { ...this.#of, round, questions: keys.length });
    } else if (from.name !== to.name && (to.name === 'resuming' || from.name === 'suspended')) {
      this.#log.event('call.resumed', { ...this.#of, round: to.round, rung: this.#rung });
      this.#rung = 'here';
    }
    if (to.name === 'settled' && from.name !== 'settled') {
      this.#log.event('call.settled', { ...this.#of, round: to.round });
    }
    if (to.name === 'done' && from.name !== 'done') {
      const end = to.end.type === 'outcome' ? to.end.outcome.kind : to.end.type;
      const ms = this.#clock.now() - this.#startedAtMs;
      const [method, target] = [this.#method, this.#target];
      this.#log.event('call.ended', { ...this.#of, method, target, round: to.round, end, ms });
    }
  }

  thinned(missed: Missed): void {
    this.#log.event('call.thinned', { ...this.#of, ...missed });
  }

  pointerRefused(reason: Extract<LegReply, { type: 'invalidRequestState' }>['reason']): void {
    this.#log.event('pointer.refused', { ...this.#of, reason });
  }

  questionRefused(method: string, reason: string): void {
    this.#log.event('call.question_refused', { ...this.#of, method, reason });
  }

  answerRefused(state: CallState, cause: EventNamed<'postRefused'>['cause']): void {
    this.#log.event('call.answer_refused', { ...this.#of, round: state.round, cause });
  }

  upstreamFailed({ code, message: problem }: UpstreamFailure): void {
    this.#log.event('upstream.failed', { ...this.#of, method: this.#method, code, problem });
  }
}
