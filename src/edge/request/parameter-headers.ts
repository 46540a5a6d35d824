/**
 * Compares the `Mcp-Param-*` headers of a call with its arguments (streamable-http, "Server Behavior for
 * Custom Headers"), so that a client cannot mislead an intermediary that routes on a header.
 */
import type { AnnotatedParameter } from '../../protocol/translate/header-annotations.ts';
import { isJsonObject, type JsonObject, type JsonValue, numberOf } from '../../protocol/json.ts';
import { decodeHeaderValue, readHeader } from '../http/header-fields.ts';

const NUMBER = /^-?\d{1,16}(?:\.0{1,16})?$/;
/** Visible ASCII, space and tab. Everything else must be Base64 ("Value Encoding"). */
const PLAIN = /^[\t\x20-\x7e]*$/;

/**
 * Finds the first header that does not match its argument.
 * @param parameters those that the schema of the tool annotates
 * @param args the arguments of the call
 * @param rawHeaders names and values alternating, as in `IncomingMessage.rawHeaders`
 * @returns the problem in one line, or `null`
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
    if (field.type === 'repeated') return `Duplicate ${header} header`;
    const isExpected = value !== undefined && value !== null;
    if (field.type === 'absent') {
      if (isExpected) return `${header} is missing, although the argument is present`;
      continue;
    }
    if (!isExpected) return `${header} is present, although the argument is missing`;
    if (!PLAIN.test(field.value)) return `${header} has characters that must be encoded`;
    const text = decodeHeaderValue(field.value);
    if (text === null) return `${header} is not valid Base64`;
    if (!isSame(parameter.type, text, value)) return `${header} differs from the argument`;
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

function isSame(type: AnnotatedParameter['type'], text: string, value: JsonValue): boolean {
  switch (type) {
    case 'string':
      return text === value;
    case 'boolean':
      return typeof value === 'boolean' && text === String(value);
    case 'integer':
      // Compared as numbers: 42.0 and 42 are the same ("Server Validation").
      return (
        Number.isSafeInteger(numberOf(value)) &&
        NUMBER.test(text) &&
        Number(text) === numberOf(value)
      );
  }
}
