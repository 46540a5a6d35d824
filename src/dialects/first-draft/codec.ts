/**
 * The first draft: `input_requests` and `request_state` stand beside `result`, `input_responses` beside `params`, and
 * each answer is wrapped in `{ result }`. docs/dialects/first-draft.md says what differs.
 */
import { isJsonObject, without, type JsonObject, type JsonValue } from '../../protocol/json.ts';
import {
  interimOf,
  InvalidMessage,
  plainResult,
  unlessEmpty,
  withRound,
  type Codec,
} from '../codec.ts';

const MEMBERS = ['input_responses', 'request_state'];

export const firstDraft: Codec = {
  // "Server sends back a single response (not an SSE stream)", "Ephemeral Tool Workflow".
  streams: false,
  askable: (profile) => profile,
  decode: (message, method, params) => {
    const { input_responses: responses, request_state: state } = { ...params, ...message };
    if (state !== undefined && typeof state !== 'string') {
      throw new InvalidMessage('request_state must be a string');
    }
    return { method, params: withRound(without(params, MEMBERS), answers(responses), state) };
  },
  encode: (result) => {
    const interim = interimOf(result);
    if (interim === null) return { result: plainResult(result) };
    const { inputRequests, requestState, meta } = interim;
    return {
      ...unlessEmpty('input_requests', inputRequests),
      request_state: requestState,
      ...meta,
    };
  },
};

/** Takes the answers out of their wrappers. An answer without one is accepted: no answer has a member `result`. */
function answers(responses: JsonValue | undefined): JsonObject | undefined {
  if (responses === undefined) return undefined;
  if (!isJsonObject(responses)) throw new InvalidMessage('input_responses must be an object');
  return Object.fromEntries(
    Object.entries(responses).map(([key, value]) => {
      if (!isJsonObject(value)) {
        throw new InvalidMessage(`input_responses["${key}"] must be an object`);
      }
      return [key, isJsonObject(value['result']) ? value['result'] : value];
    }),
  );
}
