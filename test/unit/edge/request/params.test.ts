import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { isMethod, paramsProblem } from '../../../../src/edge/request/methods.ts';
import type { JsonObject } from '../../../../src/protocol/json.ts';
import { arbitraryJsonObject, objectsOf } from '../../../fixtures/arbitrary/json.ts';
import { schemaProblems } from '../../../fixtures/wire/official-schema.ts';

const problem = (method: string, params: JsonObject) =>
  isMethod(method) ? paramsProblem(method, params) : 'no method';

const SOUND: Readonly<Record<string, JsonObject>> = {
  'tools/call': { name: 'n' },
  'prompts/get': { name: 'n' },
  'resources/read': { uri: 'file:///a' },
  'completion/complete': {
    ref: { type: 'ref/prompt', name: 'n' },
    argument: { name: 'a', value: 'v' },
  },
  'tools/list': {},
  'prompts/list': {},
  'resources/list': {},
  'resources/templates/list': {},
};

describe.each(Object.entries(SOUND))('%s', (method, sound) => {
  // Rule validation-21.
  test('takes what the specification requires, and members that nobody knows', () => {
    expect(problem(method, sound)).toBeNull();
    expect(problem(method, { ...sound, 'x-unknown': [1] })).toBeNull();
  });

  // Rule validation-21 (basic/index, "Error Codes"; logging, "Error Handling"): An unknown `logLevel` and params of
  // the wrong shape get 200, -32602 with the name of the member. Unknown members pass.
  test.each(Object.keys(sound))('requires %s', (member) => {
    const { [member]: _left, ...rest } = sound;
    expect(problem(method, rest)).toMatch(`params.${member} must be`);
    expect(problem(method, { ...sound, [member]: null })).toMatch(`params.${member} must be`);
    expect(problem(method, { ...sound, [member]: 5 })).toMatch(`params.${member} must be`);
  });
});

// Rule validation-21.
test.each([
  ['tools/call', { name: 'n', arguments: [] }, 'arguments'],
  ['tools/call', { name: 'n', arguments: null }, 'arguments'],
  ['prompts/get', { name: 'n', arguments: 'x' }, 'arguments'],
  ['completion/complete', { ...SOUND['completion/complete'], context: 1 }, 'context'],
  ['tools/list', { cursor: 5 }, 'cursor'],
  ['resources/list', { cursor: null }, 'cursor'],
])('%s with %j: the problem names %s', (method, params, member) => {
  expect(problem(method, params)).toMatch(`params.${member} must be`);
});

test('an empty cursor is a cursor', () => {
  expect(problem('tools/list', { cursor: '' })).toBeNull();
});

describe('answers and state', () => {
  test.each(['tools/call', 'prompts/get', 'resources/read'])(
    'are taken with %s (MRTR, "Supported Requests")',
    (method) => {
      const sound = SOUND[method];
      expect(problem(method, { ...sound, inputResponses: {}, requestState: '' })).toBeNull();
      expect(problem(method, { ...sound, inputResponses: { a: {} } })).toBeNull();
      expect(problem(method, { ...sound, requestState: 's' })).toBeNull();
    },
  );

  test.each(['tools/list', 'completion/complete', 'resources/list', 'prompts/list'])(
    'are refused with %s, which never asks',
    (method) => {
      const sound = SOUND[method];
      expect(problem(method, { ...sound, inputResponses: {} })).not.toBeNull();
      expect(problem(method, { ...sound, requestState: 's' })).not.toBeNull();
    },
  );

  // Rule validation-22 (MRTR, "Error Handling" and "Supported Requests"): Malformed `inputResponses` and
  // `requestState` get -32602, and so does any of them with other methods than `tools/call`, `prompts/get` and
  // `resources/read`.
  test.each([
    [{ inputResponses: null }, 'inputResponses must be an object'],
    [{ inputResponses: [] }, 'inputResponses must be an object'],
    [{ inputResponses: 'x' }, 'inputResponses must be an object'],
    [{ inputResponses: { k: 'x' } }, 'inputResponses["k"] must be an object'],
    [{ inputResponses: { k: null } }, 'inputResponses["k"] must be an object'],
    [{ requestState: null }, 'requestState must be a string'],
    [{ requestState: {} }, 'requestState must be a string'],
  ])('%j are malformed, null included (MRTR, "Error Handling")', (given, expected) => {
    expect(problem('tools/call', { name: 'n', ...given })).toContain(expected);
  });
});

test('nothing that the modern schema allows is refused', () => {
  const meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientCapabilities': {},
    'io.modelcontextprotocol/clientInfo': { name: 'c', version: '1' },
  };
  const words = ['name', 'uri', 'arguments', 'cursor', 'ref', 'argument', 'context', 'value'];
  const cases = fc.constantFrom(...Object.entries(SOUND));
  fc.assert(
    fc.property(cases, objectsOf(words), ([method, sound], more) => {
      const params = { ...sound, ...more };
      const message = { jsonrpc: '2.0', id: 1, method, params: { ...params, _meta: meta } };
      if (schemaProblems('2026-07-28', 'to-server', message).length > 0) return;
      expect(problem(method, params)).toBeNull();
    }),
    { numRuns: 500 },
  );
});

test('no malformed input makes it throw', () => {
  const methods = fc.oneof(fc.constantFrom(...Object.keys(SOUND), 'constructor'), fc.string());
  const words = ['name', 'uri', 'inputResponses', 'requestState', 'cursor', 'constructor'];
  fc.assert(
    fc.property(methods, fc.oneof(objectsOf(words), arbitraryJsonObject), (method, params) => {
      const said = problem(method, params);
      expect(said === null || said.length > 0).toBe(true);
    }),
    { numRuns: 500 },
  );
});
