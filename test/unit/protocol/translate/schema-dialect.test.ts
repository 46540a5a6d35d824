/** Which schemas of an older dialect mean the same without its name, and that nothing else changes. */
import { Ajv } from 'ajv';
import { Ajv2019 } from 'ajv/dist/2019.js';
import { Ajv2020 } from 'ajv/dist/2020.js';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../../../src/protocol/json.ts';
import {
  compatibleSchema,
  dialectOutcome,
} from '../../../../src/protocol/translate/schema-dialect.ts';

const DRAFT_06 = 'http://json-schema.org/draft-06/schema#';
const DRAFT_07 = 'http://json-schema.org/draft-07/schema#';
const DRAFT_2019 = 'https://json-schema.org/draft/2019-09/schema';
const OLDER = [DRAFT_06, DRAFT_07, DRAFT_2019];

const ORDINARY: JsonObject = {
  type: 'object',
  properties: {
    items: { type: 'array', items: { $ref: '#/definitions/item' } },
    $ref: { type: 'string' },
    $schema: { type: 'string', enum: ['dependencies'] },
    dependencies: { anyOf: [{ type: 'integer' }, { const: { $id: 'data', items: [] } }] },
  },
  patternProperties: { '^additionalItems$': { default: { prefixItems: [] } } },
  required: ['items'],
  additionalProperties: false,
  definitions: { item: { not: { type: 'null' } }, 'a/b %': { examples: [{ $anchor: 'x' }] } },
};

// Rule lists-9: With `tools.schemas: compatible`, tool schemas lose the `$schema` of draft-06, draft-07 and 2019-09
// if they mean the same in 2020-12.
describe('a schema whose keywords mean the same in 2020-12', () => {
  test.each([...OLDER, 'https://json-schema.org/draft-07/schema'])('loses %s', ($schema) => {
    expect(compatibleSchema({ ...ORDINARY, $schema })).toEqual(ORDINARY);
  });

  test.each([
    undefined,
    'https://json-schema.org/draft/2020-12/schema',
    'http://json-schema.org/draft-04/schema#',
    'https://example.com/draft-07/schema',
    7,
  ])('keeps %s', ($schema) => {
    const schema = { ...ORDINARY, ...($schema === undefined ? {} : { $schema }) };
    expect(compatibleSchema(schema)).toBe(schema);
    expect(dialectOutcome(schema)).toBe('none');
  });

  test.each([{ if: {} }, { then: false }, { else: {} }])(
    'of draft-07 is not one of draft-06 with %j, which that ignores',
    (keyword) => {
      expect(dialectOutcome({ $schema: DRAFT_07, ...keyword })).toBe('taken-off');
      expect(dialectOutcome({ $schema: DRAFT_06, ...keyword })).toBe('left');
    },
  );

  test.each([
    { unevaluatedProperties: false },
    { dependentRequired: { a: ['b'] } },
    { dependentSchemas: { a: {} } },
    { contains: {}, minContains: 2 },
    { contains: {}, maxContains: 2 },
    { $anchor: 'here' },
  ])('of 2019-09 is not one of draft-07 with %j, which that ignores', (keyword) => {
    expect(dialectOutcome({ $schema: DRAFT_2019, ...keyword })).toBe('taken-off');
    expect(dialectOutcome({ $schema: DRAFT_07, ...keyword })).toBe('left');
  });

  test('can refer to itself', () => {
    const properties = { child: { $ref: '#' }, other: { $ref: '#/properties/child' } };
    expect(dialectOutcome({ $schema: DRAFT_07, properties })).toBe('taken-off');
  });
});

// Rule lists-9.
describe.each(OLDER)('a schema of %s is left as it is', ($schema) => {
  const REFUSED: JsonObject[] = [
    { items: [{ type: 'string' }] },
    { additionalItems: false },
    { dependencies: { a: ['b'] } },
    { $recursiveRef: '#' },
    { $recursiveAnchor: true },
    { $id: 'https://example.com/s' },
    { $schema: DRAFT_07 },
    { $ref: '#/definitions/item', description: 'beside' },
    { $ref: 'https://example.com/s' },
    { $ref: '#named' },
    { $ref: '#/definitions/missing' },
    { $ref: '#/definitions/%zz' },
    { prefixItems: [] },
    { unevaluatedItems: false },
    { $dynamicRef: '#a' },
    { $dynamicAnchor: 'a' },
  ];
  const PLACES: Readonly<Record<string, (schema: JsonObject) => JsonObject>> = {
    'in properties': (schema) => ({ properties: { items: schema } }),
    'in items': (schema) => ({ items: { items: schema } }),
    'in anyOf': (schema) => ({ anyOf: [{}, { allOf: [schema] }] }),
    'in definitions': (schema) => ({ definitions: { item: {}, other: schema } }),
    'in $defs': (schema) => ({ $defs: { other: { not: schema } } }),
    'in additionalProperties': (schema) => ({ additionalProperties: schema }),
    'where only a reference leads': (schema) => ({
      properties: { a: { $ref: '#/x-shared/a~1b' } },
      'x-shared': { 'a/b': schema },
    }),
  };

  test.each(REFUSED)('with %j at any place', (refused) => {
    const places = refused['$schema'] === undefined ? [refused] : [];
    for (const place of Object.values(PLACES)) places.push(place(refused));
    for (const body of places) {
      const schema = { definitions: { item: {} }, ...body, $schema };
      expect(dialectOutcome(schema), JSON.stringify(body)).toBe('left');
      expect(compatibleSchema(schema)).toBe(schema);
    }
  });
});

// Any keyword of any dialect, with names of keywords as data and as names of properties.
const NAMES = ['a', 'items', '$ref', '$schema', 'dependencies', 'prefixItems'];
const data = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    fc.constantFrom<unknown>(null, true, 0, 1, 'a', 'items'),
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom(...NAMES), tie('value'), { maxKeys: 3, noNullPrototype: true }),
  ),
})).value;
/** @param refused whether keywords that no schema keeps its meaning with are among them */
const schemasOf = (refused: boolean) =>
  fc.letrec<{ schema: unknown; object: Record<string, unknown> }>((tie) => {
    const schema = tie('schema');
    const list = fc.array(schema, { minLength: 1, maxLength: 3 });
    const named = fc.dictionary(fc.constantFrom(...NAMES), schema, { maxKeys: 3 });
    const kept = {
      type: fc.constantFrom('object', 'array', 'string', 'integer'),
      properties: named,
      required: fc.uniqueArray(fc.constantFrom(...NAMES), { maxLength: 2 }),
      items: refused ? fc.oneof(schema, list) : schema,
      contains: schema,
      additionalProperties: schema,
      anyOf: list,
      not: schema,
      if: schema,
      then: schema,
      const: data,
      minItems: fc.nat(2),
      definitions: named,
    };
    const others = {
      additionalItems: schema,
      prefixItems: list,
      dependencies: named,
      dependentSchemas: named,
      $ref: fc.constantFrom('#', '#/definitions/a', '#/properties/items'),
    };
    const keywords = refused ? { ...kept, ...others } : kept;
    return {
      schema: fc.oneof({ maxDepth: 4 }, fc.boolean(), fc.constant({}), tie('object')),
      object: fc.record(keywords, { requiredKeys: [] }),
    };
  }).object;
const schemas = fc.oneof(schemasOf(false), schemasOf(true));

/** @returns whether it takes each of the values; `null` if it is no schema for this validator */
function verdicts(ajv: { compile: Ajv['compile'] }, schema: object, values: readonly unknown[]) {
  let validate;
  try {
    validate = ajv.compile(schema);
  } catch {
    return null;
  }
  return values.map((value) => validate(value));
}

// Rule lists-9.
test.each([
  [DRAFT_07, Ajv],
  [DRAFT_2019, Ajv2019],
])('a schema of %s that loses its name takes the same values as before', ($schema, Older) => {
  const options = { strict: false, logger: false, addUsedSchema: false } as const;
  const [older, newest] = [new Older(options), new Ajv2020(options)];
  // Ajv 8 tracks what is evaluated for `unevaluated*` alone, which no schema here has; the code that it generates for
  // that throws a ReferenceError at, for one, {"anyOf": [{"if": {}, "then": {"additionalProperties": {}}, "not": {}}]}.
  for (const ajv of [older, newest]) ajv.opts.unevaluated = false;
  let same = 0;
  fc.assert(
    fc.property(schemas, fc.array(data, { minLength: 1, maxLength: 5 }), (body, values) => {
      const schema = { ...body, $schema } as JsonObject;
      const compatible = compatibleSchema(schema);
      if (compatible === schema) return;
      expect(compatible).toEqual(body);
      const before = verdicts(older, schema, values);
      if (before === null) return;
      same += 1;
      expect(verdicts(newest, compatible, values)).toEqual(before);
    }),
    { numRuns: 200 },
  );
  expect(same).toBeGreaterThan(20);
});

// Rule lists-9.
test('of any schema nothing but the name at its root is taken off', () => {
  fc.assert(
    fc.property(schemas, fc.constantFrom(...OLDER), (body, $schema) => {
      const before = structuredClone({ ...body, $schema });
      const schema = { ...body, $schema } as JsonObject;
      const { $schema: kept = $schema, ...rest } = compatibleSchema(schema);
      expect({ ...rest, $schema: kept }).toEqual(before);
      expect(schema).toEqual(before);
    }),
  );
});
