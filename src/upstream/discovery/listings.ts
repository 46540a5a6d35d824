/** Reads the lists of a server, page by page, up to a limit. */
import { isJsonObject, objectMember, type JsonObject } from '../../protocol/json.ts';
import { ErrorCode, type JsonRpcReply } from '../../protocol/json-rpc.ts';
import { dialectOutcome } from '../../protocol/translate/schema-dialect.ts';
import { asUpstreamFailure } from '../../model/upstream-failure.ts';

/** Requests one page of a list. */
export type List = (method: string, params: JsonObject) => Promise<JsonRpcReply>;

export interface Listing<Item> {
  /** Whether the server declares the capability. Otherwise the list is not requested. */
  readonly declared: boolean;
  readonly items: readonly Item[];
  /** True if the server has more items. */
  readonly truncated: boolean;
  /** Why the list could not be read in full; `null` if it was. */
  readonly problem: string | null;
}

export interface Entry {
  readonly name: string;
  /** The first line. */
  readonly description: string | null;
}

export interface ResourceEntry extends Entry {
  /** The URI, or the URI template. */
  readonly uri: string;
}

export interface ToolEntry extends Entry {
  /** The hints of its annotations. They are claims of the server. */
  readonly readOnly: boolean;
  readonly idempotent: boolean;
  /** What `tools.schemas: compatible` does if a schema names an older dialect: it takes all of these names off, or leaves one. */
  readonly olderDialect?: 'taken-off' | 'left';
}

export interface Listings {
  readonly tools: Listing<ToolEntry>;
  readonly prompts: Listing<Entry>;
  readonly resources: Listing<ResourceEntry>;
  readonly resourceTemplates: Listing<ResourceEntry>;
}

const MAX_PAGES = 20;
const MAX_ITEMS = 1_000;
const MAX_NAME_LENGTH = 256;
const MAX_LINE_LENGTH = 200;

/** Reads the lists of the declared capabilities concurrently. It does not throw. */
export async function readListings(capabilities: JsonObject, list: List): Promise<Listings> {
  const isDeclared = (name: string) => objectMember(capabilities, name) !== undefined;
  const read = <Item>(method: string, member: string, itemOf: (raw: JsonObject) => Item) =>
    isDeclared(method.split('/', 1)[0]!)
      ? readListing(list, method, member, itemOf)
      : { declared: false, items: [], truncated: false, problem: null };
  const [tools, prompts, resources, resourceTemplates] = await Promise.all([
    read('tools/list', 'tools', toolOf),
    read('prompts/list', 'prompts', entryOf),
    read('resources/list', 'resources', (raw) => resourceOf(raw, 'uri')),
    read('resources/templates/list', 'resourceTemplates', (raw) => resourceOf(raw, 'uriTemplate')),
  ]);
  return { tools, prompts, resources, resourceTemplates };
}

async function readListing<Item>(
  list: List,
  method: string,
  member: string,
  itemOf: (raw: JsonObject) => Item,
): Promise<Listing<Item>> {
  const items: Item[] = [];
  const ended = (problem: string | null, truncated = false) => ({
    declared: true,
    items,
    truncated,
    problem,
  });
  let cursor: string | null = null;
  try {
    for (let page = 0; page < MAX_PAGES; page += 1) {
      const reply: JsonRpcReply = await list(method, cursor === null ? {} : { cursor });
      if ('error' in reply) {
        // A server with resources need not support templates.
        const absent = method === 'resources/templates/list';
        const unknown = reply.error.code === ErrorCode.methodNotFound;
        return ended(absent && unknown ? null : `JSON-RPC error ${reply.error.code}`);
      }
      const raw = reply.result[member];
      if (!Array.isArray(raw)) return ended(`the result has no "${member}"`);
      for (const element of raw) {
        if (items.length >= MAX_ITEMS) return ended(null, true);
        if (isJsonObject(element)) items.push(itemOf(element));
      }
      const { nextCursor } = reply.result;
      if (typeof nextCursor !== 'string' || nextCursor === cursor) return ended(null);
      cursor = nextCursor;
    }
    return ended(null, true);
  } catch (error) {
    return ended(problemOf(error));
  }
}

function problemOf(error: unknown): string {
  const { code, message, details } = asUpstreamFailure(error, false);
  if (code === 'upstream_timeout') return 'timed out';
  return details.httpStatus === undefined ? message : `HTTP ${details.httpStatus}`;
}

function entryOf(raw: JsonObject): Entry {
  return { name: textOf(raw['name']) ?? '', description: firstLine(raw['description']) };
}

function resourceOf(raw: JsonObject, member: 'uri' | 'uriTemplate'): ResourceEntry {
  return { uri: textOf(raw[member]) ?? '', ...entryOf(raw) };
}

function toolOf(raw: JsonObject): ToolEntry {
  const annotations = objectMember(raw, 'annotations') ?? {};
  const schemas = ['inputSchema', 'outputSchema'].map((name) => objectMember(raw, name) ?? {});
  const outcomes = new Set(schemas.map(dialectOutcome));
  const older = outcomes.has('left') ? 'left' : outcomes.has('taken-off') ? 'taken-off' : null;
  return {
    ...entryOf(raw),
    readOnly: annotations['readOnlyHint'] === true,
    idempotent: annotations['idempotentHint'] === true,
    ...(older === null ? {} : { olderDialect: older }),
  };
}

function textOf(value: unknown): string | null {
  return typeof value === 'string' ? value.slice(0, MAX_NAME_LENGTH) : null;
}

function firstLine(value: unknown): string | null {
  if (typeof value !== 'string') return null;
  const line = value
    .trimStart()
    .split(/[\r\n]/, 1)[0]!
    .trim();
  if (line === '') return null;
  return line.length > MAX_LINE_LENGTH ? `${line.slice(0, MAX_LINE_LENGTH)}…` : line;
}
