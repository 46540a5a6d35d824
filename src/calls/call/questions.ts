/**
 * The questions of one call: what each looked like to the client, how its answer goes back, and which
 * ones were refused because the client did not declare them.
 */
import type { InputKey, ServerRequestId } from '../../protocol/ids.ts';
import {
  letsUseTools,
  translateInputResponse,
  translateServerRequest,
  type AnswerTranslation,
  type InputRequest,
  type InputRequestKind,
} from '../../protocol/translate/input-request.ts';
import type { ClientProfile } from '../../protocol/translate/client-profile.ts';
import type { JsonObject } from '../../protocol/json/json.ts';
import type { JsonRpcErrorObject, JsonRpcReply } from '../../protocol/json-rpc.ts';
import type { LegacyRevision } from '../../protocol/revisions.ts';
import type { KeysGiven, SealedQuestion } from '../../seal/pointer.ts';
import { questionDigest } from '../../seal/digests.ts';
import type { OpenRequest } from '../machine/states.ts';
import { InputKeys, type InputKeyOptions } from './input-keys.ts';
import type { UrlElicitation } from '../../protocol/translate/error-map.ts';

interface Question {
  readonly id: ServerRequestId | null;
  readonly kind: InputRequestKind;
  readonly request: InputRequest;
  readonly back: AnswerTranslation;
  /** For a URL that ended the call: the id under which the server reports the visit. */
  readonly elicitationId: string | null;
}

export type QuestionDecision =
  | { readonly type: 'open'; readonly request: OpenRequest }
  | { readonly type: 'refused'; readonly error: JsonRpcErrorObject; readonly reason: string };

/** The answers of one retry: what goes upstream for each open request that it answers. */
export type ReadAnswers =
  | {
      readonly type: 'read';
      readonly replies: ReadonlyMap<InputKey, JsonRpcReply>;
      readonly declined: boolean;
    }
  | { readonly type: 'ill-formed'; readonly key: InputKey; readonly problem: string };

export class Questions {
  readonly #keys = new InputKeys();
  readonly #keyOptions: InputKeyOptions;
  readonly #questions = new Map<InputKey, Question>();
  /** Those that clients have seen and may come back with. */
  readonly #shown = new Set<InputKey>();
  readonly #withdrawn = new Set<ServerRequestId>();
  #required: JsonObject = {};

  constructor(keyOptions: InputKeyOptions) {
    this.#keyOptions = keyOptions;
  }

  /** What the client would have had to declare for the questions that were refused. */
  get refusedCapabilities(): JsonObject | null {
    return Object.keys(this.#required).length > 0 ? this.#required : null;
  }

  /** Takes in a request of the server: either it may be shown to this client, or it is refused. */
  ask(
    id: ServerRequestId,
    method: string,
    params: JsonObject,
    profile: ClientProfile,
    revision: LegacyRevision,
  ): QuestionDecision {
    const translation = translateServerRequest(method, params, profile, revision);
    if (translation.type === 'refuse') {
      if (translation.requiredCapabilities !== null) {
        this.#required = merge(this.#required, translation.requiredCapabilities);
      }
      return { type: 'refused', error: translation.error, reason: translation.reason };
    }
    const { kind, request, back } = translation;
    const key = this.#keys.next(kind, id, this.#keyOptions);
    this.#questions.set(key, { id, kind, request, back, elicitationId: null });
    return { type: 'open', request: { key, id } };
  }

  /** Takes in the URLs of an error -32042; their answers go nowhere, the call is made anew. */
  askUrls(
    elicitations: readonly UrlElicitation[],
    profile: ClientProfile,
    revision: LegacyRevision,
  ): OpenRequest[] {
    const open: OpenRequest[] = [];
    for (const { message, url, elicitationId } of elicitations) {
      const params = { mode: 'url', message, url, elicitationId };
      const translation = translateServerRequest('elicitation/create', params, profile, revision);
      if (translation.type === 'refuse') continue;
      const { kind, request, back } = translation;
      const key = this.#keys.next(kind, null, this.#keyOptions);
      this.#questions.set(key, { id: null, kind, request, back, elicitationId });
      open.push({ key, id: null });
    }
    return open;
  }

  /** Notes that the server took a question back. One that no client has seen is forgotten. */
  withdraw(id: ServerRequestId): void {
    this.#withdrawn.add(id);
    for (const [key, question] of this.#questions) {
      if (question.id === id && !this.#shown.has(key)) this.#questions.delete(key);
    }
  }

  isWithdrawn(id: ServerRequestId): boolean {
    return this.#withdrawn.has(id);
  }

  /** How far the keys have come, as another replica needs it. */
  get keysGiven(): KeysGiven {
    return this.#keys.progress;
  }

  /**
   * Takes in questions that another replica had shown to the client.
   * @param keys how far it had come with its keys
   */
  restore(questions: readonly SealedQuestion[], keys: KeysGiven): OpenRequest[] {
    this.#keys.goOnFrom(keys);
    return questions.map(({ key, id, request, back }) => {
      this.#keys.take(key);
      this.#shown.add(key);
      this.#questions.set(key, { id, kind: back.kind, request, back, elicitationId: null });
      return { key, id };
    });
  }

  /** These questions as another replica would need them. */
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
    return this.#get(key).kind;
  }

  elicitationIds(keys: readonly InputKey[]): string[] {
    return keys.map((key) => this.#get(key).elicitationId).filter((id) => id !== null);
  }

  /** The `inputRequests` for these keys, in the order in which they were asked. */
  inputRequests(keys: readonly InputKey[]): Record<string, InputRequest> {
    for (const key of keys) this.#shown.add(key);
    return Object.fromEntries(keys.map((key) => [key, this.#get(key).request]));
  }

  /** Keys among these that this profile no longer allows to be asked. */
  uncovered(keys: readonly InputKey[], profile: ClientProfile): InputKey[] {
    return keys.filter((key) => !covers(profile, this.#get(key)));
  }

  /** The capabilities that asking for these keys takes. */
  requiredFor(keys: readonly InputKey[]): JsonObject {
    return keys.map((key) => capabilityFor(this.#get(key))).reduce<JsonObject>(merge, {});
  }

  /**
   * Reads the answers for the open requests. Keys that nobody asked for are ignored (MRTR, Error
   * Handling); an answer that cannot be one is named, and then nothing goes upstream.
   */
  read(open: readonly OpenRequest[], inputResponses: JsonObject | null): ReadAnswers {
    const replies = new Map<InputKey, JsonRpcReply>();
    let declined = false;
    for (const { key, id } of open) {
      const value =
        inputResponses !== null && Object.hasOwn(inputResponses, key)
          ? inputResponses[key]
          : undefined;
      if (value === undefined) continue;
      const translated = translateInputResponse(this.#get(key).back, value);
      if (translated.type === 'ill-formed') {
        return { type: 'ill-formed', key, problem: translated.problem };
      }
      replies.set(key, translated.reply);
      if (id === null && !accepts(translated.reply)) declined = true;
    }
    return { type: 'read', replies, declined };
  }

  #get(key: InputKey): Question {
    const question = this.#questions.get(key);
    if (question === undefined) throw new Error(`no question has the key ${key}`);
    return question;
  }
}

const CAPABILITY_OF: Readonly<Record<InputRequestKind, JsonObject>> = {
  'elicitation-form': { elicitation: { form: {} } },
  'elicitation-url': { elicitation: { url: {} } },
  sampling: { sampling: {} },
  roots: { roots: {} },
};

function capabilityFor({ kind, request }: Question): JsonObject {
  return kind === 'sampling' && letsUseTools(request.params)
    ? { sampling: { tools: {} } }
    : CAPABILITY_OF[kind];
}

function covers(profile: ClientProfile, { kind, request }: Question): boolean {
  switch (kind) {
    case 'elicitation-form':
      return profile.elicitationForm;
    case 'elicitation-url':
      return profile.elicitationUrl;
    case 'sampling':
      return profile.sampling && (profile.samplingTools || !letsUseTools(request.params));
    case 'roots':
      return profile.roots;
  }
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
