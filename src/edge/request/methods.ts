/** The requests of the modern revision that the gateway serves: what each of them needs, and the shape of its params. */
import { ErrorCode } from '../../protocol/json-rpc.ts';
import {
  objectMember,
  type JsonObject,
  isJsonObject,
  type JsonValue,
} from '../../protocol/json.ts';
import type { UnnamedRefusal } from '../response-writer.ts';

/**
 * How a method is served.
 * - `discover`: by the gateway itself
 * - `interactive`: as a call that may need input
 * - `forward`: by one request or more to the server, which can ask nothing
 * - `listen`: as a stream, for as long as the client listens
 * - `task`: by the tasks of the gateway, where it offers them
 */
export type Service = 'discover' | 'interactive' | 'forward' | 'listen' | 'task';

type MemberCheck = (value: JsonValue | undefined) => string | null;
/** The members that are checked. Others pass. */
type ParamsShape = Readonly<Record<string, MemberCheck>>;

const string: MemberCheck = (value) => (typeof value === 'string' ? null : 'must be a string');
const optionalString: MemberCheck = (value) => (value === undefined ? null : string(value));
const object: MemberCheck = (value) => (isJsonObject(value) ? null : 'must be an object');
const optionalObject: MemberCheck = (value) => (value === undefined ? null : object(value));
const notificationFilter: MemberCheck = (value) => {
  if (!isJsonObject(value)) return 'must be an object';
  const { resourceSubscriptions: uris = [], taskIds = [], ...rest } = value;
  const flags = ['toolsListChanged', 'promptsListChanged', 'resourcesListChanged'];
  const wrong = flags.find((flag) => rest[flag] !== undefined && typeof rest[flag] !== 'boolean');
  if (wrong !== undefined) return `must have a boolean as ${wrong}`;
  const lists = { resourceSubscriptions: uris, taskIds };
  const notStrings = Object.entries(lists).find(([, list]) => !isListOfStrings(list));
  return notStrings === undefined ? null : `must have an array of strings as ${notStrings[0]}`;
};
function isListOfStrings(value: JsonValue): boolean {
  return Array.isArray(value) && value.every((one) => typeof one === 'string');
}

const list = { cursor: optionalString };
const target = { name: string, arguments: optionalObject };
const resource = { uri: string };
const completion = { ref: object, argument: object, context: optionalObject };
const listener = { notifications: notificationFilter };
const task = { taskId: string };
const update = { taskId: string, inputResponses: object };

interface Method {
  readonly service: Service;
  /** The server capability that the method belongs to, if there is one. */
  readonly needs?: string;
  /** The member of the params that `Mcp-Name` repeats, if it repeats one. */
  readonly named?: 'name' | 'uri' | 'taskId';
  readonly params: ParamsShape;
}

const METHODS = {
  'server/discover': { service: 'discover', params: {} },
  'tools/list': { service: 'forward', needs: 'tools', params: list },
  'tools/call': { service: 'interactive', needs: 'tools', named: 'name', params: target },
  'prompts/list': { service: 'forward', needs: 'prompts', params: list },
  'prompts/get': { service: 'interactive', needs: 'prompts', named: 'name', params: target },
  'resources/list': { service: 'forward', needs: 'resources', params: list },
  'resources/templates/list': { service: 'forward', needs: 'resources', params: list },
  'resources/read': { service: 'interactive', needs: 'resources', named: 'uri', params: resource },
  'completion/complete': { service: 'forward', needs: 'completions', params: completion },
  'subscriptions/listen': { service: 'listen', params: listener },
  'tasks/get': { service: 'task', needs: 'tools', named: 'taskId', params: task },
  'tasks/update': { service: 'task', needs: 'tools', named: 'taskId', params: update },
  'tasks/cancel': { service: 'task', needs: 'tools', named: 'taskId', params: task },
} as const satisfies Readonly<Record<string, Method>>;

/** A method of the modern revision. */
export type MethodName = keyof typeof METHODS;

/** Returns true if the modern revision has the method. */
export function isMethod(method: string): method is MethodName {
  return Object.hasOwn(METHODS, method);
}

/** Returns how a method is served. */
export function serviceOf(method: MethodName): Service {
  return METHODS[method].service;
}

/** Returns the member of the params that `Mcp-Name` repeats (streamable-http, "Standard Request Headers"). */
export function nameMemberOf(method: MethodName): NonNullable<Method['named']> | null {
  const { named }: Method = METHODS[method];
  return named ?? null;
}

/** Returns true if an `InputRequiredResult` can be the result (MRTR, "Supported Requests"). */
export function canRequireInput(method: MethodName): boolean {
  return serviceOf(method) === 'interactive';
}

/**
 * Refuses a method if the server does not have its capability.
 * @param capabilities of the server; `null` if they are not known, and the server has to be asked
 * @returns the refusal, or `null` if the method can be served
 */
export function methodGate(
  method: MethodName,
  capabilities: JsonObject | null,
): UnnamedRefusal | null {
  const { needs }: Method = METHODS[method];
  if (needs === undefined || capabilities === null) return null;
  return objectMember(capabilities, needs) === undefined ? METHOD_NOT_FOUND : null;
}

/** The error for an unknown or not offered method: 404 (streamable-http, "Protocol Version Header"). */
export const METHOD_NOT_FOUND: UnnamedRefusal = {
  httpStatus: 404,
  error: { code: ErrorCode.methodNotFound, message: 'Method not found' },
};

/**
 * Finds the first member that is wrong.
 * @returns the member and what it must be, or `null`
 */
export function paramsProblem(method: MethodName, params: JsonObject): string | null {
  const shape: ParamsShape = METHODS[method].params;
  for (const member in shape) {
    const problem = shape[member]!(params[member]);
    if (problem !== null) return `params.${member} ${problem}`;
  }
  return roundProblem(params, canRequireInput(method) || method === 'tasks/update');
}

/** Here `null` is malformed, not absent (MRTR, "Error Handling"). */
function roundProblem(
  { inputResponses, requestState }: JsonObject,
  isAllowed: boolean,
): string | null {
  if (!isAllowed && (inputResponses !== undefined || requestState !== undefined)) {
    return 'inputResponses and requestState are allowed only in tools/call, prompts/get, resources/read and tasks/update';
  }
  if (requestState !== undefined && typeof requestState !== 'string') {
    return 'params.requestState must be a string';
  }
  if (inputResponses === undefined) return null;
  if (!isJsonObject(inputResponses)) return 'params.inputResponses must be an object';
  for (const [key, value] of Object.entries(inputResponses)) {
    if (!isJsonObject(value)) return `params.inputResponses["${key}"] must be an object`;
  }
  return null;
}
