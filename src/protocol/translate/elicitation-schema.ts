/**
 * Rewrites elicitation schemas of real servers for strict clients: the modern schema is flat, with strings,
 * numbers, booleans and choices (elicitation, "Requested Schema"). The answer is translated back, so that the
 * server gets what it asked for.
 */
import {
  isJsonInteger,
  isJsonNumber,
  isJsonObject,
  objectMember,
  type ExactNumber,
  type JsonObject,
  type JsonValue,
} from '../json.ts';

/** Translates one property of the answer back to the server's schema. */
export interface PropertyInverse {
  /** The server requires the property and allows `null`: it gets `null` if the user leaves it out. */
  readonly nullWhenMissing: boolean;
  readonly value:
    | { readonly type: 'same' }
    /** Not asked: the schema allows only this value. */
    | { readonly type: 'constant'; readonly value: JsonValue }
    /** Asked as text. The choices are the numbers that the texts stand for. */
    | { readonly type: 'number'; readonly choices: readonly (number | ExactNumber)[] }
    /** Asked as one line. The server expects a list of strings. */
    | { readonly type: 'list' };
}

export type SchemaInverse = ReadonlyMap<string, PropertyInverse>;

export type NormalisedSchema =
  | { readonly type: 'fit'; readonly schema: JsonObject; readonly inverse: SchemaInverse }
  /** `problem` names the property and what is wrong with it. */
  | { readonly type: 'unfit'; readonly problem: string };

type Property =
  | { readonly type: 'asked'; readonly schema: JsonObject; readonly inverse: PropertyInverse }
  | { readonly type: 'filled'; readonly inverse: PropertyInverse }
  | { readonly type: 'unfit'; readonly problem: string };

const ANNOTATIONS = ['title', 'description', 'default'] as const;
const FORMATS: readonly JsonValue[] = ['email', 'uri', 'date', 'date-time'];
/** Form mode must not ask for secrets (elicitation, "Safe URL Handling" and its warnings). */
const SECRET_FORMATS: readonly JsonValue[] = ['password', 'secret', 'credit-card'];
const LIST_HINT = 'Comma-separated list';
const SAME: PropertyInverse = { nullWhenMissing: false, value: { type: 'same' } };
const MAX_REFERENCES = 8;

/**
 * Rewrites a schema for a strict client.
 * @param requestedSchema of the server; it is not modified
 */
export function normaliseElicitationSchema(requestedSchema: JsonObject): NormalisedSchema {
  const properties = objectMember(requestedSchema, 'properties') ?? {};
  const required = requiredNames(requestedSchema);
  const kept: [string, JsonObject][] = [];
  const inverse = new Map<string, PropertyInverse>();
  for (const [name, definition] of Object.entries(properties)) {
    const property = normaliseProperty(definition, required.has(name), requestedSchema);
    if (property.type === 'unfit') {
      return { type: 'unfit', problem: `property "${name}": ${property.problem}` };
    }
    if (property.inverse !== SAME) inverse.set(name, property.inverse);
    if (property.type === 'asked') kept.push([name, property.schema]);
  }
  const stillRequired = kept
    .map(([name]) => name)
    .filter((name) => required.has(name) && inverse.get(name)?.nullWhenMissing !== true);
  const { $schema } = requestedSchema;
  return {
    type: 'fit',
    schema: {
      ...(typeof $schema === 'string' ? { $schema } : {}),
      type: 'object',
      properties: Object.fromEntries(kept),
      ...(stillRequired.length > 0 ? { required: stillRequired } : {}),
    },
    inverse,
  };
}

/** Translates the content of an answer back to the server's schema. */
export function restoreContent(content: JsonObject, inverse: SchemaInverse): JsonObject {
  const restored = new Map<string, JsonValue>(Object.entries(content));
  for (const [name, { nullWhenMissing, value }] of inverse) {
    const given = restored.get(name);
    if (value.type === 'constant') restored.set(name, value.value);
    else if (given === undefined) {
      if (nullWhenMissing) restored.set(name, null);
    } else if (typeof given === 'string') restored.set(name, restoreText(given, value));
  }
  return Object.fromEntries(restored);
}

function restoreText(given: string, value: PropertyInverse['value']): JsonValue {
  switch (value.type) {
    case 'number':
      return value.choices.find((choice) => JSON.stringify(choice) === given) ?? given;
    case 'list':
      return given
        .split(',')
        .map((item) => item.trim())
        .filter((item) => item !== '');
    default:
      return given;
  }
}

function requiredNames(schema: JsonObject): Set<string> {
  const { required } = schema;
  if (!Array.isArray(required)) return new Set();
  return new Set(required.filter((name) => typeof name === 'string'));
}

function normaliseProperty(definition: JsonValue, required: boolean, root: JsonObject): Property {
  const resolved = resolve(definition, root);
  if (resolved === null) return { type: 'unfit', problem: 'expected a schema' };
  const { schema, nullable } = withoutNull(resolved, root);
  const property = primitive(schema);
  if (property.type !== 'asked' || !nullable) return property;
  const { default: preset, ...rest } = property.schema;
  return {
    type: 'asked',
    schema: preset === undefined || preset === null ? rest : property.schema,
    inverse: { ...property.inverse, nullWhenMissing: required },
  };
}

/** Follows references to definitions in the same schema. Others are never fetched. */
function resolve(definition: JsonValue, root: JsonObject): JsonObject | null {
  let schema = definition;
  for (let followed = 0; followed <= MAX_REFERENCES; followed += 1) {
    if (!isJsonObject(schema)) return null;
    const { $ref, ...beside } = schema;
    if ($ref === undefined) return schema;
    const target = typeof $ref === 'string' ? definitionAt($ref, root) : undefined;
    if (target === undefined) return null;
    schema = { ...target, ...beside };
  }
  return null;
}

function definitionAt(reference: string, root: JsonObject): JsonObject | undefined {
  const [, group, name] = /^#\/(\$defs|definitions)\/([^/]+)$/.exec(reference) ?? [];
  if (group === undefined || name === undefined) return undefined;
  return objectMember(objectMember(root, group) ?? {}, name);
}

function withoutNull(
  schema: JsonObject,
  root: JsonObject,
): { schema: JsonObject; nullable: boolean } {
  if (Array.isArray(schema['type'])) {
    const types = schema['type'].filter((type) => type !== 'null');
    const nullable = types.length < schema['type'].length && !excludesNull(schema);
    const [only] = types;
    if (types.length === 1 && only !== undefined) {
      const rest = Array.isArray(schema['enum'])
        ? { ...schema, enum: schema['enum'].filter((value) => value !== null) }
        : schema;
      return { schema: { ...rest, type: only }, nullable };
    }
  }
  for (const union of ['anyOf', 'oneOf']) {
    const { [union]: alternatives, ...beside } = schema;
    if (!Array.isArray(alternatives)) continue;
    const others = alternatives.filter((one) => !(isJsonObject(one) && one['type'] === 'null'));
    if (others.length !== 1 || others.length === alternatives.length) continue;
    const inner = resolve(others[0] ?? null, root);
    if (inner !== null) return { schema: { ...inner, ...beside }, nullable: true };
  }
  return { schema, nullable: false };
}

/** Tells whether a schema lists its values without `null`, whatever its list of types says. */
function excludesNull(schema: JsonObject): boolean {
  const { enum: choices } = schema;
  if (Array.isArray(choices)) return !choices.includes(null);
  return ['const', 'oneOf', 'anyOf'].some((keyword) => Object.hasOwn(schema, keyword));
}

function primitive(schema: JsonObject): Property {
  if (Object.hasOwn(schema, 'const')) return constant(schema);
  const choices = schema['enum'];
  if (Array.isArray(choices) && choices.length > 0 && choices.every(isJsonNumber)) {
    return numberChoice(schema, choices);
  }
  const type = schema['type'] ?? (isTextList(choices) || isTitled(schema['oneOf']) ? 'string' : '');
  switch (type) {
    case 'string':
      return text(schema);
    case 'number':
    case 'integer':
      return asked(type, schema, [...ANNOTATIONS, 'minimum', 'maximum']);
    case 'boolean':
      return asked(type, schema, ANNOTATIONS);
    case 'array':
      return list(schema);
    default:
      return { type: 'unfit', problem: 'only strings, numbers, booleans and enums are supported' };
  }
}

function constant(schema: JsonObject): Property {
  const value = schema['const'];
  if (typeof value === 'string') {
    return asked('string', { ...schema, enum: [value] }, [...ANNOTATIONS, 'enum']);
  }
  return {
    type: 'filled',
    inverse: { nullWhenMissing: false, value: { type: 'constant', value: value ?? null } },
  };
}

function text(schema: JsonObject): Property {
  if (isTextList(schema['enum'])) {
    return asked('string', schema, [...ANNOTATIONS, 'enum', 'enumNames']);
  }
  if (schema['enum'] !== undefined)
    return { type: 'unfit', problem: '"enum" must be a list of strings' };
  const titled = titledChoice(schema['oneOf'] ?? schema['anyOf']);
  if (titled !== null) {
    return asked('string', { ...schema, oneOf: titled }, [...ANNOTATIONS, 'oneOf']);
  }
  const { format } = schema;
  if (format !== undefined && SECRET_FORMATS.includes(format)) {
    return { type: 'unfit', problem: 'a form must not ask for secrets' };
  }
  const keywords = [...ANNOTATIONS, 'minLength', 'maxLength'];
  const known = format !== undefined && FORMATS.includes(format);
  return asked('string', schema, known ? [...keywords, 'format'] : keywords);
}

function numberChoice(schema: JsonObject, choices: readonly (number | ExactNumber)[]): Property {
  const shown: JsonObject = { ...schema, enum: choices.map((choice) => JSON.stringify(choice)) };
  const { default: preset } = schema;
  if (isJsonNumber(preset)) shown['default'] = JSON.stringify(preset);
  const property = asked('string', shown, [...ANNOTATIONS, 'enum', 'enumNames']);
  return { ...property, inverse: { nullWhenMissing: false, value: { type: 'number', choices } } };
}

function list(schema: JsonObject): Property {
  const items = objectMember(schema, 'items') ?? {};
  const keywords = [...ANNOTATIONS, 'items', 'minItems', 'maxItems'];
  if (isTextList(items['enum'])) {
    const choices = { type: 'string', enum: items['enum'] };
    return asked('array', { ...schema, items: choices }, keywords);
  }
  const titled = titledChoice(items['anyOf'] ?? items['oneOf']);
  if (titled !== null) return asked('array', { ...schema, items: { anyOf: titled } }, keywords);
  if (items['type'] !== 'string' || items['enum'] !== undefined) {
    return { type: 'unfit', problem: 'an array must contain strings' };
  }
  const { description } = schema;
  const line: JsonObject = {
    title: schema['title'] ?? null,
    description: typeof description === 'string' ? `${description} (${LIST_HINT})` : LIST_HINT,
  };
  const preset = schema['default'];
  if (isTextList(preset)) line['default'] = preset.join(', ');
  const property = asked('string', line, ANNOTATIONS);
  return { ...property, inverse: { nullWhenMissing: false, value: { type: 'list' } } };
}

/** Builds a property with the keywords that the specification allows for its type. Others are dropped. */
function asked(
  type: string,
  schema: JsonObject,
  keywords: readonly string[],
): { readonly type: 'asked'; readonly schema: JsonObject; readonly inverse: PropertyInverse } {
  const kept: JsonObject = { type };
  for (const keyword of keywords) {
    const value = schema[keyword];
    if (value !== undefined && fits(keyword, type, value)) kept[keyword] = value;
  }
  return { type: 'asked', schema: kept, inverse: SAME };
}

type ValueCheck = (value: JsonValue) => boolean;
const isText: ValueCheck = (value) => typeof value === 'string';
const isTexts: ValueCheck = (value) => Array.isArray(value) && value.every(isText);

/** The type of each keyword, where it is not that of any JSON value. */
const KEYWORDS: Readonly<Record<string, ValueCheck>> = {
  minimum: isJsonNumber,
  maximum: isJsonNumber,
  minLength: isJsonInteger,
  maxLength: isJsonInteger,
  minItems: isJsonInteger,
  maxItems: isJsonInteger,
  enumNames: isTexts,
  title: isText,
  description: isText,
};
/** The same for `default`, by the type of its property. */
const DEFAULTS: Readonly<Record<string, ValueCheck>> = {
  number: isJsonNumber,
  integer: isJsonNumber,
  boolean: (value) => typeof value === 'boolean',
  array: isTexts,
  string: isText,
};

/** Checks the type of a keyword: older revisions do not define it, and a strict client fails on a wrong one. */
function fits(keyword: string, type: string, value: JsonValue): boolean {
  const check = keyword === 'default' ? DEFAULTS[type] : KEYWORDS[keyword];
  return check === undefined || check(value);
}

function titledChoice(alternatives: JsonValue | undefined): JsonObject[] | null {
  if (!isTitled(alternatives)) return null;
  return alternatives.map((alternative) => {
    const { title } = alternative;
    const value = alternative['const'] ?? '';
    return { const: value, title: typeof title === 'string' ? title : value };
  });
}

function isTitled(value: JsonValue | undefined): value is JsonObject[] {
  return (
    Array.isArray(value) &&
    value.length > 0 &&
    value.every((one) => isJsonObject(one) && typeof one['const'] === 'string')
  );
}

function isTextList(value: JsonValue | undefined): value is string[] {
  return (
    Array.isArray(value) && value.length > 0 && value.every((item) => typeof item === 'string')
  );
}
