/**
 * The server's side of a call: what the server says becomes events of the machine, and the answers of the
 * client go to the server.
 */
import { answersNotTaken } from '../../model/failures.ts';
import { notAnswerable } from '../../model/question-failures.ts';
import { failureOfCall, losesCall } from '../../model/upstream-failures.ts';
import type { ServerRequestId } from '../../protocol/ids.ts';
import type { JsonObject } from '../../protocol/json.ts';
import {
  LegacyErrorCode,
  type JsonRpcErrorObject,
  type JsonRpcReply,
} from '../../protocol/json-rpc.ts';
import { readUrlElicitations } from '../../protocol/translate/error-map.ts';
import type { ServerTask } from '../../protocol/task.ts';
import { withContext } from '../../ops/tracing.ts';
import { errorFromServer } from '../../protocol/translate/cleaning.ts';
import type { ResumePoint } from '../../seal/pointer.ts';
import {
  asUpstreamFailure,
  beforeRequest,
  type UpstreamFailure,
} from '../../model/upstream-failure.ts';
import type { UnanswerableCause } from '../../upstream/session/call-exchange.ts';
import { isOver, awaitsReply } from '../machine/selectors.ts';
import type { OpenRequest, WaiterId } from '../machine/states.ts';
import { LOST } from '../machine/steps.ts';
import { receiveQuestion } from './asked.ts';
import { offerTask } from './client.ts';
import type { CallData } from './data.ts';
import { workFor } from './defects.ts';
import type { CallListener } from './exchange.ts';
import { idsOf, logRefusedQuestion, logUpstreamFailure } from './log.ts';
import { failCall, outcomeOfReply } from './replies.ts';

/** What a client that asked for log messages is told, once. */
const STATE_IS_GONE: JsonObject = {
  level: 'warning',
  logger: 'mrtr-gateway',
  data: 'The session of your earlier calls has ended. What the server kept in it is gone.',
};

const WHY_UNANSWERABLE: Readonly<Record<UnanswerableCause, string>> = {
  broadcast: 'the server sends it to every session (broadcast)',
  ambiguous: 'it names no call, and several calls of the session can have asked it (ambiguous)',
};

/**
 * Sends the request.
 * @param freshSession whether a session that was used before must not be taken
 */
export function launch(call: CallData, freshSession: boolean): void {
  workFor(call, call.exchange.send(freshSession, new CallEvents(call, false)));
}

/** Resumes the stream of a call that another replica had, with these questions still open. */
export function reattach(call: CallData, resume: ResumePoint, open: readonly OpenRequest[]): void {
  workFor(call, call.exchange.resume(resume, open, new CallEvents(call, true)));
}

/**
 * How long to wait for the server to say that its URLs were visited, in ms. It need not say so (2025-11-25 elicitation, "URL
 * Elicitation Required Error"), and the user has accepted.
 */
const URL_VISIT_WAIT_MS = 10_000;

/** Makes a call whose URLs were visited, in the same session if it lives, or whose client has named its roots. */
export async function callAgain(call: CallData, waiter: WaiterId): Promise<void> {
  const waiting = call.waiters.find(waiter);
  if (waiting === undefined) return;
  call.request = waiting.request;
  call.waiters.forgetProgress();
  // A call without a request in flight keeps its params, even if its client is told to retry before they are sent.
  const { exchange } = call;
  exchange.endRequest();
  exchange.roots ??= exchange.questions?.rootsIn(waiting.replies) ?? null;
  await exchange.session?.urlsVisited(exchange.questions?.visiting ?? [], URL_VISIT_WAIT_MS);
  if (!isOver(call.state)) launch(call, false);
}

/** Sends the answers that a waiter brought to the server, one after the other. */
export async function postAnswers(
  call: CallData,
  waiter: WaiterId,
  requests: readonly OpenRequest[],
): Promise<void> {
  const waiting = call.waiters.find(waiter);
  const { exchange } = call;
  const { request } = exchange;
  if (waiting === undefined || request === null) return;
  call.request = waiting.request;
  const headers = withContext(waiting.request.caller.headers, exchange.beginWork());
  const { listener } = exchange;
  const leaving = leaveIfHomeIsLost(call);
  if (leaving !== null) await leaving;
  if (exchange.listener !== listener) return;
  const accepted: ServerRequestId[] = [];
  for (const { key, id } of requests) {
    const reply = waiting.replies.get(key);
    if (id === null || reply === undefined) continue;
    // The server took it back while earlier answers were on their way (cancellation, "Behavior Requirements").
    if (exchange.questions?.isWithdrawn(id) === true) continue;
    try {
      await request.respond(id, reply, headers).catch((error: unknown) => {
        if (asUpstreamFailure(error, true).code !== 'upstream_unavailable') throw error;
        // The same message again is harmless: the first answer to a question counts.
        return request.respond(id, reply, headers);
      });
    } catch (error) {
      if (exchange.listener !== listener) return;
      return receivePostFailure(call, asUpstreamFailure(error, true), accepted);
    }
    accepted.push(id);
    exchange.answered(key, reply);
  }
  if (exchange.listener === listener) call.dispatch({ type: 'posted' });
}

/** Hears of a request that was sent. What comes when the exchange is over, or has another listener, is ignored. */
class CallEvents implements CallListener {
  readonly #call: CallData;
  /** The stream beside that of the call may not be open: another replica had it. */
  #isBesideMissing: boolean;
  /** How often the stream broke. */
  #breaks = 0;

  /** @param isReattached whether another replica had the stream and the session before */
  constructor(call: CallData, isReattached: boolean) {
    this.#call = call;
    this.#isBesideMissing = isReattached;
  }

  get isCurrent(): boolean {
    return this.#call.exchange.listener === this;
  }

  asked(id: ServerRequestId, method: string, params: JsonObject): void {
    const { session } = this.#call.exchange;
    if (!this.isCurrent || session === null) return;
    this.#call.exchange.hasBegun = true;
    receiveQuestion(this.#call, session, id, method, params);
  }

  withdrawn(id: ServerRequestId): void {
    if (!this.isCurrent) return;
    this.#call.dispatch({ type: 'withdrawn', id });
    this.#call.exchange.questions?.withdraw(id);
  }

  unanswerable(method: string, cause: UnanswerableCause): void {
    if (!this.isCurrent) return;
    logRefusedQuestion(this.#call, method, WHY_UNANSWERABLE[cause]);
    this.#call.exchange.refused(cause);
  }

  notified(method: string, params: JsonObject): void {
    if (!this.isCurrent) return;
    this.#call.exchange.hasBegun = true;
    this.#call.waiters.notify(method, params);
  }

  replied(reply: JsonRpcReply): void {
    if (this.isCurrent) receiveReply(this.#call, reply);
  }

  taskCreated(task: ServerTask): void {
    if (!this.isCurrent) return;
    this.taskChanged(task);
    // What the server runs as a task is one for the client as well, if the client knows tasks.
    if (this.#call.state.name !== 'running') this.#call.isTaskDue = true;
    else offerTask(this.#call);
  }

  taskChanged(task: ServerTask): void {
    if (!this.isCurrent) return;
    const { exchange } = this.#call;
    const { task: former } = exchange;
    exchange.task = task;
    // The client may have heard of progress since.
    const isSaid = former?.statusMessage === task.statusMessage;
    this.#call.task?.learned(isSaid ? { ...task, statusMessage: null } : task);
  }

  readsStatus(): boolean {
    return this.isCurrent && this.#call.task !== null;
  }

  interrupted(): void {
    if (!this.isCurrent) return;
    this.#breaks += 1;
    this.#call.dispatch({ type: 'interrupted' });
    workFor(this.#call, leaveIfNotOurs(this.#call));
  }

  resumed(): void {
    const { session } = this.#call.exchange;
    if (!this.#isBesideMissing || session === null) return this.#dispatchResumed();
    const { headers } = this.#call.request.caller;
    const breaks = this.#breaks;
    // A server drops a question that belongs to no request while this stream is not open.
    workFor(
      this.#call,
      session.openStandaloneStream(headers).then(() => {
        // It is waited for once: a server can end each connection before it is open.
        this.#isBesideMissing = false;
        // If the stream of the call has broken meanwhile, it is not open, and is being resumed again.
        if (breaks === this.#breaks) this.#dispatchResumed();
      }),
    );
  }

  lost(failure: UpstreamFailure): void {
    if (this.isCurrent) receiveLoss(this.#call, failure);
  }

  notTaken(failure: UpstreamFailure): void {
    if (this.isCurrent) receiveRefusal(this.#call, failure);
  }

  sessionReplaced(): void {
    this.#call.waiters.notify('notifications/message', STATE_IS_GONE);
  }

  /** The call has not begun, so another process can make it as well: it holds nothing while its client is asked. */
  rootsWanted(): void {
    if (!this.isCurrent) return;
    const { exchange, services } = this.#call;
    const requests = [exchange.asking().askRoots()];
    // The session was not used: nothing is known of what the tool does.
    exchange.free(false);
    const mayPark = services.registry.hasRoomToPark(this.#call);
    this.#call.dispatch({ type: 'asksFirst', requests, mayPark });
  }

  backlog(): Promise<void> | null {
    return this.isCurrent ? this.#call.waiters.backlog() : null;
  }

  #dispatchResumed(): void {
    if (this.isCurrent) this.#call.dispatch({ type: 'resumed' });
  }
}

function receiveReply(call: CallData, reply: JsonRpcReply): void {
  const { exchange, method } = call;
  exchange.hasBegun = true;
  if ('error' in reply && reply.error.code === LegacyErrorCode.urlElicitationRequired) {
    const requests = readUrlQuestions(call, reply.error);
    if (requests.length > 0) {
      const mayPark = call.services.registry.hasRoomToPark(call);
      return call.dispatch({ type: 'asksFirst', requests, mayPark });
    }
  }
  const isError = 'error' in reply || reply.result['isError'] === true;
  const { unanswerable, questions } = exchange;
  if (isError && unanswerable !== null) return failUnanswered(call, reply, unanswerable);
  const outcome = outcomeOfReply(method, reply, questions?.refusedCapabilities ?? null);
  call.dispatch({ type: 'outcome', outcome, clean: true });
}

/**
 * Fails a call of which a question was declined. If the question was perhaps that of another call, what the server
 * says of the failure stays.
 */
function failUnanswered(call: CallData, reply: JsonRpcReply, cause: UnanswerableCause): void {
  if (cause === 'broadcast') return failCall(call, notAnswerable(cause), true);
  if ('error' in reply) {
    return failCall(call, notAnswerable(cause, errorFromServer(reply.error)), true);
  }
  const { error } = notAnswerable(cause);
  const said = Array.isArray(reply.result['content']) ? reply.result['content'] : [];
  const content = [...said, { type: 'text', text: error.message }];
  const result = { ...reply.result, content };
  const outcome = outcomeOfReply(call.method, { result }, null);
  call.dispatch({ type: 'outcome', outcome, clean: true });
}

function readUrlQuestions(call: CallData, error: JsonRpcErrorObject): OpenRequest[] {
  const elicitations = readUrlElicitations(error);
  const { profile } = call.request;
  const revision = call.exchange.session?.initializeResult.protocolVersion;
  if (elicitations === null || !profile.elicitationUrl || revision === undefined) return [];
  return call.exchange.asking().askUrls(elicitations, profile, revision);
}

/** The stream is gone for good. */
function receiveLoss(call: CallData, failure: UpstreamFailure): void {
  if (isForgottenSession(failure) && awaitsReply(call.state)) return receiveRefusal(call, failure);
  // A server that was told to stop need not reply (2025-11-25 cancellation, "Behavior Requirements").
  if (!isOver(call.state)) logUpstreamFailure(call, failure);
  const { exchange } = call;
  if (failure.code === 'streams_mixed') {
    exchange.stop('the stream of the call brought what belongs to another one');
    return failCall(call, failureOfCall(failure, exchange.hasBegun));
  }
  const { isForReply, hasReplied = false, httpStatus, exceeds = null } = failure.details;
  if (isForReply === true) {
    if (hasReplied) exchange.hasBegun = true;
    return failCall(call, failureOfCall(failure, exchange.hasBegun), hasReplied);
  }
  if (failure.code === 'unauthorized' && call.isResumable) {
    return call.dispatch({ type: 'shutOut', failure: failureOfCall(beforeRequest(failure), true) });
  }
  const { isElsewhere = httpStatus === 409 } = failure.details;
  call.dispatch({ type: 'lost', isElsewhere, exceeds });
}

/** The server did not take the request. If it forgot the session, the request is sent once more in a new one. */
function receiveRefusal(call: CallData, failure: UpstreamFailure): void {
  const { exchange } = call;
  if (isForgottenSession(failure) && exchange.mayResend && awaitsReply(call.state)) {
    call.waiters.forgetProgress();
    return workFor(call, exchange.sendInNewSession(new CallEvents(call, false)));
  }
  logUpstreamFailure(call, failure);
  if (losesCall(failure)) return call.dispatch(LOST);
  failCall(call, failureOfCall(failure, exchange.hasBegun), failure.code === 'unauthorized');
}

function receivePostFailure(
  call: CallData,
  failure: UpstreamFailure,
  accepted: readonly ServerRequestId[],
): void {
  const { code, details, message: problem } = failure;
  const cause =
    code === 'session_gone' ? 'sessionGone' : code === 'unauthorized' ? code : 'unreachable';
  const { round } = call.state;
  call.services.log.event('call.answer_refused', { ...idsOf(call), round, cause, problem });
  if (cause === 'sessionGone') return call.dispatch({ type: 'sessionGone' });
  const refused =
    cause === 'unauthorized'
      ? failureOfCall(failure, true)
      : answersNotTaken(details.retryAfterMs ?? null);
  call.dispatch({ type: 'postRefused', failure: refused, accepted });
}

/**
 * Leaves a call that another replica has continued while this process was silent: whoever reads the stream
 * of a call takes it from its earlier readers.
 */
async function leaveIfNotOurs(call: CallData): Promise<void> {
  if (!(await call.exchange.isOurs())) call.dispatch({ type: 'takenOver' });
}

/**
 * Leaves a call to the process that has taken over its home, if the server keeps the call for that: what it asks next on a stream
 * that names no call is heard there, where nobody knows it. A process that hung finds that out only when it acts again.
 * @returns `null` at once if nothing has to be found out
 */
export function leaveIfHomeIsLost(call: CallData): Promise<void> | null {
  const finding = call.exchange.lease?.stillHere() ?? null;
  if (finding === null) return null;
  return finding.then((isHere) => {
    if (!isHere && call.isResumable) call.dispatch({ type: 'takenOver' });
  });
}

function isForgottenSession({ code, details }: UpstreamFailure): boolean {
  return code === 'session_gone' && !details.mayHaveActed;
}
