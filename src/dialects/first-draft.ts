/**
 * The first draft: `input_requests` and `request_state` stand beside `result`, `input_responses` beside `params`, and
 * each answer is wrapped in `{ result }`. docs/dialects/first-draft.md says what differs.
 */
import { isJsonObject, without, type JsonObject, type JsonValue } from '../protocol/json.ts';
import { InvalidMessage, stateMember, unlessEmpty, withRound, type Codec } from './codec.ts';
import { draftEncoder, withTasks } from './persistent.ts';

const MEMBERS = ['input_responses', 'request_state'];

export const firstDraft: Codec = {
  // "Server sends back a single response (not an SSE stream)", "Ephemeral Tool Workflow".
  streams: false,
  hasTasks: true,
  // The message that answers the questions of a task has no method ("Example Flow for Persistent Tools", 7).
  withMethod: (message) => {
    const { method, input_responses: responses, _meta: meta = {} } = message;
    if (method !== undefined || responses === undefined) return message;
    return { ...message, method: 'tasks/input_response', params: { _meta: meta } };
  },
  askable: (profile) => profile,
  decode: (message, method, params) => {
    const { input_responses: responses, request_state: state } = { ...params, ...message };
    if (state !== undefined && typeof state !== 'string') {
      throw new InvalidMessage('request_state must be a string');
    }
    const round = withRound(without(params, MEMBERS), answers(responses), state);
    return withTasks({ method, params: round });
  },
  encode: draftEncoder({
    complete: (result) => ({ result }),
    interim: ({ inputRequests, requestState, meta }) => ({
      ...unlessEmpty('input_requests', inputRequests),
      ...stateMember('request_state', requestState),
      ...meta,
    }),
    // Its tasks have no `lastUpdatedAt`, and it writes their statuses with a capital, except one.
    task: ({ lastUpdatedAt: _none, ...task }) => ({
      ...task,
      status: STATUSES[String(task['status'])] ?? 'input_required',
    }),
  }),
};

const STATUSES: Readonly<Record<string, string>> = {
  working: 'Working',
  completed: 'Completed',
  failed: 'Failed',
  cancelled: 'Cancelled',
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
