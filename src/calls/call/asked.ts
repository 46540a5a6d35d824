/** A question of the server: whether the client is asked, or it is answered here. */
import { ASKS_WITHOUT_END, notAnswerable } from '../../model/question-failures.ts';
import { wantsNotifications } from '../../model/request.ts';
import type { InputKey, ServerRequestId } from '../../protocol/ids.ts';
import type { JsonObject } from '../../protocol/json.ts';
import { ErrorCode, type JsonRpcReply } from '../../protocol/json-rpc.ts';
import type { Session } from '../../upstream/session/session.ts';
import { isOver, openRequests } from '../machine/selectors.ts';
import type { OpenRequest } from '../machine/states.ts';
import type { CallData } from './data.ts';
import { answerQuietly, cancelOpenQuestions, sessionOf, stopExchange } from './leased-exchange.ts';
import { logAnsweredAhead, logRefusedQuestion } from './log.ts';
import { GivenAnswers, Questions } from './questions.ts';
import { failCall } from './replies.ts';

/** For a server that asks more at once than a client can be shown. */
const TOO_MANY_QUESTIONS = {
  code: ErrorCode.internalError,
  message: 'Too many questions are open at once',
};

/** @returns the questions of a call, which begin with the first that the server asks */
export function questionsOf(call: CallData): Questions {
  call.questions ??= new Questions({
    names: call.keyNames,
    revealsSession: (text) => sessionOf(call)?.reveals(text) ?? false,
  });
  return call.questions;
}

/** Shows a question of the server to the client, or answers it here. */
export function receiveQuestion(
  call: CallData,
  session: Session,
  id: ServerRequestId,
  method: string,
  params: JsonObject,
): void {
  if (!session.interactive) {
    // An answer would reach an instance that never asked, and the call would wait without an end.
    logRefusedQuestion(call, method, 'the server gave no session id');
    stopExchange(call, 'the server asks, and gave no session in which it could be answered');
    return failCall(call, notAnswerable('no_session_id'));
  }
  const { services, request, given } = call;
  const questions = questionsOf(call);
  const revision = session.initializeResult.protocolVersion;
  const decision = questions.ask(id, method, params, request.profile, revision);
  if (questions.isTooMuch) {
    logRefusedQuestion(call, method, 'too many questions in one call');
    stopExchange(call, 'the server asks without end');
    return failCall(call, ASKS_WITHOUT_END);
  }
  if (decision.type === 'refused') {
    logRefusedQuestion(call, method, decision.reason);
    return answerQuietly(call, id, { error: decision.error });
  }
  const { key } = decision.request;
  const show = showing(call, questions, decision.request);
  const repeated = given?.repeat(questions.digestOf(key));
  if (repeated !== undefined) {
    questions.withdraw(id);
    answerQuietly(call, id, repeated);
  } else if (openQuestions(call) >= services.limits.maxOpenQuestions) {
    questions.withdraw(id);
    logRefusedQuestion(call, method, 'too many questions are open');
    answerQuietly(call, id, { error: TOO_MANY_QUESTIONS });
  } else if (!answerAhead(call, questions, decision.request, show)) {
    if (call.state.name === 'parked' && call.lastRound !== null) {
      const gapMs = services.clock.now() - call.lastRound.atMs;
      services.gaps.askedAgain(call.loggedTarget, gapMs);
    }
    whenBegun(call, session, show);
  }
}

function openQuestions({ state, early }: CallData): number {
  return openRequests(state).length + (early?.shows.length ?? 0);
}

/** @returns what asks the client, unless the server has taken the question back by then, or the call was made again */
function showing(call: CallData, questions: Questions, request: OpenRequest): () => void {
  const { generation, services } = call;
  return () => {
    if (call.generation !== generation || !questions.has(request.key)) return;
    // Nobody is asked any more, and the server has yet to be told that the call is cancelled.
    if (isOver(call.state)) return cancelOpenQuestions(call, [request]);
    call.dispatch({ type: 'asked', request, atMs: services.clock.now() });
  };
}

/** How long a question waits until the response to its call begins, in ms. */
const BEGIN_WAIT_MS = 50;

/**
 * Waits until the response to the call has begun, if something of it is wanted with the question: notifications, for a
 * client that wants them, or the id of an event, after which another reader can resume the stream. A server that asks on
 * a stream of the session can write its question before the response to the call.
 */
function whenBegun(call: CallData, session: Session, show: () => void): void {
  const { exchange, request, services, early } = call;
  const isBeginWanted = wantsNotifications(request) || (services.reattach && session.numbersEvents);
  if (exchange === null || !isBeginWanted) return show();
  if (early !== null) return void early.shows.push(show);
  const begin = () => {
    if (call.early === waiting) showEarly(call);
  };
  const waiting = { shows: [show], timer: services.clock.setTimer(BEGIN_WAIT_MS, begin) };
  call.early = waiting;
  exchange.accepted.then(begin, begin);
}

/** Shows the questions that wait for the response to the call, in the order in which they came. */
export function showEarly(call: CallData): void {
  const { early } = call;
  if (early === null) return;
  call.early = null;
  early.timer.cancel();
  for (const show of early.shows) show();
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
  const { key, id } = request;
  if (ahead === null || exchange === null || id === null) return false;
  const reply = questions.readAhead(key, ahead);
  if (reply === null) return false;
  logAnsweredAhead(call, questions.kindOf(key), reply);
  exchange
    .respond(id, reply, call.request.caller.headers)
    .then(() => noteAnswer(call, key, reply), show);
  return true;
}

/** Notes that the server took an answer. */
export function noteAnswer(call: CallData, key: InputKey, reply: JsonRpcReply): void {
  call.hasAnswered = true;
  // The server can take a question back while the answer is on its way: then there is none to be asked again.
  if (!call.origin.mayReplay || call.questions?.has(key) !== true) return;
  call.given ??= new GivenAnswers();
  call.given.add({ question: call.questions.digestOf(key), reply });
}
