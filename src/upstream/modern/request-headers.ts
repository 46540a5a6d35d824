/** A modern request over HTTP: a POST with headers that repeat what its body says (streamable-http, "Request Metadata"). */
import {
  isJsonObject,
  isJsonInteger,
  objectMember,
  type JsonObject,
  type JsonValue,
} from '../../protocol/json.ts';
import { MODERN_REVISION } from '../../protocol/meta.ts';
import { postOf } from '../http/http-request.ts';
import {
  annotatedParameters,
  type AnnotatedParameter,
} from '../../protocol/translate/header-annotations.ts';

/** The member of the params that `Mcp-Name` repeats ("Standard Request Headers"; tasks extension, "Routing Headers"). */
const NAMED: ReadonlyMap<string, string> = new Map([
  ['tools/call', 'name'],
  ['prompts/get', 'name'],
  ['resources/read', 'uri'],
  ['tasks/get', 'taskId'],
  ['tasks/update', 'taskId'],
  ['tasks/cancel', 'taskId'],
]);

interface ModernRequest {
  readonly id: string | number;
  readonly method: string;
  readonly params: JsonObject;
}

/**
 * Writes a request as a POST.
 * @param headers of the caller, and those that repeat parameters
 */
export function modernPost(
  { id, method, params }: ModernRequest,
  headers: Readonly<Record<string, string>>,
) {
  const name = params[NAMED.get(method) ?? ''];
  return postOf(
    { id, method, params },
    {
      ...headers,
      'mcp-protocol-version': MODERN_REVISION,
      'mcp-method': method,
      ...(typeof name === 'string' && { 'mcp-name': encodeHeaderValue(name) }),
    },
  );
}

/** Values that a header holds as they are: visible ASCII, with spaces and tabs within. */
const PLAIN = /^(?:[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?)?$/;
const SENTINEL = /^=\?base64\?.*\?=$/s;

/** Writes a value, as Base64 if a header cannot hold it as it is ("Value Encoding"). */
export function encodeHeaderValue(value: string): string {
  if (PLAIN.test(value) && !SENTINEL.test(value)) return value;
  return `=?base64?${Buffer.from(value).toString('base64')}?=`;
}

/** The headers that tools want their parameters to be repeated in, as lists of tools say it to one caller. */
export class ParameterHeaders {
  /** Of the tools that were listed; empty for most. */
  readonly #byTool = new Map<string, readonly AnnotatedParameter[]>();

  has(tool: string): boolean {
    return this.#byTool.has(tool);
  }

  /** Takes a page of `tools/list`. @returns the tools whose annotations are valid: a client must leave out the others */
  learn(tools: readonly JsonValue[]): JsonValue[] {
    return tools.filter((tool) => {
      if (!isJsonObject(tool) || typeof tool['name'] !== 'string') return true;
      const parameters = annotatedParameters(objectMember(tool, 'inputSchema') ?? {});
      this.#byTool.set(tool['name'], parameters ?? []);
      return parameters !== null;
    });
  }

  /** Returns the headers of a call. */
  of(tool: string, args: JsonObject): Record<string, string> {
    const headers: Record<string, string> = {};
    for (const { name, path } of this.#byTool.get(tool) ?? []) {
      const text = textOf(valueAt(args, path));
      if (text !== null) headers[`mcp-param-${name.toLowerCase()}`] = encodeHeaderValue(text);
    }
    return headers;
  }
}

function valueAt(args: JsonObject, path: readonly string[]): JsonValue | undefined {
  let value: JsonValue | undefined = args;
  for (const member of path) {
    if (!isJsonObject(value) || !Object.hasOwn(value, member)) return undefined;
    value = value[member];
  }
  return value;
}

/** Returns `null` for a value that is absent, or of a type that the annotation does not allow. */
function textOf(value: JsonValue | undefined): string | null {
  if (typeof value === 'string') return value;
  if (typeof value === 'boolean') return String(value);
  return isJsonInteger(value) ? JSON.stringify(value) : null;
}
