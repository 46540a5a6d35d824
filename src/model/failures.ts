/**
 * The failures that the gateway itself gives to calls. They stay in-band with HTTP status 200: clients
 * take 429 and 5xx as a reason to change the era or the connection.
 */
import { isJsonObject, objectMember, type JsonObject } from '../protocol/json.ts';
import { ErrorCode } from '../protocol/json-rpc.ts';
import { Meta } from '../protocol/meta.ts';
import { metaMember } from '../protocol/translate/edge-result.ts';
import { TASKS } from '../protocol/translate/extensions.ts';
import { INVALID_REQUEST_STATE } from '../seal/invalid-request-state.ts';
import type { CallReply, EdgeRequest, Failure, RefusalReason } from './request.ts';

/**
 * The value of `data.mayHaveActed`. It tells the client whether a second call is safe.
 * - `no`: the server has not acted on the call
 * - `unknown`: the request was sent, or may have been; the gateway does not know whether the server began
 * - `yes`: the server has begun the call (it asked a question, or replied), and may have acted
 */
export type MayHaveActed = 'no' | 'unknown' | 'yes';

interface FailureKind {
  readonly code: number;
  /** They count only if no byte of the response was sent. */
  readonly httpStatuses: readonly number[];
  /** Empty if the request is not a call: lists, completion, discovery and listeners have no effects. */
  readonly mayHaveActed: readonly MayHaveActed[];
}

function kind<const Said extends readonly MayHaveActed[]>(
  code: number,
  mayHaveActed: Said,
  httpStatuses: readonly number[] = [200],
): FailureKind & { readonly mayHaveActed: Said } {
  return { code, httpStatuses, mayHaveActed };
}

const { invalidParams, internalError, missingRequiredClientCapability } = ErrorCode;

export const FAILURES = {
  invalid_request_state: kind(invalidParams, ['unknown']),
  invalid_input_response: kind(invalidParams, ['yes']),
  unknown_cursor: kind(invalidParams, []),
  unknown_task: kind(invalidParams, []),
  request_too_large: kind(invalidParams, ['no', 'yes']),
  call_lost: kind(internalError, ['unknown', 'yes']),
  cancelled: kind(internalError, ['unknown']),
  cancelled_by_operator: kind(internalError, ['unknown', 'yes']),
  elicitation_declined: kind(internalError, ['yes']),
  overloaded: kind(internalError, ['no', 'yes']),
  stopping: kind(internalError, ['no', 'yes']),
  rate_limited: kind(internalError, ['no']),
  tool_busy: kind(internalError, ['no']),
  circuit_open: kind(internalError, ['no']),
  too_many_parked_calls: kind(internalError, ['yes']),
  too_many_listeners: kind(internalError, []),
  too_many_rounds: kind(internalError, ['yes']),
  list_too_long: kind(internalError, []),
  draining: kind(internalError, ['unknown', 'yes']),
  call_not_answerable: kind(internalError, ['yes']),
  coordination_unavailable: kind(internalError, ['no', 'yes']),
  unsafe_url: kind(internalError, ['yes']),
  upstream_busy: kind(internalError, ['no', 'unknown', 'yes']),
  upstream_unavailable: kind(internalError, ['no', 'yes']),
  upstream_timeout: kind(internalError, ['no', 'unknown', 'yes']),
  upstream_protocol_error: kind(internalError, ['no', 'unknown', 'yes']),
  upstream_changed: kind(internalError, ['no']),
  upstream_streams_mixed: kind(internalError, ['yes']),
  upstream_session_lost: kind(internalError, ['no', 'yes']),
  unauthorized: kind(internalError, ['no', 'yes'], [401, 403]),
  internal_error: kind(internalError, ['unknown']),
  /** It has no reason: the specification defines its `data`. */
  '-': kind(missingRequiredClientCapability, ['yes'], [400]),
} as const;

export type FailureReason = keyof typeof FAILURES;

/** The values of `data.mayHaveActed` that a failure with this reason can have. */
export type EffectsOf<Reason extends FailureReason> =
  (typeof FAILURES)[Reason]['mayHaveActed'][number];

/** What the error message says of effects, for people and models. Programs read `data.mayHaveActed`. */
export const EFFECTS_IN_WORDS: Readonly<Record<MayHaveActed, string>> = {
  no: 'The server has not acted on this call',
  unknown:
    'The server may have acted on this call: check whether it took effect before you call again',
  yes: 'The server has begun this call and may have acted: check whether it took effect before you call again',
};

/** The same for a call that can still continue. A new call could have its effect twice. */
export const RETRYABLE_IN_WORDS =
  'The server has begun this call and may have acted: retry with the same requestState';

/** The page of the documentation that has a section for each reason. The package holds it; no site has it yet. */
const ERROR_PAGE = 'mrtr-gateway/docs/operate/errors.md';

/** Names what the documentation says of an error: the value of `data.help`. */
export function helpOn(reason: FailureReason): string {
  return `${ERROR_PAGE}#${reason}`;
}

/**
 * Builds the failure of a call.
 * @param problem a sentence without its full stop
 * @param more further members of `data`
 */
export function callFailure<Reason extends FailureReason>(
  reason: Reason,
  mayHaveActed: EffectsOf<Reason>,
  problem: string,
  more: JsonObject = {},
): Failure {
  const effects = more['retryable'] === true ? RETRYABLE_IN_WORDS : EFFECTS_IN_WORDS[mayHaveActed];
  const named = reason === '-' ? {} : { reason };
  return failure(reason, `${problem}. ${effects}`, { ...named, mayHaveActed, ...more });
}

/**
 * Builds the failure of a request that is not a call and has no effects.
 * @param more further members of `data`
 */
export function requestFailure(
  reason: FailureReason,
  problem: string,
  more: JsonObject = {},
): Failure {
  return failure(reason, problem, { reason, ...more });
}

/** Returns the `data.reason` of a failure, if it has one. */
export function reasonOf({ error: { data } }: Failure): unknown {
  return isJsonObject(data) ? data['reason'] : undefined;
}

/** Returns why the gateway failed a request, also if a result says so for the model to read; `null` if it did not. */
export function failureReasonOf(reply: CallReply): FailureReason | null {
  const reason =
    reply.kind === 'failed'
      ? reasonOf(reply.failure)
      : objectMember(reply.result, '_meta')?.[Meta.reason];
  const isOurs = typeof reason === 'string' && Object.hasOwn(FAILURES, reason);
  return isOurs ? (reason as FailureReason) : null;
}

function failure(reason: FailureReason, message: string, data: JsonObject): Failure {
  const { code, httpStatuses } = FAILURES[reason];
  const help = reason === '-' ? {} : { help: helpOn(reason) };
  const error = { code, message, data: { ...data, ...help } };
  return { error, httpStatus: httpStatuses[0] ?? 200 };
}

// The failures of calls.

/** The `requestState` is not valid, so that nothing is known of its call. */
export const INVALID_STATE: Failure = callFailure(
  'invalid_request_state',
  'unknown',
  INVALID_REQUEST_STATE.message,
);

/**
 * The `requestState` was not issued by this gateway, and the server speaks 2026-07-28: it may have issued it
 * when requests were passed through to it.
 */
export const FOREIGN_STATE: Failure = callFailure(
  'invalid_request_state',
  'unknown',
  'Invalid requestState: this gateway did not issue it. If the server issued it before the gateway bridged that server, the call cannot continue',
  { cause: 'not_issued_here' },
);

/** The `requestState` is authentic, and this build cannot read it: a replica of the build that wrote it can. */
export const OTHER_VERSION: Failure = callFailure(
  'coordination_unavailable',
  'yes',
  'Another version of the gateway has the call; retry with the same requestState',
  { retryable: true },
);

/**
 * Builds the failure of a call that cannot continue.
 * @param begun whether the server has begun the call, as far as the gateway knows
 * @param limit the limit that a message of the server exceeded, if that is why
 */
export function callLost(begun: boolean, limit: string | null = null): Failure {
  const why =
    limit === null ? '' : `: a message of the server is too large for the gateway (${limit})`;
  const problem = `The call was interrupted and cannot be continued${why}`;
  return callFailure('call_lost', begun ? 'yes' : 'unknown', problem);
}

export const OVERLOADED: Failure = callFailure(
  'overloaded',
  'no',
  'The gateway is at its limit of running calls; try again later',
);

/** When a process that drains can be asked again, in ms: by then another one serves its clients. */
export const STOPPING_WAIT_MS = 1_000;
const WHEN_STOPPING = { retryAfterMs: STOPPING_WAIT_MS };

/** For a new call in a process that drains. */
export const STOPPING: Failure = callFailure(
  'stopping',
  'no',
  'The gateway is shutting down and accepts no new calls; try again',
  WHEN_STOPPING,
);

/** The same for a request without effects. */
export const STOPPING_FOR_REQUEST: Failure = requestFailure(
  'stopping',
  'The gateway is shutting down and accepts no new requests; try again',
  WHEN_STOPPING,
);

/** The same for a retry whose call would have to be replayed here. */
export const OVERLOADED_FOR_RETRY: Failure = callFailure(
  'overloaded',
  'yes',
  'The gateway is at its limit of running calls and cannot resume this call now',
  { retryable: true },
);
export const STOPPING_FOR_RETRY: Failure = callFailure(
  'stopping',
  'yes',
  'The gateway is shutting down and cannot resume this call',
  { retryable: true, ...WHEN_STOPPING },
);

/** For a retry of a call at which too many other retries wait. */
export const TOO_MANY_RETRIES: Failure = callFailure(
  'overloaded',
  'yes',
  'Too many retries of this call are waiting; try again when one of them has its reply',
  { retryable: true },
);

/**
 * Builds the failure of a call that the operator cancelled while its client was disconnected.
 * @param begun whether the server has begun the call, as far as the gateway knows
 */
export function stoppedByOperator(begun: boolean): Failure {
  const problem = 'The operator of the gateway cancelled the call';
  return callFailure('cancelled_by_operator', begun ? 'yes' : 'unknown', problem);
}

export const CALL_CANCELLED: Failure = callFailure(
  'cancelled',
  'unknown',
  'The call was cancelled',
);

/**
 * Builds the failure of a call that the gateway itself ends.
 * @param begun whether the server has begun the call, as far as the gateway knows
 * @param target the tool, prompt or resource, as the log shows it
 * @param maxRounds how many rounds with questions the call could have
 */
export function refusal(
  reason: RefusalReason,
  begun: boolean,
  target: string,
  maxRounds: number,
): Failure {
  const mayHaveActed = begun ? 'yes' : 'unknown';
  if (reason === 'too_many_rounds') {
    const problem = `${JSON.stringify(target)} asked for input in more than ${maxRounds} rounds (parking.maxRounds). The call was cancelled`;
    return callFailure(reason, 'yes', problem);
  }
  const problem = REFUSALS[reason];
  switch (reason) {
    case 'too_many_parked_calls':
      return callFailure(reason, 'yes', problem);
    case 'timeout':
      return callFailure('upstream_timeout', mayHaveActed, problem);
    case 'draining':
      return callFailure(reason, mayHaveActed, problem);
  }
}

const REFUSALS: Readonly<Record<Exclude<RefusalReason, 'too_many_rounds'>, string>> = {
  too_many_parked_calls: 'Too many calls are waiting for input; answer or cancel some of them',
  timeout: 'The server did not finish the call in time',
  draining: 'The gateway is shutting down and has cancelled the call',
};

/**
 * The answers may not have reached the server. The pointer stays valid, and the client can retry.
 * @param retryAfterMs how long the server asks to wait; `null` if it does not say
 */
export function answersNotTaken(retryAfterMs: number | null): Failure {
  return callFailure(
    'upstream_unavailable',
    'yes',
    'The server did not confirm that it received the answers',
    { retryable: true, ...(retryAfterMs === null ? {} : { retryAfterMs }) },
  );
}

/** A request about tasks comes from a client that does not declare them (tasks, "Protocol Errors"). */
export const TASKS_NOT_DECLARED: Failure = {
  error: {
    code: ErrorCode.missingRequiredClientCapability,
    message: `Missing required client capability: declare the extension ${TASKS} in \`_meta\``,
    data: { requiredCapabilities: { extensions: { [TASKS]: {} } } },
  },
  httpStatus: 400,
};

/** There is no such task for this caller (tasks, "Protocol Errors"). */
export const UNKNOWN_TASK: Failure = requestFailure(
  'unknown_task',
  'Task not found: it has expired, or belongs to another caller or another server',
);

/** One replica only may resume the call, and the store that decides which one is not available. */
export const COORDINATION_UNAVAILABLE: Failure = callFailure(
  'coordination_unavailable',
  'yes',
  'The gateway cannot determine which replica owns the call',
  { retryable: true },
);

/** Which replica has the task is not known, or that one does not respond. */
export const TASK_UNREACHABLE: Failure = requestFailure(
  'coordination_unavailable',
  'The replica that has the task does not respond, or the gateway cannot determine which one has it; try again',
  { retryable: true },
);

/** A new call belongs where its caller has its home, and the replica that has it does not respond. */
export const HOME_UNREACHABLE: Failure = callFailure(
  'coordination_unavailable',
  'no',
  'The replica that has the session of the caller does not respond; try again',
);

/** Builds the failure of a request that is too large for the replica that has its call, its task, or the home of its caller. */
export function tooLargeToRelay({ method, requestState }: EdgeRequest): Failure {
  const problem = 'The request is too large for the replica that has to serve it (limits.maxBody)';
  if (method.startsWith('tasks/')) return requestFailure('request_too_large', problem);
  return callFailure('request_too_large', requestState === null ? 'no' : 'yes', problem);
}

/** The replica that relays a retry stops; the owner of the call goes on with it. */
export const RELAY_STOPPING: Failure = callFailure(
  'draining',
  'yes',
  'The gateway is shutting down; another replica continues the call',
  { retryable: true },
);

/**
 * Builds the reply for a call that failed after the server had begun it. A tool call becomes a result
 * with `isError`, so that the model sees it (tools, "Error Handling"). `prompts/get` and `resources/read`
 * have no such form and get the JSON-RPC error.
 * @param serverInfo of the legacy server, if it is known
 */
export function failedCallReply(
  method: string,
  failure: Failure,
  serverInfo: JsonObject | null,
): CallReply {
  if (method !== 'tools/call') return { kind: 'failed', failure };
  const { message } = failure.error;
  const { reason, mayHaveActed, help } = objectMember({ ...failure.error }, 'data') ?? {};
  const result: JsonObject = {
    resultType: 'complete',
    content: [{ type: 'text', text: message }],
    isError: true,
    ...metaMember(
      {
        [Meta.reason]: reason ?? null,
        [Meta.mayHaveActed]: mayHaveActed ?? null,
        ...(help === undefined ? {} : { [Meta.help]: help }),
      },
      serverInfo,
    ),
  };
  return { kind: 'result', result };
}
