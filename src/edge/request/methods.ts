/** The requests of the modern revision that this gateway serves, and what each of them takes. */
import { ErrorCode, type JsonRpcErrorObject } from '../../protocol/json-rpc.ts';
import { objectMember, type JsonObject } from '../../protocol/json/json.ts';

/** How a method is served: by ourselves, as a call that may need input, by passing it on, or for as long as the client listens. */
export type Service = 'discover' | 'interactive' | 'forward' | 'listen';

interface Method {
  readonly service: Service;
  /** The server capability without which the method does not exist. */
  readonly capability: string | null;
  /** The member of the params that `Mcp-Name` repeats. */
  readonly nameMember: 'name' | 'uri' | null;
}

const METHODS: ReadonlyMap<string, Method> = new Map<string, Method>([
  ['server/discover', { service: 'discover', capability: null, nameMember: null }],
  ['tools/list', { service: 'forward', capability: 'tools', nameMember: null }],
  ['tools/call', { service: 'interactive', capability: 'tools', nameMember: 'name' }],
  ['prompts/list', { service: 'forward', capability: 'prompts', nameMember: null }],
  ['prompts/get', { service: 'interactive', capability: 'prompts', nameMember: 'name' }],
  ['resources/list', { service: 'forward', capability: 'resources', nameMember: null }],
  ['resources/templates/list', { service: 'forward', capability: 'resources', nameMember: null }],
  ['resources/read', { service: 'interactive', capability: 'resources', nameMember: 'uri' }],
  ['completion/complete', { service: 'forward', capability: 'completions', nameMember: null }],
  ['subscriptions/listen', { service: 'listen', capability: null, nameMember: null }],
]);

/** How a method is served, or `null` when it is not known. */
export function serviceOf(method: string): Service | null {
  return METHODS.get(method)?.service ?? null;
}

/** The member that `Mcp-Name` must equal, or `null` (streamable-http, "Standard Request Headers"). */
export function nameMemberOf(method: string): 'name' | 'uri' | null {
  return METHODS.get(method)?.nameMember ?? null;
}

/** Only these may be answered with an `InputRequiredResult` (MRTR, "Supported Requests"). */
export function isInteractiveMethod(method: string): boolean {
  return serviceOf(method) === 'interactive';
}

/** Why a method is not served: it is unknown, or the upstream does not have its capability. */
export function methodGate(
  method: string,
  capabilities: JsonObject | null,
): { readonly httpStatus: number; readonly error: JsonRpcErrorObject } | null {
  const known = METHODS.get(method);
  if (known === undefined) return METHOD_NOT_FOUND;
  const { capability } = known;
  if (capability === null || capabilities === null) return null;
  return objectMember(capabilities, capability) === undefined ? METHOD_NOT_FOUND : null;
}

/** 404 with a JSON-RPC body (streamable-http, "Protocol Version Header"). */
const METHOD_NOT_FOUND = {
  httpStatus: 404,
  error: { code: ErrorCode.methodNotFound, message: 'Method not found' },
};
