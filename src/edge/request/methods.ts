/** The requests of the modern revision that the gateway serves, and what each of them needs. */
import { ErrorCode } from '../../protocol/json-rpc.ts';
import { objectMember, type JsonObject } from '../../protocol/json/json.ts';
import type { Refusal } from '../http/refusal.ts';

/**
 * How a method is served.
 * - `discover`: by the gateway itself
 * - `interactive`: as a call that may need input
 * - `forward`: by one request or more to the server, which can ask nothing
 * - `listen`: as a stream, for as long as the client listens
 */
export type Service = 'discover' | 'interactive' | 'forward' | 'listen';

interface Method {
  readonly service: Service;
  /** The server capability that the method belongs to. */
  readonly capability: string | null;
  /** The member of the params that `Mcp-Name` repeats. */
  readonly nameMember: 'name' | 'uri' | null;
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
export function isInteractive(method: MethodName): boolean {
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
): Omit<Refusal, 'id'> | null {
  const { capability } = METHODS[method];
  if (capability === null || capabilities === null) return null;
  return objectMember(capabilities, capability) === undefined ? METHOD_NOT_FOUND : null;
}

/** The error for an unknown or not offered method: 404 (streamable-http, "Protocol Version Header"). */
export const METHOD_NOT_FOUND: Omit<Refusal, 'id'> = {
  httpStatus: 404,
  error: { code: ErrorCode.methodNotFound, message: 'Method not found' },
};
