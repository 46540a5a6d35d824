import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parameterHeaderProblem } from '../../../../src/edge/request/parameter-headers.ts';
import type { AnnotatedParameter } from '../../../../src/protocol/translate/header-annotations.ts';

const region: AnnotatedParameter = { name: 'Region', type: 'string', path: ['region'] };
const zone: AnnotatedParameter = { name: 'Zone', type: 'integer', path: ['where', 'zone'] };
const dry: AnnotatedParameter = { name: 'Dry', type: 'boolean', path: ['dry'] };
const base64 = (text: string) => `=?base64?${Buffer.from(text).toString('base64')}?=`;

// Rule validation-19 (streamable-http, "Server Validation"): `Mcp-Param-*` compares integers as numbers, and booleans
// as `true` and `false`. An absent or `null` argument has no header.
describe('headers that say what the arguments say', () => {
  test.each([
    ['a text', region, { region: 'us-west1' }, 'us-west1'],
    ['an encoded text', region, { region: 'Zürich' }, base64('Zürich')],
    [
      'a text that looks encoded',
      region,
      { region: '=?base64?literal?=' },
      base64('=?base64?literal?='),
    ],
    ['an integer, at its path', zone, { where: { zone: -7 } }, '-7'],
    ['an integer with a fraction of nothing', zone, { where: { zone: 42 } }, '42.0'],
    ['a boolean', dry, { dry: false }, 'false'],
  ])('%s', (_, parameter, args, value) => {
    expect(
      parameterHeaderProblem([parameter], args, [`mcp-param-${parameter.name}`, value]),
    ).toBeNull();
  });

  // Rule validation-19.
  test.each([
    ['no argument', {}],
    ['null', { region: null }],
    ['an argument that is not reached', { where: 'here' }],
  ])('none for %s', (_, args) => {
    expect(parameterHeaderProblem([region, zone], args, [])).toBeNull();
  });

  test('headers that no parameter has are none of ours', () => {
    expect(parameterHeaderProblem([region], {}, ['Mcp-Param-Other', 'x'])).toBeNull();
  });
});

// Rule validation-18.
describe('headers that say something else', () => {
  test.each([
    ['another text', region, { region: 'a' }, ['Mcp-Param-Region', 'b'], /differ/],
    ['no header for an argument', region, { region: 'a' }, [], /^Mcp-Param-Region is missing/],
    ['a header without an argument', region, {}, ['Mcp-Param-Region', 'a'], /argument is missing/],
    [
      'a header for null',
      region,
      { region: null },
      ['Mcp-Param-Region', 'null'],
      /argument is missing/,
    ],
    [
      'two headers',
      region,
      { region: 'a' },
      ['Mcp-Param-Region', 'a', 'mcp-param-region', 'a'],
      /Duplicate/,
    ],
    [
      'Base64 that is none',
      region,
      { region: 'a' },
      ['Mcp-Param-Region', '=?base64?YQ?='],
      /Base64/,
    ],
    ['bytes that must be encoded', region, { region: 'ü' }, ['Mcp-Param-Region', 'Ã¼'], /encoded/],
    ['another number', zone, { where: { zone: 1 } }, ['Mcp-Param-Zone', '1.5'], /differ/],
    ['a number in words', zone, { where: { zone: 255 } }, ['Mcp-Param-Zone', '0xff'], /differ/],
    [
      'a number beyond the safe range',
      zone,
      { where: { zone: 2 ** 53 } },
      ['Mcp-Param-Zone', String(2 ** 53)],
      /differ/,
    ],
    [
      'an argument of another type',
      zone,
      { where: { zone: '1' } },
      ['Mcp-Param-Zone', '1'],
      /differ/,
    ],
    ['another boolean', dry, { dry: true }, ['Mcp-Param-Dry', 'True'], /differ/],
  ])('%s', (_, parameter, args, headers, problem) => {
    expect(parameterHeaderProblem([parameter], args, headers)).toMatch(problem);
  });
});

test('no value of a header or of an argument is in the problem', () => {
  const problem = parameterHeaderProblem([region], { region: 'secret-1' }, [
    'Mcp-Param-Region',
    'secret-2',
  ]);
  expect(problem).not.toMatch(/secret/);
});

test('whatever text an argument is, its encoded header agrees, and that of another text does not', () => {
  const texts = fc.tuple(fc.string({ unit: 'grapheme' }), fc.string({ unit: 'grapheme' }));
  fc.assert(
    fc.property(texts, ([text, other]) => {
      const problem = (header: string) =>
        parameterHeaderProblem([region], { region: text }, ['Mcp-Param-Region', base64(header)]);
      expect(problem(text)).toBeNull();
      expect(problem(other) === null).toBe(text === other);
    }),
  );
});
