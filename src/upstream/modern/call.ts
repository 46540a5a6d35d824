/**
 * A request of a legacy client at a server of 2026-07-28. Where that needs input, the client is asked as a legacy server would
 * ask it, and the request is sent again with the answers (MRTR); where it makes a task of the call, that is waited for.
 */
import { Closing, sleep, type Clock, type Closed } from '../../lib/clock.ts';
import { randomId } from '../../lib/crypto.ts';
import { callFailure } from '../../model/failures.ts';
import type { ModernServer, SentRequest } from '../../model/modern-server.ts';
import type { Failure } from '../../model/request.ts';
import type { UpstreamFailure } from '../../model/upstream-failure.ts';
import { failureOfCall, failureOfRequest } from '../../model/upstream-failures.ts';
import { isJsonObject, numberOf, objectMember, type JsonObject } from '../../protocol/json.ts';
import { ErrorCode, type JsonRpcErrorObject, type JsonRpcReply } from '../../protocol/json-rpc.ts';
import { isTerminal } from '../../protocol/task.ts';
import { TASKS } from '../../protocol/translate/extensions.ts';
import { saysItIsModern } from '../../protocol/unsupported-version.ts';
import {
  legacyError,
  needs,
  type LegacyClient,
} from '../../protocol/translate/for-legacy-clients.ts';
import { legacyQuestion, type LegacyQuestion } from '../../protocol/translate/legacy-questions.ts';

/** What the client gets. `refused`: its credentials are, and it can get better ones. */
export type CallEnd =
  | { readonly type: 'replied'; readonly reply: JsonRpcReply }
  | { readonly type: 'refused'; readonly failure: Failure };

/** What a call needs of the session of its client. */
export interface CallSession {
  readonly server: ModernServer;
  readonly clock: Clock;
  readonly client: LegacyClient;
  /** How long a call can take with all its rounds, in ms. */
  readonly maxCallMs: number;
  /** How long any other request can take, in ms. */
  readonly requestTimeoutMs: number;
  /** Writes the params of a request, as they are at that moment. */
  params(params: JsonObject, withTasks: boolean): JsonObject;
  headersOf(method: string, params: JsonObject): Readonly<Record<string, string>>;
  /** Finds out which parameters a tool wants in headers, if that is not known. */
  knowHeadersOf(tool: string): Promise<void>;
  /** Reads the list of tools once more for that. Resolves to false if that failed. */
  relist(): Promise<boolean>;
  notified(method: string, params: JsonObject): void;
  /**
   * Asks the client.
   * @returns its reply; `null` if there is none in time, or the call is over
   */
  ask(question: LegacyQuestion, waitMs: number, over: Closed): Promise<JsonRpcReply | null>;
  /** The server does not speak 2026-07-28 any more. */
  doubt(): void;
}

export interface ClientCall {
  readonly method: string;
  readonly params: JsonObject;
}

/** Requests whose result can be an `InputRequiredResult` (MRTR, "Supported Requests"). */
const CAN_ASK: ReadonlySet<string> = new Set(['tools/call', 'prompts/get', 'resources/read']);
/** As most clients have it. */
const MAX_ROUNDS = 10;
/** How long a question waits for its answer, in ms. */
const ANSWER_WAIT_MS = 600_000;
/** How many questions the client has at once. */
const MAX_QUESTIONS = 16;
/** How long the client waits before it sends a request again that needs no input, in ms. */
const FIRST_PAUSE_MS = 250;
const LAST_PAUSE_MS = 5_000;
const DEFAULT_POLL_MS = 1_000;
/** How often the state of a task is asked for until there is a reply. */
const MAX_POLLS = 5;

type Ended =
  | { readonly type: 'replied'; readonly reply: JsonRpcReply }
  | { readonly type: 'failed'; readonly failure: UpstreamFailure };

/** Thrown inside a call to end it. */
class CallOver extends Error {
  readonly end: CallEnd;

  constructor(end: CallEnd) {
    super('the call is over');
    this.end = end;
  }
}

export class ModernCall {
  readonly #session: CallSession;
  readonly #call: ClientCall;
  /** Aborts when the call is over. */
  readonly #over = new Closing();
  readonly #deadlineMs: number;
  #sent: SentRequest | null = null;
  #isPaused = false;
  #rounds = 0;
  #pauseMs = FIRST_PAUSE_MS;
  #withTasks = false;
  /** The task that the server has made of it. */
  #taskId: string | null = null;
  #isCancelled = false;
  #hasRelisted = false;
  /** Whether it was sent again since the server, which speaks its revision, refused that. */
  #hasRepeated = false;
  /** URLs that the user was shown. */
  readonly #visited = new Set<string>();

  constructor(session: CallSession, call: ClientCall) {
    this.#session = session;
    this.#call = call;
    const timeoutMs = this.#canAsk ? session.maxCallMs : session.requestTimeoutMs;
    this.#deadlineMs = session.clock.elapsed() + timeoutMs;
  }

  /** Resolves to what the client gets, or to `null` if it was cancelled. Never rejects. */
  async run(): Promise<CallEnd | null> {
    try {
      return { type: 'replied', reply: { result: await this.#result() } };
    } catch (error) {
      if (this.#isCancelled) return null;
      if (error instanceof CallOver) return error.end;
      throw error;
    } finally {
      this.#over.abort();
      this.#cancelTask();
    }
  }

  /** Nobody waits for the reply any more. */
  cancel(): void {
    this.#isCancelled = true;
    this.#over.abort();
    this.#sent?.cancel();
  }

  /** Nobody waits for a task that is not over. */
  #cancelTask(): void {
    if (this.#taskId === null) return;
    const request = this.#requestOf('tasks/cancel', { taskId: this.#taskId }, {});
    this.#taskId = null;
    this.#session.server.send(request, NOBODY);
  }

  pause(): void {
    this.#isPaused = true;
    this.#sent?.pause();
  }

  resume(): void {
    this.#isPaused = false;
    this.#sent?.resume();
  }

  get #canAsk(): boolean {
    return CAN_ASK.has(this.#call.method);
  }

  get #leftMs(): number {
    return Math.max(1, this.#deadlineMs - this.#session.clock.elapsed());
  }

  async #result(): Promise<JsonObject> {
    const { method, params } = this.#call;
    if (method === 'tools/call') await this.#session.knowHeadersOf(String(params['name']));
    let retry: JsonObject = {};
    for (;;) {
      const reply = await this.#send(method, params, retry);
      if ('error' in reply) {
        if (await this.#canSendAgain(reply.error)) continue;
        throw errorOf(this.#errorOf(reply.error));
      }
      const { result } = reply;
      const { resultType = 'complete' } = result;
      if (resultType === 'complete') return result;
      if (resultType === 'task' && this.#withTasks) return this.#taskResult(result);
      if (resultType !== 'input_required' || !this.#canAsk) {
        throw this.#failed(`The server replied with resultType ${String(resultType)}`);
      }
      retry = await this.#answered(result);
    }
  }

  /** Answers a round. @returns the members that the request is sent again with */
  async #answered({ inputRequests = {}, requestState }: JsonObject): Promise<JsonObject> {
    const requests = isJsonObject(inputRequests) ? inputRequests : {};
    const hasState = typeof requestState === 'string';
    if (!hasState && Object.keys(requests).length === 0) {
      throw this.#failed(
        'The server replied with input_required, without inputRequests or requestState',
      );
    }
    const inputResponses = await this.#answersTo(requests);
    return {
      ...(Object.keys(inputResponses).length > 0 && { inputResponses }),
      ...(hasState && { requestState }),
    };
  }

  /** Asks the client. All of a round is checked before it is shown any of it. */
  async #answersTo(requests: JsonObject): Promise<JsonObject> {
    const questions = Object.entries(requests).map(([key, request]) => {
      const translated = legacyQuestion(request, this.#session.client, randomId());
      if (translated.type === 'ask') return { key, question: translated.question };
      throw this.#failed(
        translated.type === 'undeclared'
          ? needs(translated.required)
          : 'The server asked for something that is no question of MCP',
      );
    });
    const isKnown = ({ question: { url } }: (typeof questions)[number]) =>
      url !== null && this.#visited.has(url);
    const answers: JsonObject = {};
    // It was visited, and the server waits for what comes of that.
    for (const { key } of questions.filter(isKnown)) answers[key] = { action: 'accept' };
    const shown = questions.filter((each) => !isKnown(each));
    if (shown.length === 0) {
      await this.#pause();
      return answers;
    }
    this.#rounds += 1;
    if (this.#rounds > MAX_ROUNDS) {
      throw this.#failed(`The server asked more than ${MAX_ROUNDS} times in this call`);
    }
    for (let first = 0; first < shown.length; first += MAX_QUESTIONS) {
      const batch = shown.slice(first, first + MAX_QUESTIONS);
      await Promise.all(
        batch.map(async ({ key, question }) => {
          answers[key] = await this.#ask(question);
        }),
      );
    }
    return answers;
  }

  async #ask(question: LegacyQuestion): Promise<JsonObject> {
    const waitMs = Math.min(ANSWER_WAIT_MS, this.#leftMs);
    const reply = await this.#session.ask(question, waitMs, this.#over);
    if (reply === null) throw this.#late('The question of the server was not answered in time');
    // A modern client cannot answer with an error.
    if ('error' in reply) {
      throw this.#failed(`The client did not answer the question: ${reply.error.message}`);
    }
    const { url } = question;
    if (url !== null && reply.result['action'] === 'accept') this.#visited.add(url);
    return reply.result;
  }

  async #pause(): Promise<void> {
    await sleep(this.#session.clock, Math.min(this.#pauseMs, this.#leftMs), this.#over);
    this.#pauseMs = Math.min(this.#pauseMs * 2, LAST_PAUSE_MS);
  }

  /** Follows a task until it is over (tasks extension). */
  async #taskResult(created: JsonObject): Promise<JsonObject> {
    const taskId = String(created['taskId']);
    this.#taskId = taskId;
    const { clock } = this.#session;
    const answered = new Set<string>();
    let task = created;
    for (;;) {
      const status = String(task['status']);
      if (isTerminal(status)) this.#taskId = null;
      switch (status) {
        case 'completed':
          return objectMember(task, 'result') ?? {};
        case 'failed':
          throw errorOf(readError(objectMember(task, 'error')));
        case 'cancelled':
          throw this.#failed('The server cancelled the task of this call');
        case 'input_required': {
          const asked = Object.entries(objectMember(task, 'inputRequests') ?? {});
          const open = asked.filter(([key]) => !answered.has(key));
          if (open.length === 0) break;
          const inputResponses = await this.#answersTo(Object.fromEntries(open));
          for (const [key] of open) answered.add(key);
          await this.#replyTo('tasks/update', { taskId }, { inputResponses });
          break;
        }
        default:
          // Working, or on its way to be.
          break;
      }
      const pollMs = numberOf(task['pollIntervalMs'] ?? null) ?? DEFAULT_POLL_MS;
      const waitMs = Math.min(Math.max(pollMs, FIRST_PAUSE_MS), 6 * LAST_PAUSE_MS, this.#leftMs);
      await sleep(clock, waitMs, this.#over);
      task = await this.#taskNow(taskId);
    }
  }

  /** Asks for the state of a task, which has no effects: one that breaks off is asked again. */
  async #taskNow(taskId: string): Promise<JsonObject> {
    for (let tries = 1; ; tries += 1) {
      const ended = await this.#exchange('tasks/get', { taskId }, {});
      const isBroken = ended.type === 'failed' && ended.failure.code !== 'unauthorized';
      if (!isBroken || tries === MAX_POLLS) return resultOf(this.#replyIn(ended));
      await this.#pause();
    }
  }

  async #replyTo(method: string, params: JsonObject, answers: JsonObject): Promise<JsonObject> {
    return resultOf(await this.#send(method, params, answers));
  }

  /** @throws CallOver if there is no reply, or the call is over */
  async #send(method: string, params: JsonObject, retry: JsonObject): Promise<JsonRpcReply> {
    return this.#replyIn(await this.#exchange(method, params, retry));
  }

  #replyIn(ended: Ended): JsonRpcReply {
    if (ended.type === 'failed') throw this.#lost(ended.failure);
    return ended.reply;
  }

  /** @throws CallOver if the call is over */
  async #exchange(method: string, params: JsonObject, retry: JsonObject): Promise<Ended> {
    const { server, clock } = this.#session;
    if (this.#over.aborted || clock.elapsed() >= this.#deadlineMs) {
      throw this.#late('The call took longer than the gateway allows');
    }
    let leave = () => {};
    const ended = await new Promise<Ended | null>((resolve) => {
      leave = () => resolve(null);
      this.#over.addEventListener('abort', leave);
      this.#sent = server.send(this.#requestOf(method, params, retry), {
        notified: (told, content) => this.#session.notified(told, content),
        replied: (reply) => resolve({ type: 'replied', reply }),
        failed: (failure) => resolve({ type: 'failed', failure }),
      });
      if (this.#isPaused) this.#sent.pause();
    });
    this.#over.removeEventListener('abort', leave);
    this.#sent = null;
    if (ended === null) throw this.#failed('The call was cancelled');
    return ended;
  }

  #requestOf(method: string, params: JsonObject, retry: JsonObject) {
    const { headersOf, params: paramsOf } = this.#session;
    return {
      method,
      params: { ...paramsOf(params, this.#withTasks), ...retry },
      headers: headersOf(method, params),
      timeoutMs: this.#leftMs,
    };
  }

  /** Tells whether an error can be mended by sending the request once more, and does what that needs. */
  async #canSendAgain(error: JsonRpcErrorObject): Promise<boolean> {
    const { server, doubt } = this.#session;
    const { code, data } = error;
    switch (code) {
      case ErrorCode.headerMismatch:
        // The tool wants parameters in headers (streamable-http, "Client Behavior").
        if (this.#hasRelisted || !server.hasHeaders || this.#call.method !== 'tools/call')
          return false;
        this.#hasRelisted = true;
        return this.#session.relist();
      case ErrorCode.missingRequiredClientCapability:
        if (this.#withTasks || !needsTasks(data)) return false;
        this.#withTasks = true;
        return true;
      case ErrorCode.unsupportedProtocolVersion:
        // Behind one address some processes of a server can be older than others.
        if (saysItIsModern(error) === true && !this.#hasRepeated) {
          this.#hasRepeated = true;
          return true;
        }
        doubt();
        return false;
      default:
        return false;
    }
  }

  #errorOf(error: JsonRpcErrorObject): JsonRpcErrorObject {
    const isMissing = error.code === ErrorCode.missingRequiredClientCapability;
    return legacyError(error, isMissing ? requiredBy(error.data) : null);
  }

  /** The request has no reply. A call that the server may have begun is not sent again. */
  #lost(failure: UpstreamFailure): CallOver {
    const said = this.#canAsk
      ? failureOfCall(failure, this.#rounds > 0)
      : failureOfRequest(failure);
    if (failure.code === 'unauthorized') return new CallOver({ type: 'refused', failure: said });
    return this.#failedAs(said.error);
  }

  #failed(problem: string): CallOver {
    return this.#failedAs(callFailure('upstream_protocol_error', this.#effects, problem).error);
  }

  #late(problem: string): CallOver {
    return this.#failedAs(callFailure('upstream_timeout', this.#effects, problem).error);
  }

  get #effects(): 'yes' | 'unknown' {
    return this.#rounds > 0 || this.#taskId !== null ? 'yes' : 'unknown';
  }

  /** A tool fails in its result, so that a model reads why (2025-11-25 tools, "Error Handling"). */
  #failedAs(error: JsonRpcErrorObject): CallOver {
    if (this.#call.method !== 'tools/call') return errorOf(error);
    const result = { content: [{ type: 'text', text: error.message }], isError: true };
    return new CallOver({ type: 'replied', reply: { result } });
  }
}

const NOBODY = { notified: () => {}, replied: () => {}, failed: () => {} };

function errorOf(error: JsonRpcErrorObject): CallOver {
  return new CallOver({ type: 'replied', reply: { error } });
}

function resultOf(reply: JsonRpcReply): JsonObject {
  if ('error' in reply) throw errorOf(reply.error);
  return reply.result;
}

function readError(error: JsonObject | undefined): JsonRpcErrorObject {
  const { code, message, data } = error ?? {};
  return {
    code: typeof code === 'number' ? code : ErrorCode.internalError,
    message: typeof message === 'string' ? message : 'The task failed',
    ...(data !== undefined && { data }),
  };
}

function requiredBy(data: JsonRpcErrorObject['data']): JsonObject {
  return (isJsonObject(data) && objectMember(data, 'requiredCapabilities')) || {};
}

function needsTasks(data: JsonRpcErrorObject['data']): boolean {
  return objectMember(objectMember(requiredBy(data), 'extensions') ?? {}, TASKS) !== undefined;
}
