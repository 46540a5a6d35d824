/** The conversation of one call with its client: legs come, wait, hear of the work, and are answered. */
import { answersDigest } from '../../seal/digests.ts';
import type { JsonObject } from '../../protocol/json/json.ts';
import type { Effect, LegId, RetryEvent } from '../machine/states.ts';
import { illFormedAnswer } from '../../model/failures.ts';
import type { CallReply, EdgeRequest, Leg } from '../../model/request.ts';
import { Notifications } from './notifications.ts';
import type { Questions } from './questions.ts';
import { openRequests } from '../machine/selectors.ts';
import type { CallExchange } from './exchange.ts';
import { openRound } from './retry-selectors.ts';
import { Legs, type AttachedLeg } from './legs.ts';
import type { CallLog } from './log.ts';
import type { Machine } from './machine.ts';
import type { Replies } from './replies.ts';

export interface ClientSideParts {
  readonly log: CallLog;
  readonly machine: Machine;
  readonly exchange: CallExchange;
  readonly questions: Questions;
  readonly replies: Replies;
}

export class ClientSide {
  readonly #parts: ClientSideParts;
  readonly #legs: Legs;
  readonly #notifications = new Notifications();

  constructor(parts: ClientSideParts) {
    this.#parts = parts;
    this.#legs = new Legs({
      closed: (leg) => parts.machine.feed({ type: 'legClosed', leg }),
      missed: (missed) => parts.log.thinned(missed),
    });
  }

  /** Lets the leg wait with which a call begins; the promise is its answer. */
  first(request: EdgeRequest, leg: Leg): { id: LegId; answer: Promise<CallReply> } {
    return this.#legs.attach(request, leg, new Map());
  }

  /** Lets a retry have what the call has for it; the promise is its answer. */
  retry(round: number, request: EdgeRequest, leg: Leg): Promise<CallReply> {
    const { machine, questions } = this.#parts;
    const open = round === openRound(machine.state) ? openRequests(machine.state) : [];
    const read = questions.read(open, request.inputResponses);
    if (read.type === 'ill-formed') {
      return Promise.resolve({ kind: 'failed', failure: illFormedAnswer(read.key, read.problem) });
    }
    const { id, answer } = this.#legs.attach(request, leg, read.replies);
    machine.feed({
      type: 'retry',
      leg: id,
      round,
      answersDigest: answersDigest(request.inputResponses ?? {}),
      answered: [...read.replies.keys()],
      uncovered: questions.uncovered(
        open.map((question) => question.key),
        request.profile,
      ),
      declined: read.declined,
    });
    const attached = this.#legs.get(id);
    if (attached !== undefined) this.#notifications.catchUp(attached);
    this.#legs.noticeClosed(id);
    return answer;
  }

  /** Tells the call if the client of its first leg was gone before the call began. */
  begun(id: LegId): void {
    this.#legs.noticeClosed(id);
  }

  /** The leg, if it waits still. */
  leg(id: LegId): AttachedLeg | undefined {
    return this.#legs.get(id);
  }

  /** Passes a notification of the server on to the legs that want it. */
  notify(method: string, params: JsonObject): void {
    this.#notifications.deliver(method, params, this.#legs.all());
  }

  /** See `Legs.backlog`. */
  backlog(): Promise<void> | null {
    return this.#legs.backlog();
  }

  /** The work begins anew, and so does its progress. */
  forgetProgress(): void {
    this.#notifications.forgetProgress();
  }

  reply({ legs, reply }: Extract<Effect, { do: 'reply' }>): void {
    this.#legs.answer(legs, ({ request }) => this.#parts.replies.answerTo(reply, request.profile));
  }

  /** Looks at retries again whose legs wait still. */
  retryAgain(retries: readonly RetryEvent[]): void {
    for (const retry of retries) {
      if (this.#legs.get(retry.leg) !== undefined) this.#parts.machine.feed(retry);
    }
  }

  /** A retry was looked at. What the server asks while its leg waits is for this client. */
  retried({ leg }: RetryEvent): void {
    const attached = this.#legs.get(leg);
    // It goes with the credentials of this client, too.
    if (attached !== undefined) this.#parts.exchange.request = attached.request;
  }
}
