/**
 * Translates results for a modern client, and the legacy `initialize` result for `server/discover`: adds their type, the
 * server's name and cache fields, and removes legacy members. Unknown members stay (basic/index, "ResultType"; caching,
 * "Cacheable Results").
 */
import { annotatedParameters, withoutHeaderAnnotations } from './header-annotations.ts';
import { compatibleSchema } from './schema-dialect.ts';
import { fromServer } from './cleaning.ts';
import type { InputRequest } from './input-request.ts';
import { isJsonObject, objectMember, without, type JsonObject, type JsonValue } from '../json.ts';
import { Meta } from '../meta.ts';
import { serverExtensions, TASKS } from './extensions.ts';

export interface CacheFields {
  readonly ttlMs: number;
  readonly cacheScope: 'public' | 'private';
}

export interface ResultContext {
  /** The `serverInfo` of the upstream; `null` if it is unknown. */
  readonly serverInfo: JsonObject | null;
  /** False if the request carried answers: the result depends on them (caching, "Cache Key"). */
  readonly cacheable?: boolean;
  /** Who can cache it and how long, as configured. The default is no caching. */
  readonly caching?: CacheFields;
  /** Whether `x-mcp-header` annotations stay. They are useless if the headers are not validated. */
  readonly parameterHeaders?: 'strip' | 'validate';
  /** Whether schemas of tools lose the names of older dialects that mean the same. */
  readonly schemas?: 'as-is' | 'compatible';
}

const CACHEABLE: ReadonlySet<string> = new Set([
  'tools/list',
  'prompts/list',
  'resources/list',
  'resources/templates/list',
  'resources/read',
]);
/** The most values of `completion/complete` (completion, "Completion Results"). */
const MAX_COMPLETIONS = 100;

/** Members that only the configuration sets: a legacy server does not know caches between it and clients. */
const OF_CACHES = ['ttlMs', 'cacheScope'];

/** Translates a legacy result to the complete result of a modern request. */
export function completeResult(
  method: string,
  result: JsonObject,
  context: ResultContext,
): JsonObject {
  const members = without(fromServer(result), OF_CACHES);
  const complete: JsonObject = {
    ...without(shaped(method, members, context), ['_meta']),
    resultType: 'complete',
    ...metaMember(objectMember(members, '_meta') ?? {}, context.serverInfo),
  };
  if (!CACHEABLE.has(method)) return complete;
  const { cacheable = true, caching = NEVER_CACHED } = context;
  return { ...complete, ...(cacheable ? caching : NEVER_CACHED) };
}

/** Builds the result that asks the client for input. It is never cached and has no cache fields. */
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
 * @param meta its other members, cleaned by `fromServer`
 * @param serverInfo of the upstream, from `initialize`; `null` if it is unknown
 */
export function metaMember(meta: JsonObject, serverInfo: JsonObject | null): JsonObject {
  const all = serverInfo === null ? meta : { ...meta, [Meta.serverInfo]: serverInfo };
  return Object.keys(all).length === 0 ? {} : { _meta: all };
}

const NEVER_CACHED: CacheFields = { ttlMs: 0, cacheScope: 'private' };

function shaped(method: string, result: JsonObject, context: ResultContext): JsonObject {
  switch (method) {
    case 'tools/call':
      return withContent(result);
    case 'tools/list':
      return { ...result, tools: tools(result['tools'], context) };
    case 'completion/complete':
      return withCompletion(result);
    default:
      return result;
  }
}

/** Adds `content`, which is required now. Older servers omit it if they have structured content. */
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

/** Lists tools in the server's order, each name once. A tool without a name cannot be called and is dropped. */
function tools(value: JsonValue | undefined, context: ResultContext): JsonValue[] {
  if (!Array.isArray(value)) return [];
  const named = new Map<string, JsonObject>();
  for (const tool of value) {
    if (!isJsonObject(tool)) continue;
    const { name } = tool;
    if (typeof name === 'string' && !named.has(name)) {
      named.set(name, modernTool(tool, context));
    }
  }
  return [...named.values()];
}

/**
 * Removes `execution`, which belongs to legacy tasks, and `x-mcp-header`: it makes clients send headers that
 * no legacy server reads, and drop the whole tool if an annotation is invalid.
 */
function modernTool(
  tool: JsonObject,
  { parameterHeaders, schemas }: Pick<ResultContext, 'parameterHeaders' | 'schemas'>,
): JsonObject {
  const shown = (schema: JsonObject) =>
    schemas === 'compatible' ? compatibleSchema(schema) : schema;
  const schema = objectMember(tool, 'inputSchema') ?? {};
  const outputSchema = objectMember(tool, 'outputSchema');
  const kept = parameterHeaders === 'validate' && annotatedParameters(schema) !== null;
  return {
    ...without(tool, ['execution']),
    inputSchema: { type: 'object', ...shown(kept ? schema : withoutHeaderAnnotations(schema)) },
    ...(outputSchema === undefined ? {} : { outputSchema: shown(outputSchema) }),
  };
}

export interface DiscoverContext {
  readonly supportedVersions: readonly string[];
  /** How long the client can cache the result, in ms. */
  readonly ttlMs: number;
  /** Whether the upstream has a stream for its own messages, so that `subscriptions/listen` is served. */
  readonly canReceiveNotifications: boolean;
  /** Whether the gateway makes tasks of tool calls. */
  readonly offersTasks: boolean;
  /** Extensions of the server that the operator wants to be advertised, besides those that are known. */
  readonly extensions: readonly string[];
}

/** Translates the upstream's `initialize` result. */
export function discoverResult(initialized: JsonObject, context: DiscoverContext): JsonObject {
  const { instructions } = initialized;
  return {
    resultType: 'complete',
    supportedVersions: [...context.supportedVersions],
    capabilities: modernCapabilities(
      objectMember(initialized, 'capabilities') ?? {},
      context.canReceiveNotifications,
      context.offersTasks,
      context.extensions,
    ),
    ...(typeof instructions === 'string' ? { instructions } : {}),
    ttlMs: context.ttlMs,
    // What a server offers can differ by caller, so no shared cache may store it.
    cacheScope: 'private',
    ...metaMember(
      objectMember(fromServer(initialized), '_meta') ?? {},
      objectMember(initialized, 'serverInfo') ?? null,
    ),
  };
}

/**
 * Translates the capabilities of a legacy server. Unknown or experimental traffic is not translated, and not advertised.
 * Extensions that pass a translation are, and those that the operator names. `tasks` became an extension, which the gateway offers for any server
 * that has tools.
 */
export function modernCapabilities(
  capabilities: JsonObject,
  canReceiveNotifications: boolean,
  offersTasks = false,
  named: readonly string[] = [],
): JsonObject {
  const modern: JsonObject = {};
  for (const name of ['tools', 'prompts', 'resources']) {
    const capability = objectMember(capabilities, name);
    if (capability === undefined) continue;
    const kept: JsonObject = {};
    for (const flag of name === 'resources' ? ['subscribe', 'listChanged'] : ['listChanged']) {
      if (canReceiveNotifications && capability[flag] === true) kept[flag] = true;
    }
    modern[name] = kept;
  }
  for (const name of ['logging', 'completions']) {
    if (objectMember(capabilities, name) !== undefined) modern[name] = {};
  }
  const tasks = offersTasks && modern['tools'] !== undefined ? { [TASKS]: {} } : {};
  const extensions = { ...serverExtensions(capabilities, named), ...tasks };
  if (Object.keys(extensions).length > 0) modern['extensions'] = { ...extensions };
  return modern;
}
