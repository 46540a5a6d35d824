/**
 * Cleans what crosses from one side to the other. Members that have a meaning only in the modern revision or for this gateway
 * must not reach a modern client in a message of a legacy server, and what is of the modern envelope must not reach the server
 * (basic/index, "ResultType", "`_meta`").
 */
import {
  isJsonObject,
  membersWhere,
  objectMember,
  without,
  type JsonObject,
  type JsonValue,
} from '../json.ts';
import { LegacyErrorCode, type JsonRpcErrorObject } from '../json-rpc.ts';
import { hasUserinfo } from '../web-url.ts';

/** Legacy servers have neither result types nor rounds. */
export const OF_MODERN_RESULTS = ['resultType', 'inputRequests', 'requestState'];

/** Members whose objects have their own `_meta`. None of them holds free data of a tool or a user. */
const WITH_META: ReadonlySet<string> = new Set([
  ...['tools', 'prompts', 'resources', 'resourceTemplates'],
  ...['content', 'contents', 'messages', 'resource'],
]);

/**
 * Cleans a result, the params of a notification or of a question, or the data of an error.
 * @returns it without reserved `_meta` members and without the members of modern results
 */
export function fromServer(message: JsonObject): JsonObject {
  return withoutReservedMeta(without(withPlainParts(message), OF_MODERN_RESULTS));
}

/**
 * Copies an error of a legacy server.
 * @returns the copy; its data lacks what `fromServer` removes, and URLs that are unsafe to visit
 */
export function errorFromServer(error: JsonRpcErrorObject): JsonRpcErrorObject {
  if (!isJsonObject(error.data)) return error;
  const data = fromServer(error.data);
  return { ...error, data: namesUnsafeUrl(error) ? without(data, ['elicitations']) : data };
}

/** Tells whether an error is a -32042 with a URL that hides where it leads. */
export function namesUnsafeUrl({ code, data }: JsonRpcErrorObject): boolean {
  if (code !== LegacyErrorCode.urlElicitationRequired || !isJsonObject(data)) return false;
  const { elicitations } = data;
  if (!Array.isArray(elicitations)) return false;
  return elicitations.some((one) => isJsonObject(one) && hasUserinfo(one['url']));
}

/** Returns the message itself if none of its parts has a reserved name. */
function withPlainParts(message: JsonObject): JsonObject {
  let plain = message;
  for (const member of Object.keys(message)) {
    if (!WITH_META.has(member)) continue;
    const value = message[member] ?? null;
    const part = plainPart(value);
    if (part !== value) plain = { ...plain, [member]: part };
  }
  return plain;
}

function plainPart(value: JsonValue): JsonValue {
  if (Array.isArray(value)) {
    const parts = value.map(plainPart);
    return parts.some((part, index) => part !== value[index]) ? parts : value;
  }
  return isJsonObject(value) ? withoutOwnMeta(withPlainParts(value)) : value;
}

/** Keeps names of extensions: a tool or a resource can use what both sides declared. */
function withoutOwnMeta(part: JsonObject): JsonObject {
  const meta = objectMember(part, '_meta');
  if (meta === undefined) return part;
  const kept = Object.entries(meta).filter(([name]) => !isOwnMeta(name));
  if (kept.length === Object.keys(meta).length) return part;
  const rest = without(part, ['_meta']);
  return kept.length === 0 ? rest : { ...rest, _meta: Object.fromEntries(kept) };
}

export interface UpstreamParamsContext {
  /** Our own token; `null` if no progress is wanted. */
  readonly progressToken: string | number | null;
  /** The members of the request's `_meta` that are forwarded: trace context and vendor keys. */
  readonly forwardedMeta: JsonObject;
}

/**
 * Removes the members of rounds and of the modern envelope, and `task`: only the gateway may turn a request
 * into a legacy task. Everything else is forwarded verbatim, including unknown members.
 */
export function upstreamParams(
  params: JsonObject,
  { progressToken, forwardedMeta }: UpstreamParamsContext,
): JsonObject {
  const meta: JsonObject =
    progressToken === null ? forwardedMeta : { ...forwardedMeta, progressToken };
  const forwarded = without(params, OF_MODERN_PARAMS);
  return Object.keys(meta).length > 0 ? { ...forwarded, _meta: meta } : forwarded;
}

const OF_MODERN_PARAMS = ['inputResponses', 'requestState', 'task', '_meta'];

const META_PREFIX = 'io.modelcontextprotocol/';
/** The prefix of what this gateway itself tells clients. */
const OWN_META_PREFIX = 'mrtr-gateway/';

/**
 * Returns a message without the `_meta` members that have a meaning on one side only: reserved names and
 * the progress token. Vendor members and trace context stay. An empty `_meta` is removed.
 */
export function withoutReservedMeta(message: JsonObject): JsonObject {
  if (!Object.hasOwn(message, '_meta')) return message;
  const { _meta: meta, ...rest } = message;
  if (!isJsonObject(meta)) return rest;
  const kept = withoutReserved(meta);
  return Object.keys(kept).length === 0 ? rest : { ...rest, _meta: kept };
}

/** Returns the members of a `_meta` that have a meaning on both sides. */
export function withoutReserved(meta: JsonObject): JsonObject {
  return membersWhere(meta, (name) => !isReserved(name));
}

const OF_MCP = /^[^./]*\.(?:modelcontextprotocol|mcp)(?:\.[^/]*)?\//;

/** Tells whether MCP reserves a name (the second label of its prefix is `modelcontextprotocol` or `mcp`), or we do. */
export function isReserved(name: string): boolean {
  return name === 'progressToken' || isOwnMeta(name) || OF_MCP.test(name);
}

/** Tells whether only the protocol itself (not an extension of it) or this gateway uses a name. */
function isOwnMeta(name: string): boolean {
  return name.startsWith(META_PREFIX) || name.startsWith(OWN_META_PREFIX);
}
