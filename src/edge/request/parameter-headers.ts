/**
 * Whether the `Mcp-Param-*` headers of a call say the same as its arguments (streamable-http, "Server
 * Behavior for Custom Headers"): what routed on a header must not have been deceived.
 */
import type { AnnotatedParameter } from '../../protocol/translate/header-annotations.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json/json.ts';
import { decodeHeaderValue, readHeader } from '../http/header-fields.ts';

const NUMBER = /^-?\d{1,16}(?:\.0{1,16})?$/;
/** Visible ASCII, space and tab; everything else has to come as Base64 ("Value Encoding"). */
const PLAIN = /^[\t\x20-\x7e]*$/;

/**
 * In: the parameters that the tool's schema annotates, the call's arguments, and the headers as they
 * came. Out: what does not agree, in one line, or `null`.
 */
export function parameterHeaderProblem(
  parameters: readonly AnnotatedParameter[],
  args: JsonObject,
  rawHeaders: readonly string[],
): string | null {
  for (const parameter of parameters) {
    const header = `Mcp-Param-${parameter.name}`;
    const field = readHeader(rawHeaders, header);
    const value = valueAt(args, parameter.path);
    if (field.type === 'repeated') return `${header} is sent more than once`;
    const expected = value !== undefined && value !== null;
    if (field.type === 'absent') {
      if (expected) return `${header} is missing, and the argument is there`;
      continue;
    }
    if (!expected) return `${header} is sent, and the argument is not there`;
    if (!PLAIN.test(field.value)) return `${header} has characters that must be encoded`;
    const said = decodeHeaderValue(field.value);
    if (said === null) return `${header} is not well encoded`;
    if (!isSame(parameter.type, said, value)) return `${header} and the argument differ`;
  }
  return null;
}

function valueAt(args: JsonObject, path: readonly string[]): JsonValue | undefined {
  let value: JsonValue | undefined = args;
  for (const member of path) {
    if (value === undefined || !isJsonObject(value) || !Object.hasOwn(value, member)) {
      return undefined;
    }
    value = value[member];
  }
  return value;
}

function isSame(type: AnnotatedParameter['type'], said: string, value: JsonValue): boolean {
  switch (type) {
    case 'string':
      return said === value;
    case 'boolean':
      return typeof value === 'boolean' && said === String(value);
    case 'integer':
      // By number: 42.0 and 42 are the same ("Server Validation").
      return (
        typeof value === 'number' &&
        Number.isSafeInteger(value) &&
        NUMBER.test(said) &&
        Number(said) === value
      );
  }
}
