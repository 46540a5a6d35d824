/** A question of the server: whether the client is asked, or it is answered here. */
import { ASKS_WITHOUT_END, notAnswerable } from '../../model/question-failures.ts';
import { wantsNotifications } from '../../model/request.ts';
import type { ServerRequestId } from '../../protocol/ids.ts';
import type { JsonObject } from '../../protocol/json.ts';
import { ErrorCode } from '../../protocol/json-rpc.ts';
import type { Session } from '../../upstream/session/session.ts';
import { isOver, openRequests } from '../machine/selectors.ts';
import type { OpenRequest } from '../machine/states.ts';
import type { CallData } from './data.ts';
import { logAnsweredAhead, logRefusedQuestion } from './log.ts';
import type { Questions } from './questions.ts';
import { failCall } from './replies.ts';

/** For a server that asks more at once than a client can be shown. */
const TOO_MANY_QUESTIONS = {
  code: ErrorCode.internalError,
  message: 'Too many questions are open at once',
};

/** Shows a question of the server to the client, or answers it here. */
export function receiveQuestion(
  call: CallData,
  session: Session,
  id: ServerRequestId,
  method: string,
  params: JsonObject,
): void {
  const { services, request, exchange } = call;
  if (!session.interactive) {
    // An answer would reach an instance that never asked, and the call would wait without an end.
    logRefusedQuestion(call, method, 'the server gave no session id');
    exchange.stop('the server asks, and gave no session in which it could be answered');
    return failCall(call, notAnswerable('no_session_id'));
  }
  const questions = exchange.asking();
  const revision = session.initializeResult.protocolVersion;
  const decision = questions.ask(id, method, params, request.profile, revision);
  if (questions.isTooMuch) {
    logRefusedQuestion(call, method, 'too many questions in one call');
    exchange.stop('the server asks without end');
    return failCall(call, ASKS_WITHOUT_END);
  }
  if (decision.type === 'refused') {
    logRefusedQuestion(call, method, decision.reason);
    return exchange.answerQuietly(id, { error: decision.error });
  }
  const { key } = decision.request;
  const show = showing(call, questions, decision.request);
  const repeated = questions.repeated(key);
  if (repeated !== undefined) {
    questions.withdraw(id);
    exchange.answerQuietly(id, repeated);
  } else if (openQuestions(call) >= services.limits.maxOpenQuestions) {
    questions.withdraw(id);
    logRefusedQuestion(call, method, 'too many questions are open');
    exchange.answerQuietly(id, { error: TOO_MANY_QUESTIONS });
  } else if (!answerAhead(call, questions, decision.request, show)) {
    if (call.state.name === 'parked' && call.lastRound !== null) {
      const gapMs = services.clock.now() - call.lastRound.atMs;
      services.gaps.askedAgain(call.loggedTarget, gapMs);
    }
    whenBegun(call, session, show);
  }
}

function openQuestions({ state, exchange }: CallData): number {
  return openRequests(state).length + exchange.early;
}

/** @returns what asks the client, unless the server has taken the question back by then, or the call was made again */
function showing(call: CallData, questions: Questions, request: OpenRequest): () => void {
  const { exchange, services } = call;
  const { listener } = exchange;
  return () => {
    if (exchange.listener !== listener || !questions.has(request.key)) return;
    // Nobody is asked any more, and the server has yet to be told that the call is cancelled.
    if (isOver(call.state)) return exchange.cancelOpenQuestions([request]);
    call.dispatch({ type: 'asked', request, atMs: services.clock.now() });
  };
}

/**
 * Waits until the response to the call has begun, if something of it is wanted with the question: notifications, for a
 * client that wants them, or the id of an event, after which another reader can resume the stream. A server that asks on
 * a stream of the session can write its question before the response to the call.
 */
function whenBegun(call: CallData, session: Session, show: () => void): void {
  const { exchange, request, services } = call;
  const isBeginWanted = wantsNotifications(request) || (services.reattach && session.numbersEvents);
  if (isBeginWanted) exchange.showWhenBegun(show);
  else show();
}

/**
 * Answers a question with what the client gave before it came.
 * @param show called if the server does not take the answer
 * @returns false if the client gave nothing that fits
 */
function answerAhead(
  call: CallData,
  questions: Questions,
  request: OpenRequest,
  show: () => void,
): boolean {
  const { exchange, ahead } = call;
  const { request: inFlight } = exchange;
  const { key, id } = request;
  if (ahead === null || inFlight === null || id === null) return false;
  const reply = questions.readAhead(key, ahead);
  if (reply === null) return false;
  logAnsweredAhead(call, questions.kindOf(key), reply);
  inFlight
    .respond(id, reply, call.request.caller.headers)
    .then(() => exchange.answered(key, reply), show);
  return true;
}
