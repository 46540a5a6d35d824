/**
 * Results as a modern client expects them: marked with their type and with the server's name, with
 * cache fields where the revision requires them, and without what only legacy clients know. What this
 * gateway does not know survives (basic/index, "ResultType"; caching, "Cacheable Results").
 */
import { annotatedParameters, withoutHeaderAnnotations } from './header-annotations.ts';
import { fromServer } from './from-server.ts';
import type { InputRequest } from './input-request.ts';
import {
  isJsonObject,
  objectMember,
  without,
  type JsonObject,
  type JsonValue,
} from '../json/json.ts';
import { Meta } from '../meta.ts';

export interface CacheFields {
  readonly ttlMs: number;
  readonly cacheScope: 'public' | 'private';
}

export interface ResultContext {
  /** The upstream's own name; `null` when it is not known. */
  readonly serverInfo: JsonObject | null;
  /** False when the request carried answers: such a result belongs to them (caching, "Cache Key"). */
  readonly cacheable?: boolean;
  /** How long who may keep it, by the operator's word. Left out: nobody. */
  readonly caching?: CacheFields;
  /** What becomes of `x-mcp-header`: without a check of the headers it means nothing. */
  readonly parameterHeaders?: 'strip' | 'validate';
}

const CACHEABLE: ReadonlySet<string> = new Set([
  'tools/list',
  'prompts/list',
  'resources/list',
  'resources/templates/list',
  'resources/read',
]);
/** `completion/complete` may return this many (completion, "Completion Results"). */
const MAX_COMPLETIONS = 100;

/** Only the operator of the gateway says what may be kept: a legacy server knows no caches between it and clients. */
const OF_CACHES = ['ttlMs', 'cacheScope'];

/** A legacy result as the complete result of a modern request. */
export function completeResult(
  method: string,
  result: JsonObject,
  context: ResultContext,
): JsonObject {
  const said = without(fromServer(result), OF_CACHES);
  const complete: JsonObject = {
    ...without(shaped(method, said, context.parameterHeaders === 'validate'), ['_meta']),
    resultType: 'complete',
    ...metaMember(objectMember(said, '_meta') ?? {}, context.serverInfo),
  };
  if (!CACHEABLE.has(method)) return complete;
  const { cacheable = true, caching = NEVER_CACHED } = context;
  return { ...complete, ...(cacheable ? caching : NEVER_CACHED) };
}

/** The interim result that asks the client for input. It is never cached and carries no cache fields. */
export function inputRequiredResult(
  inputRequests: Readonly<Record<string, InputRequest>>,
  requestState: string,
  serverInfo: JsonObject | null,
): JsonObject {
  return {
    resultType: 'input_required',
    inputRequests: { ...inputRequests },
    requestState,
    ...metaMember({}, serverInfo),
  };
}

/**
 * Builds the `_meta` member of a result (basic/index, "Per-response protocol fields").
 * @param meta what else stands in it, without what a legacy server may not say
 * @param serverInfo what the upstream called itself in `initialize`; `null` when it is not known
 */
export function metaMember(meta: JsonObject, serverInfo: JsonObject | null): JsonObject {
  const all = serverInfo === null ? meta : { ...meta, [Meta.serverInfo]: serverInfo };
  return Object.keys(all).length === 0 ? {} : { _meta: all };
}

const NEVER_CACHED: CacheFields = { ttlMs: 0, cacheScope: 'private' };

function shaped(method: string, result: JsonObject, keepHeaders: boolean): JsonObject {
  switch (method) {
    case 'tools/call':
      return withContent(result);
    case 'tools/list':
      return { ...result, tools: tools(result['tools'], keepHeaders) };
    case 'completion/complete':
      return withCompletion(result);
    default:
      return result;
  }
}

/** `content` is required now; older servers leave it out when they have structured content. */
function withContent(result: JsonObject): JsonObject {
  if (Array.isArray(result['content'])) return result;
  const { structuredContent } = result;
  const content =
    structuredContent === undefined
      ? []
      : [{ type: 'text', text: JSON.stringify(structuredContent) }];
  return { ...result, content };
}

function withCompletion(result: JsonObject): JsonObject {
  const completion = objectMember(result, 'completion');
  if (completion === undefined) return result;
  const { values } = completion;
  if (!Array.isArray(values) || values.length <= MAX_COMPLETIONS) return result;
  return {
    ...result,
    completion: { ...completion, values: values.slice(0, MAX_COMPLETIONS), hasMore: true },
  };
}

/** Tools in the server's order, each name once; one without a name cannot be called and is left out. */
function tools(value: JsonValue | undefined, keepHeaders: boolean): JsonValue[] {
  if (!Array.isArray(value)) return [];
  const named = new Map<string, JsonObject>();
  for (const tool of value) {
    if (!isJsonObject(tool)) continue;
    const { name } = tool;
    if (typeof name === 'string' && !named.has(name)) {
      named.set(name, modernTool(tool, keepHeaders));
    }
  }
  return [...named.values()];
}

/**
 * `execution` belongs to the legacy tasks. `x-mcp-header` makes clients send headers that no legacy
 * server reads, and drop the whole tool where the annotation breaks the rules for it.
 */
function modernTool(tool: JsonObject, keepHeaders: boolean): JsonObject {
  const schema = objectMember(tool, 'inputSchema') ?? {};
  const kept = keepHeaders && annotatedParameters(schema) !== null;
  return {
    ...without(tool, ['execution']),
    inputSchema: { type: 'object', ...(kept ? schema : withoutHeaderAnnotations(schema)) },
  };
}
