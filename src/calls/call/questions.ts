/**
 * The questions of one call: how the client sees each of them, how its answer is translated back, which capabilities the
 * refused ones would have needed, and what was answered.
 */
import type { InputKey, ServerRequestId } from '../../protocol/ids.ts';
import {
  closeOutReply,
  letsUseTools,
  translateInputResponse,
  translateServerRequest,
  type AnswerReading,
  type AnswerTranslation,
  type InputRequest,
  type InputRequestKind,
} from '../../protocol/translate/input-request.ts';
import { readAnswerAhead } from '../../protocol/translate/answer-ahead.ts';
import type { ClientProfile } from '../../protocol/translate/client-profile.ts';
import { OPENAI_FORMS, OPENAI_FORMS_NEED } from '../../protocol/translate/extensions.ts';
import type { JsonObject } from '../../protocol/json.ts';
import type { InputErrors, JsonRpcErrorObject, JsonRpcReply } from '../../protocol/json-rpc.ts';
import type { LegacyRevision } from '../../protocol/meta.ts';
import type { KeyCounters, SealedQuestion, AnsweredQuestion } from '../../seal/pointer.ts';
import { questionDigest } from '../../seal/digests.ts';
import type { OpenRequest } from '../machine/states.ts';
import { InputKeys, type GivenKey, type InputKeyOptions } from './input-keys.ts';
import type { UrlElicitation } from '../../protocol/translate/error-map.ts';

interface Question {
  /** Whether its key is one that a client can know before it is asked. */
  readonly isNamed: boolean;
  readonly id: ServerRequestId | null;
  readonly request: InputRequest;
  readonly back: AnswerTranslation;
}

type Shown = Pick<Question, 'request' | 'back'>;

export type QuestionDecision =
  | { readonly type: 'open'; readonly request: OpenRequest }
  | { readonly type: 'refused'; readonly error: JsonRpcErrorObject; readonly reason: string };

/** The answers of one retry: what goes upstream for each open question that it answers. */
export type ReadAnswers =
  | {
      readonly type: 'read';
      readonly replies: ReadonlyMap<InputKey, JsonRpcReply>;
      readonly declined: boolean;
    }
  | { readonly type: 'ill-formed'; readonly key: InputKey; readonly problem: string };

/**
 * The most questions of one call, and the most characters of their ids. Each id is remembered until the call ends, here and in the
 * session, also if the question was refused or withdrawn.
 */
const MAX_QUESTIONS = 10_000;
const MAX_ID_CHARACTERS = 1024 * 1024;

export class Questions {
  readonly #keys = new InputKeys();
  readonly #keyOptions: InputKeyOptions;
  readonly #questions = new Map<InputKey, Question>();
  /** Those that clients have seen, and can answer. */
  readonly #shown = new Set<InputKey>();
  readonly #withdrawn = new Set<ServerRequestId>();
  #required: JsonObject = {};
  #asked = 0;
  #idCharacters = 0;
  /** `null` until an answer has to be remembered. */
  #given: GivenAnswers | null = null;
  /** The elicitations whose completion is worth waiting for before the call is made again. */
  visiting: readonly string[] = [];

  constructor(keyOptions: InputKeyOptions) {
    this.#keyOptions = keyOptions;
  }

  /** What the server got in this call, for a replay. */
  get given(): GivenAnswers {
    return (this.#given ??= new GivenAnswers());
  }

  /** The capabilities that the refused questions would have needed; `null` if none was refused. */
  get refusedCapabilities(): JsonObject | null {
    return Object.keys(this.#required).length > 0 ? this.#required : null;
  }

  /** True if the server has asked so much in this call that no more can be remembered. */
  get isTooMuch(): boolean {
    return this.#asked > MAX_QUESTIONS || this.#idCharacters > MAX_ID_CHARACTERS;
  }

  /** Adds a request of the server, or refuses it if this client cannot be asked. */
  ask(
    id: ServerRequestId,
    method: string,
    params: JsonObject,
    profile: ClientProfile,
    revision: LegacyRevision,
  ): QuestionDecision {
    this.#asked += 1;
    this.#idCharacters += String(id).length;
    // In another session a call can be asked under an id that it was asked under before.
    this.#withdrawn.delete(id);
    const translation = translateServerRequest(method, params, profile, revision);
    if (translation.type === 'refuse') {
      if (translation.requiredCapabilities !== null) {
        this.#required = merge(this.#required, translation.requiredCapabilities);
      }
      return { type: 'refused', error: translation.error, reason: translation.reason };
    }
    return { type: 'open', request: this.#add(id, translation) };
  }

  /** Adds the URLs of error -32042. Their answers do not go upstream: the call is made again. */
  askUrls(
    elicitations: readonly UrlElicitation[],
    profile: ClientProfile,
    revision: LegacyRevision,
  ): OpenRequest[] {
    const asked = elicitations.flatMap(({ message, url, elicitationId }) => {
      const params = { mode: 'url', message, url, elicitationId };
      const translation = translateServerRequest('elicitation/create', params, profile, revision);
      return translation.type === 'refuse'
        ? []
        : { elicitationId, ...this.#add(null, translation) };
    });
    this.visiting = asked.map(({ elicitationId }) => elicitationId);
    return asked.map(({ key, id }) => ({ key, id }));
  }

  /** Adds a question of the gateway for the roots of the client, after whose answer the call is made. */
  askRoots(): OpenRequest {
    const asked: Shown = { request: { method: 'roots/list', params: {} }, back: { kind: 'roots' } };
    return this.#keep(null, asked, this.#keys.nextOwn('roots'));
  }

  /** @returns what a retry brings in answer to that question; `null` if it was not asked */
  rootsIn(replies: ReadonlyMap<InputKey, JsonRpcReply>): JsonRpcReply | null {
    for (const [key, reply] of replies) {
      const { id, back } = this.#get(key);
      if (id === null && back.kind === 'roots') return reply;
    }
    return null;
  }

  /** Notes that the server took a question back. One that no client has seen is forgotten. */
  withdraw(id: ServerRequestId): void {
    this.#withdrawn.add(id);
    for (const [key, question] of this.#questions) {
      if (question.id === id && !this.#shown.has(key)) this.#questions.delete(key);
    }
  }

  /** False once the server took the question back, if no client had seen it. */
  has(key: InputKey): boolean {
    return this.#questions.has(key);
  }

  isWithdrawn(id: ServerRequestId): boolean {
    return this.#withdrawn.has(id);
  }

  /** How far the keys have come, as another replica needs it. */
  get keysGiven(): KeyCounters {
    return this.#keys.progress;
  }

  /**
   * Adds the questions that another replica has shown to the client.
   * @param keys the counters of that replica
   */
  restore(questions: readonly SealedQuestion[], keys: KeyCounters): void {
    this.#keys.goOnFrom(keys);
    for (const { key, id, request, back } of questions) {
      this.#keys.take(key);
      this.#shown.add(key);
      this.#questions.set(key, { isNamed: false, id, request, back });
    }
  }

  /** @returns these questions as another replica needs them */
  sealed(keys: readonly InputKey[]): SealedQuestion[] {
    return keys.map((key) => {
      const { id, request, back } = this.#get(key);
      return { key, id, request, back };
    });
  }

  digestOf(key: InputKey): string {
    return questionDigest(this.#get(key).request);
  }

  kindOf(key: InputKey): InputRequestKind {
    return this.#get(key).back.kind;
  }

  /**
   * Returns how those of these questions are answered that nobody will be asked any more. One that the server has withdrawn gets no
   * answer (cancellation, "Behavior Requirements").
   */
  closeOut(open: readonly OpenRequest[]): (readonly [ServerRequestId, JsonRpcReply])[] {
    return open.flatMap(({ key, id }) =>
      id === null || this.isWithdrawn(id) ? [] : [[id, closeOutReply(this.kindOf(key))]],
    );
  }

  /** Remembers what the server got for a question, unless it has taken that back. */
  remember(key: InputKey, reply: JsonRpcReply): void {
    if (this.has(key)) this.given.add({ question: this.digestOf(key), reply });
  }

  /** Takes what the server got for this question before the call was lost; `undefined` if it was never answered, or not as often. */
  repeated(key: InputKey): JsonRpcReply | undefined {
    return this.#given?.repeat(this.digestOf(key));
  }

  /** Shows these questions. @returns the `inputRequests`, in the order in which the server asked */
  inputRequests(keys: readonly InputKey[]): Record<string, InputRequest> {
    for (const key of keys) this.#shown.add(key);
    return Object.fromEntries(keys.map((key) => [key, this.#get(key).request]));
  }

  /** @returns those of the keys whose questions this client does not declare any more */
  uncovered(keys: readonly InputKey[], profile: ClientProfile): InputKey[] {
    return keys.filter((key) => !covers(profile, this.#get(key)));
  }

  /** @returns the capabilities that these questions need */
  requiredFor(keys: readonly InputKey[]): JsonObject {
    return keys.map((key) => capabilityFor(this.#get(key))).reduce<JsonObject>(merge, {});
  }

  /**
   * Reads the answer that the client gave before the question came.
   * @param given what the client gave, by keys
   * @returns `null` if there is none, if it does not fit the question, or if the gateway made up the key
   */
  readAhead(key: InputKey, given: JsonObject): JsonRpcReply | null {
    const { isNamed, request, back } = this.#get(key);
    if (!isNamed || !Object.hasOwn(given, key)) return null;
    return readAnswerAhead(request, back, given[key] ?? null);
  }

  /**
   * Reads the answers to the open questions. Other keys are ignored (MRTR, Error Handling). A malformed answer is
   * named, and then nothing goes upstream.
   */
  read(
    open: readonly OpenRequest[],
    inputResponses: JsonObject | null,
    inputErrors: InputErrors = {},
  ): ReadAnswers {
    const replies = new Map<InputKey, JsonRpcReply>();
    let declined = false;
    for (const { key, id } of open) {
      const answer = this.#answerTo(key, inputResponses ?? {}, inputErrors);
      if (answer === null) continue;
      if (answer.type === 'ill-formed') {
        return { type: 'ill-formed', key, problem: answer.problem };
      }
      replies.set(key, answer.reply);
      if (id === null && this.kindOf(key) !== 'roots' && !accepts(answer.reply)) declined = true;
    }
    return { type: 'read', replies, declined };
  }

  #answerTo(key: InputKey, responses: JsonObject, errors: InputErrors): AnswerReading | null {
    const error = Object.hasOwn(errors, key) ? errors[key] : undefined;
    if (error !== undefined) return { type: 'respond', reply: { error } };
    if (!Object.hasOwn(responses, key)) return null;
    return translateInputResponse(this.#get(key).back, responses[key] ?? null);
  }

  #add(id: ServerRequestId | null, shown: Shown): OpenRequest {
    return this.#keep(id, shown, this.#keys.next(shown.back.kind, id, this.#keyOptions));
  }

  #keep(id: ServerRequestId | null, { request, back }: Shown, given: GivenKey): OpenRequest {
    const { key, isNamed } = given;
    this.#questions.set(key, { isNamed, id, request, back });
    return { key, id };
  }

  #get(key: InputKey): Question {
    const question = this.#questions.get(key);
    if (question === undefined) throw new Error(`no question has the key ${key}`);
    return question;
  }
}

/** What each kind takes: whether a client declares that, and the capabilities for which it stands. */
const NEEDS: Readonly<
  Record<InputRequestKind, readonly [(profile: ClientProfile) => boolean, JsonObject]>
> = {
  'elicitation-form': [(profile) => profile.elicitationForm, { elicitation: { form: {} } }],
  'elicitation-url': [(profile) => profile.elicitationUrl, { elicitation: { url: {} } }],
  'openai-form': [({ extensions }) => extensions[OPENAI_FORMS] !== undefined, OPENAI_FORMS_NEED],
  sampling: [(profile) => profile.sampling, { sampling: {} }],
  roots: [(profile) => profile.roots, { roots: {} }],
};

function takesTools({ back: { kind }, request }: Question): boolean {
  return kind === 'sampling' && letsUseTools(request.params);
}

function capabilityFor(question: Question): JsonObject {
  return takesTools(question) ? { sampling: { tools: {} } } : NEEDS[question.back.kind][1];
}

function covers(profile: ClientProfile, question: Question): boolean {
  const [takes] = NEEDS[question.back.kind];
  return takes(profile) && (profile.samplingTools || !takesTools(question));
}

function accepts(reply: JsonRpcReply): boolean {
  return 'result' in reply && reply.result['action'] === 'accept';
}

function merge(one: JsonObject, other: JsonObject): JsonObject {
  const merged: JsonObject = { ...one };
  for (const [capability, value] of Object.entries(other)) {
    merged[capability] = {
      ...(merged[capability] as JsonObject | undefined),
      ...(value as JsonObject),
    };
  }
  return merged;
}

/** The answers that the server got in one call, for a replay. */
export class GivenAnswers {
  #all: AnsweredQuestion[] = [];
  /** Of these, the answers whose questions the replayed call has not asked yet. */
  #toRepeat: AnsweredQuestion[] = [];

  get all(): readonly AnsweredQuestion[] {
    return this.#all;
  }

  add(...answered: readonly AnsweredQuestion[]): void {
    this.#all.push(...answered);
  }

  /** Begins a replay: each answer so far is to be given once more. */
  repeatAll(): void {
    this.#toRepeat = [...this.#all];
  }

  /**
   * Takes the answer to a question that is asked again.
   * @param question see `questionDigest`
   * @returns `undefined` if it was never answered, or not as often
   */
  repeat(question: string): JsonRpcReply | undefined {
    const at = this.#toRepeat.findIndex((answered) => answered.question === question);
    if (at < 0) return undefined;
    return this.#toRepeat.splice(at, 1)[0]?.reply;
  }
}
