/**
 * Translates what a server of 2026-07-28 says for a client of 2025-11-25 or older, and what that client declares for the server.
 * Members that neither side has to know pass.
 */
import {
  isJsonObject,
  membersWhere,
  objectMember,
  without,
  type JsonObject,
  type JsonValue,
} from '../json.ts';
import type { JsonRpcErrorObject } from '../json-rpc.ts';
import {
  isAtLeast,
  isLegacyRevision,
  LEGACY_REVISIONS,
  Meta,
  MODERN_REVISION,
  type LegacyRevision,
} from '../meta.ts';
import { OF_MODERN_RESULTS, withoutReservedMeta, withoutReserved } from './cleaning.ts';
import { OPENAI_FORMS, TASKS } from './extensions.ts';
import { NAMED_SCHEMAS, NOT_SCHEMAS } from './header-annotations.ts';

/** What a legacy client says of itself in `initialize`. */
export interface LegacyClient {
  readonly revision: LegacyRevision;
  /** As the server gets them with each request. */
  readonly capabilities: JsonObject;
  readonly clientInfo: JsonObject | null;
  /** Whether it takes plain forms, or those of OpenAI's extension only. */
  readonly takesPlainForms: boolean;
}

/** Reads the params of `initialize`. A revision that nobody knows becomes the newest one (2025-11-25 lifecycle, "Version Negotiation"). */
export function readLegacyClient({ protocolVersion, ...params }: JsonObject): LegacyClient {
  const revision = isLegacyRevision(protocolVersion) ? protocolVersion : LEGACY_REVISIONS[0];
  const declared = objectMember(params, 'capabilities') ?? {};
  // Elicitation is of 2025-06-18, and URLs are of 2025-11-25.
  const asked = isAtLeast(revision, '2025-06-18')
    ? objectMember(declared, 'elicitation')
    : undefined;
  const elicitation =
    asked && (isAtLeast(revision, '2025-11-25') ? asked : without(asked, ['url', 'form']));
  return {
    revision,
    capabilities: modernClientCapabilities(declared, elicitation),
    clientInfo: objectMember(params, 'clientInfo') ?? null,
    takesPlainForms: elicitation !== undefined && takesForms(elicitation),
  };
}

/** `elicitation: {}` means form mode only (elicitation, "Capabilities"). */
function takesForms(elicitation: JsonObject): boolean {
  return isJsonObject(elicitation['form']) || Object.keys(elicitation).length === 0;
}

/** Translates the capabilities of a client. A server asks for a form of OpenAI's extension as for any form. */
function modernClientCapabilities(
  declared: JsonObject,
  elicitation: JsonObject | undefined,
): JsonObject {
  const extensions = without(objectMember(declared, 'extensions') ?? {}, [TASKS]);
  const takesRichForms = objectMember(extensions, OPENAI_FORMS)?.['form'] !== undefined;
  return {
    ...without(declared, ['elicitation', 'roots', 'extensions', 'tasks']),
    ...(elicitation !== undefined && { elicitation }),
    ...(takesRichForms && { elicitation: { ...elicitation, form: {} } }),
    ...(objectMember(declared, 'roots') !== undefined && { roots: {} }),
    ...(Object.keys(extensions).length > 0 && { extensions }),
  };
}

/** What a request says besides its own params. */
export interface RequestEnvelope {
  readonly client: LegacyClient;
  /** `null` if the client has asked for no log messages. */
  readonly logLevel: string | null;
  /** Whether the client is declared to know tasks: the gateway waits for them in its place. */
  readonly withTasks: boolean;
}

/** Writes the params of a request for the server (basic/index, "Per-request protocol fields"). */
export function modernParams(
  params: JsonObject,
  { client, logLevel, withTasks }: RequestEnvelope,
): JsonObject {
  const { _meta: meta, ...rest } = without(params, ['task', 'inputResponses', 'requestState']);
  const given = isJsonObject(meta) ? meta : {};
  const token = given['progressToken'];
  const { capabilities, clientInfo } = client;
  return {
    ...rest,
    _meta: {
      ...withoutReserved(given),
      ...(token !== undefined && { progressToken: token }),
      [Meta.protocolVersion]: MODERN_REVISION,
      ...(clientInfo !== null && { [Meta.clientInfo]: clientInfo }),
      [Meta.clientCapabilities]: withTasks ? alsoTasks(capabilities) : capabilities,
      ...(logLevel !== null && { [Meta.logLevel]: logLevel }),
    },
  };
}

function alsoTasks(capabilities: JsonObject): JsonObject {
  return {
    ...capabilities,
    extensions: { ...objectMember(capabilities, 'extensions'), [TASKS]: {} },
  };
}

const UNNAMED: JsonObject = { name: 'unknown', version: 'unknown' };
const SERVED = ['tools', 'prompts', 'resources', 'completions', 'logging', 'experimental'];

/** Writes the result of `initialize` from that of `server/discover`. */
export function initializeResult(discovered: JsonObject, { revision }: LegacyClient): JsonObject {
  const offered = objectMember(discovered, 'capabilities') ?? {};
  const { instructions } = discovered;
  const extensions = without(objectMember(offered, 'extensions') ?? {}, [TASKS]);
  return {
    protocolVersion: revision,
    capabilities: {
      ...membersWhere(offered, (name) => SERVED.includes(name)),
      ...(Object.keys(extensions).length > 0 && { extensions }),
    },
    serverInfo: objectMember(objectMember(discovered, '_meta') ?? {}, Meta.serverInfo) ?? UNNAMED,
    ...(typeof instructions === 'string' && { instructions }),
  };
}

/** Members of modern results that older revisions do not have. */
const NOT_IN_LEGACY_RESULTS = [...OF_MODERN_RESULTS, 'ttlMs', 'cacheScope'];

/** Writes a complete result. */
export function legacyResult(result: JsonObject): JsonObject {
  return withoutReservedMeta(without(result, NOT_IN_LEGACY_RESULTS));
}

/** Tools whose `outputSchema` a legacy client could not take, by what lists have said of them to one caller. */
export class WrappedResults {
  readonly #tools = new Set<string>();

  /**
   * Translates a tool of a list. Up to 2025-11-25 an `outputSchema` is of an object, and a client drops all tools of a list
   * that has another one.
   */
  tool(tool: JsonValue): JsonValue {
    if (!isJsonObject(tool)) return tool;
    const name = String(tool['name']);
    const schema = objectMember(tool, 'outputSchema');
    const isPlain = schema === undefined || schema['type'] === 'object';
    if (isPlain) this.#tools.delete(name);
    else this.#tools.add(name);
    return isPlain ? tool : { ...tool, outputSchema: wrapped(schema) };
  }

  /** Translates the result of a tool to fit the schema that its client was told. */
  result(tool: string, result: JsonObject): JsonObject {
    const { structuredContent, content } = result;
    if (structuredContent === undefined) return result;
    if (isJsonObject(structuredContent) && !this.#tools.has(tool)) return result;
    const text = JSON.stringify(structuredContent);
    const hasContent = Array.isArray(content) && content.length > 0;
    return {
      ...result,
      structuredContent: { result: structuredContent },
      content: hasContent ? content : [{ type: 'text', text }],
    };
  }
}

/** Makes a schema that of a member `result`. What its references point to moves along, unless the schema has an address of its own. */
function wrapped({ $schema, ...schema }: JsonObject): JsonObject {
  const inner = typeof schema['$id'] === 'string' ? schema : moved(schema);
  return {
    ...($schema !== undefined && { $schema }),
    type: 'object',
    properties: { result: inner },
    required: ['result'],
  };
}

const REFERENCES: ReadonlySet<string> = new Set(['$ref', '$dynamicRef', '$recursiveRef']);

function moved<Value extends JsonValue>(value: Value): Value {
  if (Array.isArray(value)) return value.map(moved) as Value;
  if (!isJsonObject(value)) return value;
  const entries = Object.entries(value).map(([keyword, part]) => {
    const isReference = REFERENCES.has(keyword) && typeof part === 'string';
    if (isReference) return [keyword, part.replace(/^#(?=\/|$)/, '#/properties/result')] as const;
    if (NAMED_SCHEMAS.has(keyword) && isJsonObject(part))
      return [keyword, movedByName(part)] as const;
    return [keyword, NOT_SCHEMAS.has(keyword) ? part : moved(part)] as const;
  });
  return Object.fromEntries(entries) as Value;
}

function movedByName(schemas: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(schemas).map(([name, part]) => [name, moved(part)]));
}

/** Writes an error. That of a capability which the client lacks is first said in words: its code is not known to the client. */
export function legacyError(
  error: JsonRpcErrorObject,
  missing: JsonObject | null,
): JsonRpcErrorObject {
  if (missing === null) return error;
  return { ...error, message: `${needs(missing)} (${error.message})` };
}

/** Says what a client would have to support. @param required capabilities, as it would declare them */
export function needs(required: JsonObject): string {
  return `This needs a client that supports ${namesOf(required).join(', ')}, which this one does not declare`;
}

function namesOf(capabilities: JsonObject): string[] {
  return Object.entries(capabilities).flatMap(([name, value]) => {
    const members = isJsonObject(value) ? Object.keys(value) : [];
    return members.length === 0 ? [name] : members.map((member) => `${name}.${member}`);
  });
}
