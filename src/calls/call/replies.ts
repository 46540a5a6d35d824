/** What each leg of one call is told, in the words of the table, as the answer that its client gets. */
import type { ClientProfile } from '../../protocol/translate/client-profile.ts';
import type { InputKey } from '../../protocol/ids.ts';
import type { CallEnd, LegReply } from '../machine/states.ts';
import {
  ANSWERS_NOT_TAKEN,
  callLost,
  COORDINATION_UNAVAILABLE,
  INVALID_STATE,
  missingCapability,
} from '../../model/failures.ts';
import type { CallReply } from '../../model/request.ts';
import type { Failure } from '../../model/outcome.ts';
import type { Questions } from './questions.ts';
import type { CallContext } from './context.ts';
import { endAnswer } from './end-answer.ts';
import type { CallExchange } from './exchange.ts';
import type { CallLog } from './log.ts';
import type { Rounds } from './rounds.ts';

export interface RepliesParts {
  readonly context: CallContext;
  readonly exchange: CallExchange;
  /** How the server refused the credentials of the last answers, if it did. */
  readonly unauthorized: () => Failure | null;
  /** Whether the server has begun the call, as far as is known. */
  readonly begun: () => boolean;
  /** Whether somebody else reads the stream of the call still. */
  readonly heldElsewhere: () => boolean;
  readonly questions: Questions;
  readonly rounds: Rounds;
  readonly log: CallLog;
}

export class Replies {
  readonly #parts: RepliesParts;

  constructor(parts: RepliesParts) {
    this.#parts = parts;
  }

  /** @param profile what the client of the leg declares: nothing else is asked of it (MRTR, server requirement 7) */
  answerTo(reply: LegReply, profile: ClientProfile): CallReply | Promise<CallReply> {
    const { unauthorized, begun, questions, rounds, log } = this.#parts;
    switch (reply.type) {
      case 'end':
        return this.answerOf(reply.end);
      case 'inputRequired':
        return this.#unlessUncovered(reply.keys, profile, () =>
          rounds.ask(reply.round, reply.keys),
        );
      case 'sameInputRequired': {
        const { last } = rounds;
        if (last === null) return { kind: 'failed', failure: INVALID_STATE };
        return this.#unlessUncovered(last.keys, profile, () => last.answer);
      }
      case 'invalidRequestState':
        log.pointerRefused(reply.reason);
        return { kind: 'failed', failure: INVALID_STATE };
      case 'missingCapability':
        return { kind: 'failed', failure: missingCapability(questions.requiredFor(reply.keys)) };
      case 'unauthorized':
        return { kind: 'failed', failure: unauthorized() ?? callLost(begun()) };
      case 'unreachable':
        return { kind: 'failed', failure: ANSWERS_NOT_TAKEN };
    }
  }

  #unlessUncovered(
    keys: readonly InputKey[],
    profile: ClientProfile,
    ask: () => Promise<CallReply>,
  ): CallReply | Promise<CallReply> {
    const { questions } = this.#parts;
    const uncovered = questions.uncovered(keys, profile);
    if (uncovered.length === 0) return ask();
    return { kind: 'failed', failure: missingCapability(questions.requiredFor(uncovered)) };
  }

  answerOf(end: CallEnd): CallReply {
    const { context, exchange, rounds, begun, heldElsewhere } = this.#parts;
    if (end.type === 'lost' && heldElsewhere()) {
      return { kind: 'failed', failure: COORDINATION_UNAVAILABLE };
    }
    return endAnswer(exchange.request.method, end, begun(), {
      serverInfo: exchange.serverInfo,
      // Once the client had a pointer, the outcome belongs to what it sent with it.
      cacheable: !rounds.pointed,
      caching: context.caching,
    });
  }
}
