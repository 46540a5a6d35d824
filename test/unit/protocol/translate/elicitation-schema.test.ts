import { Ajv } from 'ajv';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  normaliseElicitationSchema,
  restoreContent,
  type NormalisedSchema,
} from '../../../../src/protocol/translate/elicitation-schema.ts';
import type { JsonObject, JsonValue } from '../../../../src/protocol/json.ts';
import {
  contentFor,
  elicitationSchemas,
  liberalElicitationSchema,
} from '../../../fixtures/arbitrary/elicitation.ts';
import { objectsOf } from '../../../fixtures/arbitrary/json.ts';
import { schemaProblems } from '../../../fixtures/wire/official-schema.ts';

type Representable = Extract<NormalisedSchema, { type: 'fit' }>;

function shown(requested: JsonObject): Representable {
  const normalised = normaliseElicitationSchema(requested);
  if (normalised.type === 'unfit') throw new Error(normalised.problem);
  return normalised;
}

/** A schema of one property, `value`. */
function one(definition: JsonValue, more: JsonObject = {}): JsonObject {
  return { type: 'object', properties: { value: definition }, ...more };
}

/** What the client sees of that property. */
function shownProperty(definition: JsonValue, more: JsonObject = {}): JsonValue | undefined {
  return (shown(one(definition, more)).schema['properties'] as JsonObject)['value'];
}

/** What the server gets for that property when the client answers `given`. */
function answered(definition: JsonValue, given: JsonValue, more: JsonObject = {}): JsonObject {
  return restoreContent({ value: given }, shown(one(definition, more)).inverse);
}

function problemOf(definition: JsonValue, more: JsonObject = {}): string {
  const normalised = normaliseElicitationSchema(one(definition, more));
  return normalised.type === 'fit' ? 'none' : normalised.problem;
}

function problemsForClient(schema: JsonObject): string[] {
  const params = { message: 'm', mode: 'form', requestedSchema: schema };
  const request = { method: 'elicitation/create', params };
  const result = { resultType: 'input_required', inputRequests: { a: request } };
  return schemaProblems('2026-07-28', 'to-client', { jsonrpc: '2.0', id: 1, result }, 'tools/call');
}

// Rule forms-1.
describe('a schema that the specification allows', () => {
  test.each([
    { type: 'string', title: 'T', description: 'D', minLength: 1, maxLength: 9, default: 'd' },
    { type: 'string', format: 'email' },
    { type: 'string', format: 'uri' },
    { type: 'string', format: 'date' },
    { type: 'string', format: 'date-time' },
    { type: 'number', minimum: 0.5, maximum: 9.5, default: 1.5 },
    { type: 'integer', minimum: 0, maximum: 9, default: 0 },
    { type: 'boolean', default: false },
    { type: 'string', enum: ['a', 'b'], enumNames: ['A', 'B'], default: 'b' },
    { type: 'string', oneOf: [{ const: 'a', title: 'A' }], default: 'a' },
    { type: 'array', items: { type: 'string', enum: ['a', 'b'] }, minItems: 0, maxItems: 2 },
    { type: 'array', items: { anyOf: [{ const: 'a', title: 'A' }] }, default: ['a'] },
  ])('is shown as it is: %j', (definition) => {
    expect(shownProperty(definition)).toEqual(definition);
    expect(shown(one(definition)).inverse.size).toBe(0);
  });

  test('keeps its dialect, and which properties are required', () => {
    const requested = {
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      type: 'object',
      properties: { b: { type: 'string' }, a: { type: 'boolean' } },
      required: ['a', 'b'],
    };
    expect(shown(requested).schema).toEqual({ ...requested, required: ['b', 'a'] });
  });

  test('keeps its properties in the order of the server', () => {
    const requested = { properties: { z: { type: 'string' }, a: { type: 'string' } } };
    expect(Object.keys(shown(requested).schema['properties'] as JsonObject)).toEqual(['z', 'a']);
  });

  test.each(['2025-06-18', '2025-11-25'] as const)(
    'of %s is shown unchanged and its answer goes back unchanged, whatever it is',
    (revision) => {
      fc.assert(
        fc.property(
          elicitationSchemas[revision].chain((requested) =>
            contentFor(requested).map((content) => ({ requested, content })),
          ),
          ({ requested, content }) => {
            const { schema, inverse } = shown(requested);
            expect(schema['properties']).toEqual(requested['properties']);
            expect(new Set(schema['required'] as string[])).toEqual(
              new Set(requested['required'] as string[]),
            );
            expect(restoreContent(content, inverse)).toEqual(content);
          },
        ),
      );
    },
  );
});

describe('a property that may be null', () => {
  const unions: JsonValue[] = [
    { anyOf: [{ type: 'string' }, { type: 'null' }], default: null },
    { oneOf: [{ type: 'null' }, { type: 'string' }] },
    { type: ['string', 'null'], default: null },
  ];

  // Rule forms-2 (elicitation, "Requested Schema"): A property that can be `null` is asked as its other type. A
  // required one that is left out goes back as `null`.
  test.each(unions)('is asked as what else it may be, without a null default: %j', (definition) => {
    expect(shownProperty(definition)).toEqual({ type: 'string' });
  });

  // Rule forms-2.
  test.each(unions)('is no longer required, and null when left out: %j', (definition) => {
    const requested = one(definition, { required: ['value'] });
    const { schema, inverse } = shown(requested);
    expect(schema).not.toHaveProperty('required');
    expect(restoreContent({}, inverse)).toEqual({ value: null });
    expect(restoreContent({ value: 'x' }, inverse)).toEqual({ value: 'x' });
  });

  // Rule forms-2.
  test.each(unions)('stays left out when the server did not require it: %j', (definition) => {
    expect(restoreContent({}, shown(one(definition)).inverse)).toEqual({});
  });

  test('keeps title and description that stand beside the union', () => {
    const definition = { title: 'T', anyOf: [{ type: 'integer', minimum: 1 }, { type: 'null' }] };
    expect(shownProperty(definition)).toEqual({ type: 'integer', title: 'T', minimum: 1 });
  });

  test('keeps a default that is not null', () => {
    const definition = { type: ['integer', 'null'], default: 7 };
    expect(shownProperty(definition)).toEqual({ type: 'integer', default: 7 });
  });

  test('keeps its choices, without null among them', () => {
    const definition = { type: ['string', 'null'], enum: ['a', null] };
    expect(shownProperty(definition)).toEqual({ type: 'string', enum: ['a'] });
  });

  test('but has choices of which null is none may not be null after all', () => {
    const definition = { type: ['string', 'null'], enum: ['a'] };
    const { schema } = shown(one(definition, { required: ['value'] }));
    expect(schema['required']).toEqual(['value']);
  });

  test('and whose choices are numbers is asked as text, and null when left out', () => {
    const definition = { anyOf: [{ enum: [1, 2] }, { type: 'null' }] };
    expect(answered(definition, '2', { required: ['value'] })).toEqual({ value: 2 });
    const { inverse } = shown(one(definition, { required: ['value'] }));
    expect(restoreContent({}, inverse)).toEqual({ value: null });
  });
});

describe('a property with one allowed value', () => {
  // Rule forms-3 (elicitation, "Requested Schema"): A property with one allowed text is asked as a choice, and any
  // other constant is filled in. A choice of numbers is asked as texts.
  test('is asked as a choice of one when it is a text', () => {
    expect(shownProperty({ const: 'a', title: 'T' })).toEqual({
      type: 'string',
      title: 'T',
      enum: ['a'],
    });
    expect(answered({ const: 'a' }, 'a')).toEqual({ value: 'a' });
  });

  // Rule forms-3.
  test.each([5, true, null, { a: 1 }, [1]])('is not asked but filled in when it is %j', (value) => {
    const requested = one({ const: value }, { required: ['value'] });
    const { schema, inverse } = shown(requested);
    expect(schema).toEqual({ type: 'object', properties: {} });
    expect(restoreContent({}, inverse)).toEqual({ value });
    expect(restoreContent({ value: 'made up' }, inverse)).toEqual({ value });
  });
});

describe('a choice of numbers', () => {
  // Rule forms-3.
  test('is asked as texts and goes back as the number', () => {
    const definition = { type: 'integer', enum: [10, 20], title: 'T', default: 20 };
    expect(shownProperty(definition)).toEqual({
      type: 'string',
      title: 'T',
      enum: ['10', '20'],
      default: '20',
    });
    expect(answered(definition, '10')).toEqual({ value: 10 });
  });

  test('goes back as it came when the answer is none of them: the server judges it', () => {
    expect(answered({ enum: [1] }, '3')).toEqual({ value: '3' });
    expect(answered({ enum: [1] }, 1)).toEqual({ value: 1 });
  });

  test('gives back each of its numbers exactly, however it is written', () => {
    const numbers = fc.uniqueArray(
      fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => value + 0),
      { minLength: 1, maxLength: 5 },
    );
    fc.assert(
      fc.property(numbers, (choices) => {
        for (const choice of choices) {
          expect(answered({ enum: choices }, String(choice))).toEqual({ value: choice });
        }
      }),
    );
  });
});

describe('a list of free texts', () => {
  const definition = { type: 'array', items: { type: 'string' }, title: 'Tags' };

  // Rule forms-4 (elicitation, "Requested Schema"): A list of free texts is asked as one line.
  test('is asked as one line, which says how to write it', () => {
    expect(shownProperty({ ...definition, description: 'Some', default: ['a', 'b'] })).toEqual({
      type: 'string',
      title: 'Tags',
      description: 'Some (Comma-separated list)',
      default: 'a, b',
    });
    expect(shownProperty({ type: 'array', items: { type: 'string' } })).toEqual({
      type: 'string',
      description: 'Comma-separated list',
    });
  });

  // Rule forms-4.
  test('goes back as a list; spaces and empty items do not count', () => {
    expect(answered(definition, ' a,b c , ,')).toEqual({ value: ['a', 'b c'] });
    expect(answered(definition, '')).toEqual({ value: [] });
  });

  test('goes back as it came when the client gave a list at once', () => {
    expect(answered(definition, ['a, b'])).toEqual({ value: ['a, b'] });
  });

  test('gives back any texts without commas and outer spaces', () => {
    const item = fc.string({ minLength: 1 }).filter((text) => !text.includes(','));
    const items = fc.array(item.map((text) => text.trim()).filter((text) => text !== ''));
    fc.assert(
      fc.property(items, (list) => {
        expect(answered(definition, list.join(', '))).toEqual({ value: list });
      }),
    );
  });
});

describe('what strict clients do not know', () => {
  // Rule forms-5 (elicitation, "Requested Schema"): Unknown keywords and formats are dropped, and references within
  // the schema are resolved.
  test('unknown keywords of a property are dropped', () => {
    const definition = { type: 'number', multipleOf: 2, examples: [2], 'x-a': 1, minimum: 0 };
    expect(shownProperty(definition)).toEqual({ type: 'number', minimum: 0 });
  });

  test('unknown keywords of the schema are dropped, definitions too', () => {
    const more = { additionalProperties: false, title: 'T', $defs: { a: { type: 'string' } } };
    expect(Object.keys(shown(one({ type: 'string' }, more)).schema)).toEqual([
      'type',
      'properties',
    ]);
  });

  // Rule forms-5.
  test('a format that the specification does not name is dropped', () => {
    expect(shownProperty({ type: 'string', format: 'hostname' })).toEqual({ type: 'string' });
  });

  test('null in place of a keyword counts as its absence', () => {
    const definition = { type: 'string', title: null, default: null, description: null };
    expect(shownProperty(definition)).toEqual({ type: 'string' });
  });

  test('a choice with titles may miss its type or a title', () => {
    const definition = { oneOf: [{ const: 'a' }, { const: 'b', title: 'B' }] };
    expect(shownProperty(definition)).toEqual({
      type: 'string',
      oneOf: [
        { const: 'a', title: 'a' },
        { const: 'b', title: 'B' },
      ],
    });
  });

  test.each([
    ['a default of the wrong type', { type: 'string', default: 5 }, { type: 'string' }],
    ['a title that is not a string', { type: 'boolean', title: 5 }, { type: 'boolean' }],
    ['a bound that is no number', { type: 'number', minimum: '1' }, { type: 'number' }],
    ['a length that is no integer', { type: 'string', minLength: 1.5 }, { type: 'string' }],
    [
      'names of choices that are no texts',
      { type: 'string', enum: ['a'], enumNames: [1] },
      { type: 'string', enum: ['a'] },
    ],
  ])('%s is dropped', (_what, definition, expected) => {
    expect(shownProperty(definition)).toEqual(expected);
  });

  // Rule forms-5.
  test.each(['$defs', 'definitions'])('a reference into %s is put in its place', (group) => {
    const definitions = { [group]: { Size: { type: 'integer', minimum: 1, title: 'Size' } } };
    const definition = { $ref: `#/${group}/Size`, title: 'Yours' };
    expect(shownProperty(definition, definitions)).toEqual({
      type: 'integer',
      title: 'Yours',
      minimum: 1,
    });
  });

  test('a reference inside a union with null is followed', () => {
    const definition = { anyOf: [{ $ref: '#/$defs/A' }, { type: 'null' }] };
    const $defs = { A: { type: 'string', enum: ['x'] } };
    expect(shownProperty(definition, { $defs })).toEqual({ type: 'string', enum: ['x'] });
  });
});

// Rule forms-6 (elicitation, "Form Mode Security"): Nested objects, lists of anything but texts, and formats such as
// `password` are refused with -32603 that names the property.
describe('what cannot be asked in a form', () => {
  test.each([
    ['an object', { type: 'object', properties: {} }],
    ['a list of objects', { type: 'array', items: { type: 'object' } }],
    ['a list of numbers', { type: 'array', items: { type: 'number' } }],
    ['a union of two kinds', { anyOf: [{ type: 'string' }, { type: 'number' }] }],
    ['a union of two kinds and null', { type: ['string', 'number', 'null'] }],
    ['mixed choices', { type: 'string', enum: ['a', 1] }],
    ['no type at all', {}],
    ['no schema', true],
    ['a reference to nowhere', { $ref: '#/$defs/none' }],
    ['a reference to another document', { $ref: 'https://example.com/schema.json' }],
  ])('%s: the problem names the property', (_what, definition) => {
    expect(problemOf(definition)).toMatch(/^property "value": ./);
  });

  test.each(['password', 'secret', 'credit-card'])(
    'a secret (%s): form mode must not ask for it (elicitation, "Security Considerations")',
    (format) => {
      expect(problemOf({ type: 'string', format })).toMatch(/secrets/);
      expect(problemOf({ type: ['string', 'null'], format })).toMatch(/secrets/);
    },
  );

  test('a reference that leads to itself ends', () => {
    const $defs = { A: { $ref: '#/$defs/B' }, B: { $ref: '#/$defs/A' } };
    expect(problemOf({ $ref: '#/$defs/A' }, { $defs })).toMatch(/expected a schema/);
  });
});

describe('whatever a server sends', () => {
  const wild = objectsOf([
    ...['type', 'properties', 'required', 'title', 'description', 'default', 'enum', 'enumNames'],
    ...['anyOf', 'oneOf', 'const', 'items', 'minimum', 'minLength', 'minItems', 'format', '$ref'],
    ...['$defs', '#/$defs/type', 'null', 'string', 'number', 'integer', 'boolean', 'array'],
    ...['object', '$schema', 'password', 'email', 'toString', 'constructor'],
  ]);
  const wildProperties = fc
    .tuple(liberalElicitationSchema, wild, wild)
    .map(([{ properties }, keywords, more]): JsonObject => {
      const entries = Object.entries(properties as JsonObject).map(
        ([name, schema]): [string, JsonObject] => [
          name,
          { ...(schema as JsonObject), ...keywords },
        ],
      );
      return { ...more, properties: { ...more, ...Object.fromEntries(entries) } };
    });

  test('what the client sees is valid by the modern schema, or the problem is said', () => {
    fc.assert(
      fc.property(fc.oneof(wild, wildProperties, liberalElicitationSchema), (requested) => {
        const before = structuredClone(requested);
        const normalised = normaliseElicitationSchema(requested);
        expect(requested).toEqual(before);
        if (normalised.type === 'fit') expect(problemsForClient(normalised.schema)).toEqual([]);
        else expect(normalised.problem).not.toBe('');
      }),
      { numRuns: 500 },
    );
  });

  test('what is shown is shown unchanged when it is asked again', () => {
    fc.assert(
      fc.property(liberalElicitationSchema, (requested) => {
        const { schema } = shown(requested);
        expect(shown(schema).schema).toEqual(schema);
      }),
    );
  });

  // Rule forms-7: An answer is converted back to what the server asked, on any replica.
  test('an answer to what was shown is one that the server asked for', () => {
    const ajv = new Ajv({ strict: false, validateFormats: false, ownProperties: true });
    fc.assert(
      fc.property(
        liberalElicitationSchema.map(withoutBounds).chain((requested) => {
          const { schema, inverse } = shown(requested);
          return contentFor(schema).map((content) => ({ requested, content, inverse }));
        }),
        ({ requested, content, inverse }) => {
          const restored = restoreContent(content, inverse);
          const validate = ajv.compile(requested);
          expect(validate(restored), ajv.errorsText(validate.errors)).toBe(true);
        },
      ),
      { numRuns: 300 },
    );
  });
});

/** Bounds may contradict each other; what fits them is not what this is about. */
function withoutBounds(schema: JsonObject): JsonObject {
  const bounds = ['minimum', 'maximum', 'minLength', 'maxLength', 'minItems', 'maxItems'];
  return JSON.parse(
    JSON.stringify(schema, (key, value: JsonValue) => (bounds.includes(key) ? undefined : value)),
  ) as JsonObject;
}
