import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readMessage } from '../../../src/protocol/json-rpc.ts';
import { arbitraryJson, arbitraryJsonObject, objectsOf } from '../../fixtures/arbitrary/json.ts';

const V = { jsonrpc: '2.0' };

test.each([0, 1, -1, 'a', '', '0'])('an id is kept with its type: %j', (id) => {
  expect(readMessage({ ...V, id, method: 'm' })).toEqual({
    type: 'request',
    id,
    method: 'm',
    params: {},
  });
  expect(readMessage({ ...V, id, result: {} })).toEqual({
    type: 'response',
    id,
    reply: { result: {} },
  });
});

test('a method without an id is a notification, also one called "ping"', () => {
  expect(readMessage({ ...V, method: 'ping' })).toEqual({
    type: 'notification',
    method: 'ping',
    params: {},
  });
});

test.each([null, true, {}, []])('an id may not be %j (basic/index, "Requests")', (id) => {
  expect(readMessage({ ...V, id, method: 'm' }).type).toBe('malformed');
});

test('an error may come without an id, when the request could not be read', () => {
  const error = { code: -32700, message: 'm' };
  expect(readMessage({ ...V, error })).toEqual({ type: 'response', id: null, reply: { error } });
  expect(readMessage({ ...V, id: null, error })).toMatchObject({ type: 'response', id: null });
});

test('an error keeps its code, message and data; what cannot be one is filled in', () => {
  const error = { code: -1, message: 'm', data: null };
  expect(readMessage({ ...V, id: 1, error })).toMatchObject({ reply: { error } });
  expect(readMessage({ ...V, id: 1, error: { code: 'x' } })).toEqual({
    type: 'response',
    id: 1,
    reply: { error: { code: -32603, message: 'Unknown error' } },
  });
});

describe('a value that is not a message is named', () => {
  test.each([
    null,
    [],
    'x',
    {},
    V,
    { id: 1, method: 'm' },
    { jsonrpc: '1.0', id: 1, method: 'm' },
    { ...V, id: 1 },
    { ...V, id: 1, method: 5 },
    { ...V, id: 1, method: 'm', params: [] },
    { ...V, id: 1, method: 'm', params: null },
    { ...V, id: 1, result: 5 },
    { ...V, id: 1, error: 'x' },
    { ...V, id: {}, result: {} },
  ])('%j', (value) => {
    expect(readMessage(value)).toMatchObject({ type: 'malformed', problem: expect.any(String) });
  });
});

test('requests, notifications and results are read as they were written', () => {
  const id = fc.oneof(fc.integer(), fc.string());
  fc.assert(
    fc.property(id, fc.string(), arbitraryJsonObject, (id, method, params) => {
      expect(readMessage({ ...V, id, method, params })).toEqual({
        type: 'request',
        id,
        method,
        params,
      });
      expect(readMessage({ ...V, method, params })).toEqual({
        type: 'notification',
        method,
        params,
      });
      expect(readMessage({ ...V, id, result: params })).toEqual({
        type: 'response',
        id,
        reply: { result: params },
      });
    }),
  );
});

test('no JSON makes it throw', () => {
  const words = ['jsonrpc', '2.0', 'id', 'method', 'params', 'result', 'error', 'code', 'message'];
  const near = objectsOf(words).map((message) => ({ ...message, jsonrpc: '2.0' }));
  fc.assert(
    fc.property(fc.oneof(arbitraryJson, near), (value) => {
      const kinds = ['request', 'notification', 'response', 'malformed'];
      expect(kinds).toContain(readMessage(value).type);
    }),
    { numRuns: 500 },
  );
});
