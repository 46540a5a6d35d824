import { describe, expect, test } from 'vitest';
import {
  annotatedParameters,
  withoutHeaderAnnotations,
} from '../../../../src/protocol/translate/header-annotations.ts';

const region = { type: 'string', 'x-mcp-header': 'Region' };

describe('annotated parameters', () => {
  test('are found at any depth, along chains of properties', () => {
    const schema = {
      type: 'object',
      properties: {
        region,
        where: {
          type: 'object',
          properties: { zone: { type: 'integer', 'x-mcp-header': 'Zone' } },
        },
        query: { type: 'string' },
      },
    };
    expect(annotatedParameters(schema)).toEqual([
      { name: 'Region', type: 'string', path: ['region'] },
      { name: 'Zone', type: 'integer', path: ['where', 'zone'] },
    ]);
  });

  test('are none where nothing is annotated', () => {
    expect(annotatedParameters({ type: 'object', properties: { a: { type: 'string' } } })).toEqual(
      [],
    );
    expect(annotatedParameters({})).toEqual([]);
  });

  test('a property that is called x-mcp-header is a property, and a default is data', () => {
    const schema = {
      properties: {
        'x-mcp-header': { type: 'string' },
        a: { type: 'object', default: { 'x-mcp-header': 'A' } },
      },
    };
    expect(annotatedParameters(schema)).toEqual([]);
    expect(withoutHeaderAnnotations(schema)).toEqual(schema);
  });
});

describe('the annotations of a tool are invalid as a whole', () => {
  test.each([
    ['an empty name', { a: { type: 'string', 'x-mcp-header': '' } }],
    ['a name that is no HTTP token', { a: { type: 'string', 'x-mcp-header': 'a b' } }],
    ['a name with a line break', { a: { type: 'string', 'x-mcp-header': 'a\r\nb' } }],
    ['a name that is not a string', { a: { type: 'string', 'x-mcp-header': 1 } }],
    [
      'two names that differ in case only',
      { a: region, b: { ...region, 'x-mcp-header': 'REGION' } },
    ],
    ['a number', { a: { type: 'number', 'x-mcp-header': 'A' } }],
    ['an object', { a: { type: 'object', 'x-mcp-header': 'A' } }],
    ['no type', { a: { 'x-mcp-header': 'A' } }],
    ['several types', { a: { type: ['string', 'null'], 'x-mcp-header': 'A' } }],
    ['an item of an array', { a: { type: 'array', items: region } }],
    ['a choice', { a: { anyOf: [region] } }],
    ['a condition', { a: { if: { properties: { b: region } } } }],
  ])('%s', (_, properties) => {
    expect(annotatedParameters({ type: 'object', properties })).toBeNull();
  });

  test('an annotation in a definition that is referred to', () => {
    const schema = { properties: { a: { $ref: '#/$defs/a' } }, $defs: { a: region } };
    expect(annotatedParameters(schema)).toBeNull();
  });

  test('an annotation of the whole schema', () => {
    expect(annotatedParameters({ type: 'object', 'x-mcp-header': 'A' })).toBeNull();
  });
});

test('annotations can be taken out, wherever they are, and nothing else goes', () => {
  const schema = {
    type: 'object',
    properties: { a: region, b: { anyOf: [region, { type: 'null' }] } },
    $defs: { c: { items: region } },
    examples: [{ 'x-mcp-header': 'kept' }],
  };
  const plain = { type: 'string' };
  expect(withoutHeaderAnnotations(schema)).toEqual({
    type: 'object',
    properties: { a: plain, b: { anyOf: [plain, { type: 'null' }] } },
    $defs: { c: { items: plain } },
    examples: [{ 'x-mcp-header': 'kept' }],
  });
});
