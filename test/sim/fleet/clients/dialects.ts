/** The wires of proposals (docs/dialects), by what they have in place of the members of the final revision. */
import type { DialectName } from '../../../../src/dialects/dialects.ts';
import { below, choose } from '../../engine/random.ts';
import type { ModernRequest, Response } from '../client.ts';

const NAMES: readonly [DialectName, ...DialectName[]] = [
  'first-draft',
  'sep-2322',
  'rewritten',
  'sagas',
];
/** One history in so many has clients that speak a dialect. */
const ONE_IN = 5;
const TASK_TTL_MS = 60_000;
const CLIENT_INFO = 'io.modelcontextprotocol/clientInfo';
const CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities';
const RELATED_TASK = 'io.modelcontextprotocol/related-task';
const DECLARED = { elicitation: { form: {} } };
/** Who declares the same has the same home, whatever the wire. */
const SELF = { name: 'simulated', version: '1' };
const LEGACY_PROTOCOL = '2025-11-25';

type Json = Readonly<Record<string, unknown>>;

/** What a message has besides `jsonrpc` and `id`. */
interface Written {
  readonly method?: string;
  readonly params?: Json;
}

interface Wire {
  /** Writes a request with the params of the final revision. */
  write(method: string, params: Json, given: Json): Written & Json;
  /** Reads a response. */
  read(message: Json): Response;
}

/** The dialect of a call of a history; `null` for the final revision. */
export function dialectOf(seed: number, call: string): DialectName | null {
  if (below(`dialects:${seed}`, ONE_IN) > 0) return null;
  return choose<DialectName | null>(`${call}:dialect`, [null, ...NAMES]);
}

export function pathOf(dialect: DialectName): string {
  return `/drafts/${dialect}`;
}

/** The paths of dialects, as the configuration has them. */
export const DIALECT_PATHS = Object.fromEntries(NAMES.map((name) => [name, pathOf(name)]));

/** What a client says with `initialize`. */
export const INITIALIZE: ModernRequest['params'] = {
  protocolVersion: LEGACY_PROTOCOL,
  capabilities: DECLARED,
  clientInfo: SELF,
};

/** Tasks of the drafts are those of 2025-11-25. */
function withTask(method: string, params: Json): Written & Json {
  const { taskId, inputResponses, ...rest } = params;
  switch (method) {
    case 'tasks/get':
      return { method: 'tasks/result', params: { ...rest, taskId } };
    case 'tasks/update': {
      const { _meta } = params as { _meta?: Json };
      const meta = { ..._meta, [RELATED_TASK]: { taskId } };
      return { method: 'tasks/input_response', params: { inputResponses, _meta: meta } };
    }
    default:
      return { method, params };
  }
}

/** A task of 2025-11-25 is in a member of its own. */
function taskIn(message: Json): Response {
  const { result } = message as { result?: { task?: { taskId: string; status: 'working' } } };
  const task = result?.task;
  return task === undefined ? message : { ...message, result: { ...task, status: 'working' } };
}

const plain: Wire = { write: withTask, read: taskIn };

const firstDraft: Wire = {
  write(method, params) {
    const written = withTask(method, params);
    const { inputResponses, requestState, ...rest } = (written.params ?? {}) as {
      inputResponses?: Json;
      requestState?: unknown;
    };
    const wrapped = Object.entries(inputResponses ?? {}).map(([key, result]) => [key, { result }]);
    const round = {
      ...(inputResponses !== undefined && { input_responses: Object.fromEntries(wrapped) as Json }),
      ...(requestState !== undefined && { request_state: requestState }),
    };
    const { _meta } = rest as { _meta?: unknown };
    // The answers of a task are a message without a method.
    if (method === 'tasks/update') return { ...round, _meta };
    return { ...written, params: rest, ...round };
  },
  read(message) {
    const { input_requests: inputRequests, request_state: requestState, ...rest } = message;
    if (inputRequests === undefined && requestState === undefined) return taskIn(rest);
    return { ...rest, result: { inputRequests, requestState } } as Response;
  },
};

interface Step {
  readonly stepId: string;
  readonly params: unknown;
}

const sagas: Wire = {
  write(method, params, given) {
    const { inputResponses, requestState, ...call } = params as {
      inputResponses?: Json;
      requestState?: string;
    };
    if (method !== 'tools/call') return { method, params };
    if (requestState === undefined) return { method: 'tools/callSaga', params: call };
    const { _meta } = call as { _meta?: unknown };
    // All that was answered so far comes again.
    const completed = Object.entries({ ...given, ...inputResponses });
    const completedSteps = completed.map(([stepId, result]) => ({ stepId, result }));
    const sagaToken = tokenFor(requestState, call);
    return { method: 'tools/resumeSaga', params: { sagaToken, completedSteps, _meta } };
  },
  read(message) {
    const { result } = message as {
      result?: { state?: string; sagaToken?: string; steps?: readonly Step[] };
    };
    if (result?.state !== 'suspended') return message;
    const { sagaToken: requestState, steps = [] } = result;
    const inputRequests = Object.fromEntries(
      steps.map(({ stepId, params }) => [stepId, { params }]),
    );
    return { ...message, result: { inputRequests, requestState } } as Response;
  },
};

/** The token of a saga has its call, which a client that sends another one changes. */
function tokenFor(token: string, { name, arguments: given }: Json): string {
  const saga = JSON.parse(Buffer.from(token, 'base64url').toString()) as { params: Json };
  const params = { ...saga.params, name, arguments: given };
  if (JSON.stringify(params) === JSON.stringify(saga.params)) return token;
  return Buffer.from(JSON.stringify({ ...saga, params })).toString('base64url');
}

const WIRES: Readonly<Record<DialectName, Wire>> = {
  'first-draft': firstDraft,
  'sep-2322': plain,
  rewritten: plain,
  sagas,
};

/** Writes the message of a request. */
export function writeIn(dialect: DialectName, request: ModernRequest): object {
  const { method, params, isTask = false, session, given = {} } = request;
  const isOfTask = isTask && method === 'tools/call' && dialect !== 'sagas';
  const _meta = {
    progressToken: 'progress',
    ...(session === undefined && { [CAPABILITIES]: DECLARED, [CLIENT_INFO]: SELF }),
  };
  const all = { ...params, ...(isOfTask && { task: { ttl: TASK_TTL_MS } }), _meta };
  return { jsonrpc: '2.0', id: 1, ...WIRES[dialect].write(method, all, given) };
}

/** Reads a message as one of the final revision. */
export function readIn(dialect: DialectName, message: object): Response {
  return WIRES[dialect].read(message as Json);
}
