/**
 * Tool call sagas: `tools/callSaga` begins a call, `tools/resumeSaga` goes on with it, and the client sends all steps
 * that it has completed so far. docs/dialects/sagas.md says what differs.
 */
import type { JsonRpcErrorObject } from '../protocol/json-rpc.ts';
import {
  excessOf,
  isJsonObject,
  parseStrictly,
  without,
  type JsonObject,
  type JsonValue,
} from '../protocol/json.ts';
import { EMPTY_PROFILE } from '../protocol/translate/client-profile.ts';
import { withoutQuestions } from '../protocol/translate/extensions.ts';
import {
  interimOf,
  InvalidMessage,
  plainResult,
  ROUND_MEMBERS,
  type Codec,
  type FinalRequest,
} from './codec.ts';

const CALL = 'tools/callSaga';
const RESUME = 'tools/resumeSaga';
/** Calls that are not sagas. */
const PLAIN_CALLS: ReadonlySet<string> = new Set(['tools/call', 'prompts/get', 'resources/read']);
const STEP_TYPES: Readonly<Record<string, string>> = {
  'elicitation/create': 'elicitation',
  'sampling/createMessage': 'sampling',
};

export const sagas: Codec = {
  streams: true,
  hasTasks: false,
  // A step is an elicitation or a sampling, and only the result of a saga has steps.
  askable: (profile, method) =>
    PLAIN_CALLS.has(method)
      ? { ...EMPTY_PROFILE, extensions: withoutQuestions(profile.extensions) }
      : { ...profile, roots: false },
  decode: (_message, method, params) => {
    switch (method) {
      case CALL:
        return { method: 'tools/call', params: without(params, ROUND_MEMBERS) };
      case RESUME:
        return resumption(params);
      default:
        return { method, params: without(params, ROUND_MEMBERS) };
    }
  },
  encode: (result, request) => {
    const interim = interimOf(result);
    if (interim === null) return { result: plainResult(result) };
    const { inputRequests, requestState, meta } = interim;
    const steps = Object.entries(inputRequests).map(([key, request]) => step(key, request));
    const sagaToken = writeToken(request, requestState ?? '');
    return { result: { state: 'suspended', sagaToken, steps, ...meta } };
  },
};

/** Writes a step. Requests of other kinds are not asked for, see `askable`. */
function step(stepId: string, request: JsonValue): JsonObject {
  const { method, params } = isJsonObject(request) ? request : {};
  const shown = isJsonObject(params) ? params : {};
  return {
    type: STEP_TYPES[String(method)] ?? String(method),
    stepId,
    // The proposal is older than `mode`, and a form is what a request without one means.
    params: shown['mode'] === 'form' ? without(shown, ['mode']) : shown,
  };
}

function resumption(params: JsonObject): FinalRequest {
  const { sagaToken, completedSteps, _meta: meta } = params;
  if (typeof sagaToken !== 'string') throw new InvalidMessage('params.sagaToken must be a string');
  const opened = readToken(sagaToken);
  if (opened === null) throw new InvalidMessage('params.sagaToken is not one of this server');
  const { results, errors } = readSteps(completedSteps);
  const { method, params: call, requestState } = opened;
  return {
    method,
    params: {
      ...without(call, ['_meta']),
      ...(isJsonObject(meta) ? { _meta: meta } : {}),
      inputResponses: Object.fromEntries(results),
      requestState,
    },
    ...(errors.size === 0 ? {} : { beyond: { inputErrors: Object.fromEntries(errors) } }),
  };
}

/** Reads all steps so far. The gateway ignores those that an earlier round has used. */
function readSteps(steps: JsonValue | undefined) {
  if (!Array.isArray(steps)) throw new InvalidMessage('params.completedSteps must be a list');
  const results = new Map<string, JsonObject>();
  const errors = new Map<string, JsonRpcErrorObject>();
  for (const [index, completed] of steps.entries()) {
    const where = `params.completedSteps[${index}]`;
    const { stepId, result, error } = isJsonObject(completed) ? completed : {};
    if (typeof stepId !== 'string') throw new InvalidMessage(`${where}.stepId must be a string`);
    if (results.has(stepId) || errors.has(stepId)) {
      throw new InvalidMessage(`${where}.stepId repeats an earlier one`);
    }
    if ((result === undefined) === (error === undefined)) {
      throw new InvalidMessage(`${where} must have either a result or an error`);
    }
    if (error !== undefined) errors.set(stepId, readError(error, where));
    else if (isJsonObject(result)) results.set(stepId, result);
    else throw new InvalidMessage(`${where}.result must be an object`);
  }
  return { results, errors };
}

function readError(error: JsonValue, where: string): JsonRpcErrorObject {
  const { code, message, data } = isJsonObject(error) ? error : {};
  if (!Number.isInteger(code) || typeof message !== 'string') {
    throw new InvalidMessage(`${where}.error must have an integer "code" and a string "message"`);
  }
  return { code: Number(code), message, ...(data === undefined ? {} : { data }) };
}

const MAX_DEPTH = 256;

/**
 * The token of a saga: the method and the params of its call, which `tools/resumeSaga` does not repeat, and the sealed
 * `requestState`. That is bound to a digest of the same params, so the seal guards both.
 */
interface SagaToken {
  readonly method: string;
  readonly params: JsonObject;
  readonly requestState: string;
}

/** Writes the token of a call, whose params can have those of a round. */
function writeToken({ method, params }: FinalRequest, requestState: string): string {
  const call = { method, params: without(params, [...ROUND_MEMBERS, '_meta']), requestState };
  return Buffer.from(JSON.stringify(call)).toString('base64url');
}

/** Reads a token, which any client can have written. @returns `null` if it has another form */
function readToken(token: string): SagaToken | null {
  const text = Buffer.from(token, 'base64url').toString();
  if (excessOf(text, MAX_DEPTH) !== null) return null;
  try {
    const content = parseStrictly(text);
    if (!isJsonObject(content)) return null;
    const { method, params, requestState } = content;
    if (typeof method !== 'string' || typeof requestState !== 'string') return null;
    return isJsonObject(params) ? { method, params, requestState } : null;
  } catch {
    return null;
  }
}
