import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  canRequireInput,
  isMethod,
  methodGate,
  nameMemberOf,
  serviceOf,
  type MethodName,
} from '../../../../src/edge/request/methods.ts';

// Rule methods-1 (MRTR, "Supported Requests"): `tools/call`, `prompts/get` and `resources/read` are calls, and can
// ask. Lists and completion are passed on, and cannot ask.
test('the results of three methods may be questions (MRTR, "Supported Requests")', () => {
  const asking = ['tools/call', 'prompts/get', 'resources/read'] as const;
  for (const method of asking) expect(canRequireInput(method)).toBe(true);
  for (const method of ['tools/list', 'completion/complete', 'server/discover'] as const) {
    expect(canRequireInput(method)).toBe(false);
  }
  expect(isMethod('tasks/result')).toBe(false);
});

// Rule methods-1.
test('server/discover is served here, lists and completions are passed on', () => {
  expect(serviceOf('server/discover')).toBe('discover');
  for (const method of [
    ...['tools/list', 'prompts/list', 'resources/list', 'resources/templates/list'],
    'completion/complete',
  ] as const) {
    expect(serviceOf(method)).toBe('forward');
  }
});

// Rule validation-16 (streamable-http, "Standard Request Headers"): A missing or different `Mcp-Method` gets 400,
// -32020, and so does `Mcp-Name`, which repeats `params.name`, `params.uri` or the id of a task.
test.each<[MethodName, string | null]>([
  ['tools/call', 'name'],
  ['prompts/get', 'name'],
  ['resources/read', 'uri'],
  ['tools/list', null],
])('Mcp-Name of %s repeats %s (streamable-http, "Standard Request Headers")', (method, member) => {
  expect(nameMemberOf(method)).toBe(member);
});

// Rule validation-15.
describe('a method without its capability does not exist: 404 (streamable-http, "Protocol Version Header")', () => {
  // Rule validation-15.
  test.each<[MethodName, string]>([
    ['tools/call', 'tools'],
    ['tools/list', 'tools'],
    ['prompts/get', 'prompts'],
    ['prompts/list', 'prompts'],
    ['resources/read', 'resources'],
    ['resources/list', 'resources'],
    ['resources/templates/list', 'resources'],
    ['completion/complete', 'completions'],
  ])('%s needs %s', (method, capability) => {
    expect(methodGate(method, {})).toMatchObject({ httpStatus: 404, error: { code: -32601 } });
    expect(methodGate(method, { [capability]: {} })).toBeNull();
  });

  test('server/discover needs none', () => {
    expect(methodGate('server/discover', {})).toBeNull();
  });

  // Rule validation-15.
  test('as long as the capabilities are not known, the server is asked', () => {
    expect(methodGate('tools/call', null)).toBeNull();
  });
});

// Rule validation-14.
test.each(['initialize', 'ping', 'logging/setLevel', 'resources/subscribe', 'tasks/list'])(
  '%s was removed and is unknown',
  (method) => {
    expect(isMethod(method)).toBe(false);
  },
);

test('names of JavaScript’s own are no methods and no capabilities', () => {
  const names = fc.constantFrom('constructor', 'toString', '__proto__', 'hasOwnProperty');
  fc.assert(
    fc.property(names, (name) => {
      expect(isMethod(name)).toBe(false);
      expect(methodGate('tools/list', { [name]: {} })).toMatchObject({ httpStatus: 404 });
    }),
  );
});
