/**
 * `x-mcp-header`: the parameters of a tool that a client repeats in HTTP headers (server/tools,
 * "x-mcp-header"). One invalid annotation makes a client drop the whole tool.
 */
import { isJsonObject, objectMember, type JsonObject, type JsonValue } from '../json.ts';

/** A parameter that a client repeats in the header `Mcp-Param-<name>`. */
export interface AnnotatedParameter {
  readonly name: string;
  readonly type: 'string' | 'integer' | 'boolean';
  /** The path to its value in the arguments. */
  readonly path: readonly string[];
}

const KEYWORD = 'x-mcp-header';
const TOKEN = /^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/;
const TYPES: ReadonlySet<unknown> = new Set(['string', 'integer', 'boolean']);
/** Keywords whose values are data, not schemas. */
export const NOT_SCHEMAS: ReadonlySet<string> = new Set(['enum', 'const', 'default', 'examples']);
/** Keywords that map names to schemas. The names are not keywords. */
export const NAMED_SCHEMAS: ReadonlySet<string> = new Set([
  'properties',
  'patternProperties',
  '$defs',
  'definitions',
  'dependentSchemas',
]);

/** Reads the annotated parameters of a tool's `inputSchema`. @returns `null` if an annotation is invalid */
export function annotatedParameters(inputSchema: JsonObject): readonly AnnotatedParameter[] | null {
  const found: AnnotatedParameter[] = [];
  if (!collect(inputSchema, [], found)) return null;
  const names = new Set(found.map(({ name }) => name.toLowerCase()));
  const all = found.length === countAnnotations(inputSchema);
  return all && names.size === found.length ? found : null;
}

/** Copies a schema without its annotations. */
export function withoutHeaderAnnotations(schema: JsonObject): JsonObject {
  const entries = Object.entries(schema)
    .filter(([keyword]) => keyword !== KEYWORD)
    .map(([keyword, value]): [string, JsonValue] => [
      keyword,
      NOT_SCHEMAS.has(keyword) ? value : withoutAnnotationsIn(keyword, value),
    ]);
  return Object.fromEntries(entries);
}

function withoutAnnotationsIn(keyword: string, value: JsonValue): JsonValue {
  if (NAMED_SCHEMAS.has(keyword) && isJsonObject(value)) {
    return Object.fromEntries(
      Object.entries(value).map(([name, schema]) => [name, withoutAnnotationsOf(schema)]),
    );
  }
  return Array.isArray(value) ? value.map(withoutAnnotationsOf) : withoutAnnotationsOf(value);
}

function withoutAnnotationsOf(schema: JsonValue): JsonValue {
  return isJsonObject(schema) ? withoutHeaderAnnotations(schema) : schema;
}

/** Follows chains of `properties`. @returns false at the first invalid annotation */
function collect(
  schema: JsonObject,
  path: readonly string[],
  found: AnnotatedParameter[],
): boolean {
  return Object.entries(objectMember(schema, 'properties') ?? {}).every(([member, property]) => {
    if (!isJsonObject(property)) return true;
    const here = [...path, member];
    if (Object.hasOwn(property, KEYWORD)) {
      const { [KEYWORD]: name, type } = property;
      if (typeof name !== 'string' || !TOKEN.test(name) || !isType(type)) return false;
      found.push({ name, type, path: here });
    }
    return collect(property, here, found);
  });
}

function isType(type: unknown): type is AnnotatedParameter['type'] {
  return TYPES.has(type);
}

/** Counts annotations anywhere in a schema: those that no chain of `properties` reaches are invalid. */
function countAnnotations(schema: JsonObject): number {
  return Object.entries(schema).reduce((sum, [keyword, value]) => {
    if (keyword === KEYWORD) return sum + 1;
    if (NOT_SCHEMAS.has(keyword)) return sum;
    const inner =
      NAMED_SCHEMAS.has(keyword) && isJsonObject(value) ? Object.values(value) : [value].flat();
    const schemas = inner.filter((one): one is JsonObject => isJsonObject(one));
    return schemas.reduce((more, one) => more + countAnnotations(one), sum);
  }, 0);
}
