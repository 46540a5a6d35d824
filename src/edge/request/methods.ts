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

interface Method {
  readonly service: Service;
  /** The server capability that the method belongs to. */
  readonly capability: string | null;
  /** The member of the params that `Mcp-Name` repeats. */
  readonly nameMember: 'name' | 'uri' | 'taskId' | null;
}

const METHODS = {
  'server/discover': { service: 'discover', capability: null, nameMember: null },
  'tools/list': { service: 'forward', capability: 'tools', nameMember: null },
  'tools/call': { service: 'interactive', capability: 'tools', nameMember: 'name' },
  'prompts/list': { service: 'forward', capability: 'prompts', nameMember: null },
  'prompts/get': { service: 'interactive', capability: 'prompts', nameMember: 'name' },
  'resources/list': { service: 'forward', capability: 'resources', nameMember: null },
  'resources/templates/list': { service: 'forward', capability: 'resources', nameMember: null },
  'resources/read': { service: 'interactive', capability: 'resources', nameMember: 'uri' },
  'completion/complete': { service: 'forward', capability: 'completions', nameMember: null },
  'subscriptions/listen': { service: 'listen', capability: null, nameMember: null },
  'tasks/get': { service: 'task', capability: 'tools', nameMember: 'taskId' },
  'tasks/update': { service: 'task', capability: 'tools', nameMember: 'taskId' },
  'tasks/cancel': { service: 'task', capability: 'tools', nameMember: 'taskId' },
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
export function nameMemberOf(method: MethodName): Method['nameMember'] {
  return METHODS[method].nameMember;
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
  const { capability } = METHODS[method];
  if (capability === null || capabilities === null) return null;
  return objectMember(capabilities, capability) === undefined ? METHOD_NOT_FOUND : null;
}

/** The error for an unknown or not offered method: 404 (streamable-http, "Protocol Version Header"). */
export const METHOD_NOT_FOUND: UnnamedRefusal = {
  httpStatus: 404,
  error: { code: ErrorCode.methodNotFound, message: 'Method not found' },
};

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
const SHAPES: Readonly<Record<MethodName, ParamsShape>> = {
  'server/discover': {},
  'tools/list': list,
  'tools/call': target,
  'prompts/list': list,
  'prompts/get': target,
  'resources/list': list,
  'resources/templates/list': list,
  'resources/read': { uri: string },
  'completion/complete': { ref: object, argument: object, context: optionalObject },
  'subscriptions/listen': { notifications: notificationFilter },
  'tasks/get': { taskId: string },
  'tasks/update': { taskId: string, inputResponses: object },
  'tasks/cancel': { taskId: string },
};

/**
 * Finds the first member that is wrong.
 * @returns the member and what it must be, or `null`
 */
export function paramsProblem(method: MethodName, params: JsonObject): string | null {
  const shape = SHAPES[method];
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
