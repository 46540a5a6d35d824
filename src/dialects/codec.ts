/**
 * A dialect is the wire of a proposal for multi round-trip requests. Its codec translates to and from the final revision
 * (2026-07-28), which is the model of all other folders. Codecs are pure.
 */
import type { InputErrors } from '../protocol/json-rpc.ts';
import { isJsonObject, objectMember, without, type JsonObject } from '../protocol/json.ts';
import { Meta } from '../protocol/meta.ts';
import type { ClientProfile } from '../protocol/translate/client-profile.ts';

/** A request in the words of the final revision. */
export interface FinalRequest {
  readonly method: string;
  /** With `inputResponses` and `requestState`, if the client goes on with a call. */
  readonly params: JsonObject;
  readonly beyond?: BeyondFinal;
}

/** What a request of a dialect can ask for, and one of the final revision cannot. */
export interface BeyondFinal {
  /** Answers that are errors. */
  readonly inputErrors?: InputErrors;
  /** The call has to become a task at once. Its client asks for this lifetime, in ms, or for none. */
  readonly wantsTask?: { readonly ttlMs: number | null };
  /** Whether `tasks/get` waits until the task asks for input or is over. */
  readonly untilSettled?: true;
}

export interface Codec {
  /** Whether a call may be answered on an event stream. */
  readonly streams: boolean;
  /** Whether it has the persistent workflow. */
  readonly hasTasks: boolean;
  /** Gives a message its method, if the dialect has messages without one. */
  readonly withMethod?: (message: JsonObject) => JsonObject;
  /** Returns what a client that declares `profile` can be asked in its request. */
  readonly askable: (profile: ClientProfile, method: string) => ClientProfile;
  /**
   * Translates a request.
   * @param message the whole JSON-RPC message, whose method and params are the other two
   * @throws InvalidMessage
   */
  readonly decode: (message: JsonObject, method: string, params: JsonObject) => FinalRequest;
  /** Translates a result of the final revision. @returns the members of the response besides `jsonrpc` and `id` */
  readonly encode: (result: JsonObject, request: FinalRequest) => JsonObject;
}

/** Thrown for a message that the dialect does not allow. The text says what was expected, for the client. */
export class InvalidMessage extends Error {
  readonly code = 'invalid_message';

  constructor(problem: string) {
    super(problem);
    this.name = 'InvalidMessage';
  }
}

/** The members of the rounds, as the final revision names them. */
export const ROUND_MEMBERS = ['inputResponses', 'requestState'];

/** Builds final params out of the members of a round, wherever the dialect has them. */
export function withRound(
  params: JsonObject,
  inputResponses: unknown,
  requestState: unknown,
): JsonObject {
  return {
    ...without(params, ROUND_MEMBERS),
    ...(inputResponses === undefined ? {} : { inputResponses: inputResponses as JsonObject }),
    ...(requestState === undefined ? {} : { requestState: requestState as string }),
  };
}

/** What a client has to do before it goes on with its call. */
export interface Interim {
  /** Empty if the client can go on at once. */
  readonly inputRequests: JsonObject;
  /** `null` if the client does not send the request again. */
  readonly requestState: string | null;
  /** `_meta` of the result, if it has any. */
  readonly meta: JsonObject;
}

/** Reads a result that asks the client for input. @returns `null` for a complete one */
export function interimOf(result: JsonObject): Interim | null {
  if (result['resultType'] !== 'input_required') return null;
  return {
    inputRequests: objectMember(result, 'inputRequests') ?? {},
    requestState: String(result['requestState']),
    meta: metaOf(result),
  };
}

/** Removes what only the final revision has: the type of a result, cache fields, and the server's name. */
export function plainResult(result: JsonObject): JsonObject {
  return { ...without(result, ['resultType', 'ttlMs', 'cacheScope', '_meta']), ...metaOf(result) };
}

/** Returns the member of a state, if there is one. */
export function stateMember(name: string, requestState: string | null): JsonObject {
  return requestState === null ? {} : { [name]: requestState };
}

/** Returns a member that is not to be sent if it is empty. */
export function unlessEmpty(name: string, value: JsonObject): JsonObject {
  return Object.keys(value).length === 0 ? {} : { [name]: value };
}

function metaOf(result: JsonObject): JsonObject {
  const { _meta: meta } = result;
  return isJsonObject(meta) ? unlessEmpty('_meta', without(meta, [Meta.serverInfo])) : {};
}
