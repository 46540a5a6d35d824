/**
 * Takes the name of an older dialect off the schema of a tool (`tools.schemas: compatible`). Without `$schema` a schema is one of
 * 2020-12 (basic/index, "JSON Schema Usage"), and some clients drop a tool, or all, that names another one. It is taken off only where
 * each keyword means the same in 2020-12. What is no keyword is judged by its place: a property can be called `items`.
 */
import { isJsonObject, without, type JsonObject, type JsonValue } from '../json.ts';

type Dialect = 'draft-06' | 'draft-07' | '2019-09';

/**
 * - `none`: the schema names no older dialect
 * - `taken-off`: it means the same without the name
 * - `left`: it can mean something else, so it keeps the name
 */
export type DialectOutcome = 'none' | 'taken-off' | 'left';

const DIALECT = /^https?:\/\/json-schema\.org\/(draft-06|draft-07|draft\/2019-09)\/schema#?$/;

/** Keywords that 2020-12 does not have, or that name the place of a schema or its dialect. */
const NOT_IN_2020_12 = [
  ...['$schema', '$id', '$recursiveRef', '$recursiveAnchor', '$vocabulary'],
  ...['additionalItems', 'dependencies'],
];
/** Keywords that an older dialect ignores, and `unevaluatedItems`, which counted other items in 2019-09. */
const NEW_SINCE_2019_09 = ['prefixItems', '$dynamicRef', '$dynamicAnchor', 'unevaluatedItems'];
const NEW_SINCE_DRAFT_07 = [
  ...NEW_SINCE_2019_09,
  ...['unevaluatedProperties', 'dependentRequired', 'dependentSchemas'],
  ...['minContains', 'maxContains', '$anchor'],
];
const REFUSED: Readonly<Record<Dialect, ReadonlySet<string>>> = {
  'draft-06': new Set([...NOT_IN_2020_12, ...NEW_SINCE_DRAFT_07, 'if', 'then', 'else']),
  'draft-07': new Set([...NOT_IN_2020_12, ...NEW_SINCE_DRAFT_07]),
  '2019-09': new Set([...NOT_IN_2020_12, ...NEW_SINCE_2019_09]),
};

/** Keywords whose values are schemas, lists of schemas, or schemas by their names. */
const SCHEMAS = [
  ...['not', 'if', 'then', 'else', 'items', 'contains', 'additionalProperties', 'propertyNames'],
  ...['unevaluatedProperties', 'contentSchema'],
];
const LISTS = ['allOf', 'anyOf', 'oneOf'];
const NAMED = ['properties', 'patternProperties', 'dependentSchemas', 'definitions', '$defs'];

/** Returns the schema without the name of an older dialect, or as it is. */
export function compatibleSchema(schema: JsonObject): JsonObject {
  return dialectOutcome(schema) === 'taken-off' ? without(schema, ['$schema']) : schema;
}

/** Tells what `compatibleSchema` does with a schema. */
export function dialectOutcome(schema: JsonObject): DialectOutcome {
  const { $schema: named, ...root } = schema;
  const found = typeof named === 'string' ? DIALECT.exec(named)?.[1] : undefined;
  if (found === undefined) return 'none';
  return meansTheSame(root, found.replace('draft/', '') as Dialect) ? 'taken-off' : 'left';
}

/** @param root without the name of its dialect */
function meansTheSame(root: JsonObject, dialect: Dialect): boolean {
  const refused = REFUSED[dialect];
  const seen = new Set<JsonValue>();
  const open: JsonValue[] = [root];
  for (let schema = open.pop(); schema !== undefined; schema = open.pop()) {
    if (!isJsonObject(schema) || seen.has(schema)) continue;
    seen.add(schema);
    const keywords = Object.keys(schema);
    if (keywords.some((keyword) => refused.has(keyword)) || Array.isArray(schema['items'])) {
      return false;
    }
    const { $ref } = schema;
    if ($ref !== undefined) {
      // What stands beside it was ignored up to draft-07.
      const target = keywords.length > 1 ? undefined : targetOf($ref, root);
      if (target === undefined) return false;
      open.push(target);
    }
    open.push(...subschemas(schema));
  }
  return true;
}

function subschemas(schema: JsonObject): JsonValue[] {
  const within = (keyword: string) => (Object.hasOwn(schema, keyword) ? schema[keyword] : null);
  return [
    ...SCHEMAS.map((keyword) => within(keyword) ?? null),
    ...LISTS.flatMap((keyword) => within(keyword) ?? null),
    ...NAMED.flatMap((keyword) => {
      const named = within(keyword);
      return isJsonObject(named) ? Object.values(named) : [];
    }),
  ];
}

/** Follows a JSON pointer, which can lead to what is no schema by its place. @returns `undefined` for any other reference */
function targetOf(reference: JsonValue, root: JsonObject): JsonValue | undefined {
  if (typeof reference !== 'string' || !/^#(?:\/|$)/.test(reference)) return undefined;
  let at: JsonValue | undefined = root;
  for (const written of reference.split('/').slice(1)) {
    if (typeof at !== 'object' || at === null) return undefined;
    const name = unescaped(written);
    if (name === null || !Object.hasOwn(at, name)) return undefined;
    at = (at as JsonObject)[name];
  }
  return at;
}

/** @returns `null` if what is percent-encoded is no text */
function unescaped(written: string): string | null {
  try {
    return decodeURIComponent(written).replaceAll('~1', '/').replaceAll('~0', '~');
  } catch {
    return null;
  }
}
