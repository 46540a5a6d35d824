/**
 * Makes the JSON Schema of a Helm chart's values from its values.yaml: types and defaults from the values, descriptions from
 * the comments that helm-docs reads (`# -- ...`), and what else a value must be from lines `# @schema {...}`.
 */
import { parse } from 'yaml';
import type { JsonObject, JsonValue } from '../src/protocol/json.ts';
import { isJsonObject } from '../src/protocol/json.ts';

interface Comment {
  readonly description: string;
  readonly schema: JsonObject;
}

const NONE: Comment = { description: '', schema: {} };
const KEY = /^( *)([A-Za-z]+):/;
const COMMENT = /^ *# ?(.*)$/;
const SCHEMA = '@schema ';
const DESCRIPTION = '-- ';

/** @param text values.yaml, with blocks indented by two blanks, as Prettier formats it */
export function valuesSchema(text: string): JsonObject {
  const values = parse(text) as JsonObject;
  const { properties, ...root } = schemaOf(values, '', commentsOf(text));
  return {
    $schema: 'http://json-schema.org/draft-07/schema#',
    ...root,
    // Helm adds it to the values of each chart.
    properties: { global: { type: 'object' }, ...(properties as JsonObject) },
  };
}

function schemaOf(value: JsonValue, path: string, comments: ReadonlyMap<string, Comment>) {
  const { description, schema } = comments.get(path) ?? NONE;
  return {
    ...(description === '' ? {} : { description }),
    ...typeOf(value, path, comments),
    ...schema,
  } as JsonObject;
}

function typeOf(
  value: JsonValue,
  path: string,
  comments: ReadonlyMap<string, Comment>,
): JsonObject {
  if (!isJsonObject(value)) return { type: Array.isArray(value) ? 'array' : scalarType(value) };
  const entries = Object.entries(value);
  // A map that is empty by default takes any keys.
  if (entries.length === 0) return { type: 'object' };
  const properties = entries.map(([key, member]) => [
    key,
    schemaOf(member, path === '' ? key : `${path}.${key}`, comments),
  ]);
  return {
    type: 'object',
    additionalProperties: false,
    properties: Object.fromEntries(properties) as JsonObject,
  };
}

function scalarType(value: JsonValue): string {
  return typeof value === 'number' ? 'integer' : typeof value === 'object' ? 'null' : typeof value;
}

/** The comments directly above keys, by the path of the key. */
function commentsOf(text: string): ReadonlyMap<string, Comment> {
  const found = new Map<string, Comment>();
  const path: string[] = [];
  let lines: string[] = [];
  for (const line of text.split('\n')) {
    const [, comment] = COMMENT.exec(line) ?? [];
    const [, indent = '', key] = KEY.exec(line) ?? [];
    if (key !== undefined) {
      path.splice(indent.length / 2, path.length, key);
      found.set(path.join('.'), readComment(lines));
    }
    lines = comment === undefined ? [] : [...lines, comment];
  }
  return found;
}

function readComment(lines: readonly string[]): Comment {
  const schema = lines.find((line) => line.startsWith(SCHEMA))?.slice(SCHEMA.length) ?? '{}';
  const from = lines.findIndex((line) => line.startsWith(DESCRIPTION));
  const described = from < 0 ? [] : lines.slice(from).filter((line) => !line.startsWith(SCHEMA));
  return {
    description: described.join(' ').slice(DESCRIPTION.length),
    schema: JSON.parse(schema) as JsonObject,
  };
}
