/** Forms of OpenAI's extension ("OpenAI Form Elicitation" in docs/spec.md of openai/mcp-extensions). */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseMessage, type JsonObject, type JsonValue } from '../../../../src/protocol/json.ts';
import { LEGACY_REVISIONS } from '../../../../src/protocol/meta.ts';
import { readAnswerAhead } from '../../../../src/protocol/translate/answer-ahead.ts';
import {
  EMPTY_PROFILE,
  readProfile,
  type ClientProfile,
} from '../../../../src/protocol/translate/client-profile.ts';
import {
  closeOutReply,
  translateInputResponse,
  translateServerRequest,
} from '../../../../src/protocol/translate/input-request.ts';
import { arbitraryJsonObject } from '../../../fixtures/arbitrary/json.ts';
import { schemaProblems } from '../../../fixtures/wire/official-schema.ts';

const METHOD = 'openai/elicitation/create';
const NEEDED = { elicitation: { form: {} }, extensions: { 'openai/elicitation': { form: {} } } };
const SHOWS = readProfile(NEEDED);
const BACK = { kind: 'openai-form' } as const;
const EMPTY = { type: 'object', properties: {} };

/** Of each kind that the extension adds: a pattern, a picture, suggestions and a choice of resources. */
const SCHEMA: JsonObject = {
  type: 'object',
  properties: {
    part: {
      type: 'string',
      pattern: '^(cad|file):',
      'x-openai-suggestions': [{ const: 'bolt', title: 'M6', description: 'A fastener.' }],
    },
    washer: {
      type: 'string',
      oneOf: [
        { const: 'm6', title: 'M6', 'x-openai-thumbnail': { src: 'https://a.example/w.png' } },
      ],
    },
    files: {
      type: 'array',
      'x-openai-input': {
        type: 'resource',
        options: [
          {
            uri: 'cad://parts/bolt',
            name: 'bolt',
            _meta: { 'openai/preview': { target: { type: 'mcp_app_tool', name: 'cad.open' } } },
          },
        ],
        userOptions: { kind: 'file', accept: ['.stl'] },
      },
    },
  },
};

function ask(params: JsonObject, profile: ClientProfile = SHOWS) {
  return translateServerRequest(METHOD, params, profile, '2025-11-25');
}

function shown(params: JsonObject) {
  const translation = ask(params);
  if (translation.type !== 'surface') throw new Error(translation.error.message);
  expect(translation.back).toEqual(BACK);
  return translation.request;
}

describe('a form of the extension', () => {
  // Rule openai-1 (OpenAI Form Elicitation): `openai/elicitation/create` is shown as `elicitation/create` with an
  // empty schema, and the unchanged form in `_meta["openai/elicitation"].requestedSchema`.
  test('stands in _meta, beside an empty one', () => {
    for (const mode of [{}, { mode: 'form' }]) {
      expect(shown({ ...mode, message: 'Which part?', requestedSchema: SCHEMA })).toEqual({
        method: 'elicitation/create',
        params: {
          message: 'Which part?',
          mode: 'form',
          requestedSchema: EMPTY,
          _meta: { 'openai/elicitation': { requestedSchema: SCHEMA } },
        },
      });
    }
  });

  // Rule openai-1.
  test('is shown as the same text, whatever is in it, in a question that the specification allows', () => {
    fc.assert(
      fc.property(arbitraryJsonObject, (requestedSchema) => {
        const request = shown({ message: 'm', requestedSchema });
        const meta = request.params['_meta'] as Record<string, JsonObject>;
        const form = meta['openai/elicitation']!['requestedSchema'];
        expect(JSON.stringify(form)).toBe(JSON.stringify(requestedSchema));
        const result = { resultType: 'input_required', inputRequests: { key: request } };
        const message = { jsonrpc: '2.0', id: 1, result };
        expect(schemaProblems('2026-07-28', 'to-client', message, 'tools/call')).toEqual([]);
      }),
    );
  });

  // Rule openai-1.
  test('keeps its numbers as the server wrote them', () => {
    const schema = '{"properties":{"a":{"minimum":1.0,"maximum":12345678901234567890}}}';
    const params = parseMessage(`{"message":"m","requestedSchema":${schema}}`);
    expect(JSON.stringify(shown(params as JsonObject))).toContain(`"requestedSchema":${schema}`);
  });

  // Rule openai-1.
  test('keeps the vendor members of its _meta, but for a schema there', () => {
    const _meta = {
      'openai/elicitation': { requestedSchema: { type: 'string' }, other: 1 },
      'com.example/kept': [1],
      'io.modelcontextprotocol/related-task': { taskId: 't' },
      progressToken: 1,
    };
    const asked = { message: 'm', requestedSchema: SCHEMA, task: { ttl: 1 }, _meta };
    expect(shown(asked).params).toEqual({
      message: 'm',
      mode: 'form',
      requestedSchema: EMPTY,
      _meta: {
        'openai/elicitation': { other: 1, requestedSchema: SCHEMA },
        'com.example/kept': [1],
      },
    });
  });

  // Rule forms-8.
  test.each([
    { message: 'm' },
    { requestedSchema: SCHEMA },
    { message: 5, requestedSchema: SCHEMA },
    { message: 'm', requestedSchema: [] },
    { message: 'm', _meta: { 'openai/elicitation': { requestedSchema: SCHEMA } } },
    { mode: 'voice', message: 'm', requestedSchema: SCHEMA },
  ])('that is none is refused as invalid params: %j', (params) => {
    const translation = ask(params as unknown as JsonObject);
    expect(translation).toMatchObject({
      type: 'refuse',
      error: { code: -32602 },
      requiredCapabilities: null,
    });
  });

  // Rule forms-8.
  test.each([{}, { elicitation: { url: {} } }, NEEDED])(
    'in URL mode is a plain question of that mode, to a client that declares %j',
    (declared) => {
      const url = { mode: 'url', message: 'm', url: 'https://a.example/x', elicitationId: 'e' };
      const profile = readProfile(declared);
      const plain = translateServerRequest('elicitation/create', url, profile, '2025-11-25');
      expect(ask(url, profile)).toEqual(plain);
    },
  );

  // Rule openai-3 (MRTR, "Server Requirements" 7): If the client does not declare the extension and plain forms, the
  // server gets -32601, and a failed call names both in `requiredCapabilities`.
  test.each([
    {},
    { elicitation: { form: {} } },
    { extensions: NEEDED.extensions },
    { elicitation: { url: {} }, extensions: NEEDED.extensions },
    { elicitation: { form: {} }, extensions: { 'openai/elicitation': {} } },
  ])('is an unknown method for a client that declares only %j', (declared) => {
    expect(ask({ message: 'm', requestedSchema: SCHEMA }, readProfile(declared))).toMatchObject({
      type: 'refuse',
      error: { code: -32601 },
      requiredCapabilities: NEEDED,
    });
  });

  // Rule openai-3.
  test('is asked by servers of every revision', () => {
    for (const revision of LEGACY_REVISIONS) {
      const params = { message: 'm', requestedSchema: SCHEMA };
      expect(translateServerRequest(METHOD, params, SHOWS, revision).type).toBe('surface');
    }
  });

  test('leaves the forms of elicitation/create, and what is in their _meta, as they are without it', () => {
    const _meta = { 'openai/elicitation': { requestedSchema: SCHEMA } };
    const params = { message: 'm', requestedSchema: EMPTY, _meta };
    const plain = { ...EMPTY_PROFILE, elicitationForm: true };
    for (const profile of [plain, SHOWS]) {
      const asked = translateServerRequest('elicitation/create', params, profile, '2025-11-25');
      expect(asked).toMatchObject({
        request: { params: { ...params, mode: 'form' } },
        back: { kind: 'elicitation-form' },
      });
    }
  });
});

describe('the answer to a form of the extension', () => {
  // Rule openai-4: The answer goes to the server unchanged. Only its `action` and the types of its values are
  // checked.
  test.each<JsonObject>([
    { action: 'accept', content: { part: 'cad:1', files: ['file:///a.stl'], n: 1.5, yes: true } },
    { action: 'accept', content: {}, more: { a: [null] } },
    { action: 'accept' },
    { action: 'decline', content: { part: 'cad:1' }, _meta: { 'com.example/why': 'late' } },
    { action: 'cancel' },
  ])('reaches the server as it is: %j', (answer) => {
    const reading = translateInputResponse(BACK, answer);
    expect(reading).toEqual({ type: 'respond', reply: { result: answer } });
  });

  // Rule openai-4.
  test('loses what only modern clients and this gateway know', () => {
    const _meta = { 'io.modelcontextprotocol/clientInfo': {}, 'com.example/kept': 1 };
    const answer = { action: 'accept', content: {}, resultType: 'complete', _meta };
    const expected = { action: 'accept', content: {}, _meta: { 'com.example/kept': 1 } };
    const reading = translateInputResponse(BACK, answer);
    expect(reading).toEqual({ type: 'respond', reply: { result: expected } });
  });

  // Rule openai-4.
  test.each<[JsonValue, RegExp]>([
    ['yes', /object/],
    [{ content: {} }, /"action"/],
    [{ action: 'yes' }, /"action"/],
    [{ action: 'accept', content: [] }, /"content"/],
    [{ action: 'accept', content: { a: { b: 1 } } }, /content\["a"\]/],
    [{ action: 'accept', content: { a: [1] } }, /content\["a"\]/],
  ])('that cannot be one is named: %j', (answer, problem) => {
    const reading = translateInputResponse(BACK, answer);
    expect(reading.type === 'ill-formed' && reading.problem).toMatch(problem);
  });

  // Rule closing-1.
  test('is a cancellation when nobody will give one', () => {
    expect(closeOutReply('openai-form')).toEqual({ result: { action: 'cancel' } });
  });

  // Rule answers-11.
  test('can come ahead when it fits the form, not the empty one beside it', () => {
    const properties = { part: { type: 'string', pattern: '^cad:' }, n: { type: 'number' } };
    const schema = { type: 'object', properties, required: ['part'] };
    const request = shown({ message: 'm', requestedSchema: schema });
    const ahead = (content: JsonObject) =>
      readAnswerAhead(request, BACK, { action: 'accept', content });
    const right = { part: 'cad:1', n: 1 };
    expect(ahead(right)).toEqual({ result: { action: 'accept', content: right } });
    expect(ahead({ part: 'bolt' })).toBeNull();
    expect(ahead({})).toBeNull();
    expect(ahead({ part: 'cad:1', extra: 'x' })).toBeNull();
    expect(readAnswerAhead(request, BACK, { action: 'decline' })).toEqual({
      result: { action: 'decline' },
    });
  });

  // Rule answers-11.
  test('can come ahead with a number in another spelling', () => {
    const text =
      '{"message":"m","requestedSchema":{"properties":{"n":{"type":"number","minimum":1.0}}}}';
    const request = shown(parseMessage(text) as JsonObject);
    const answer = parseMessage('{"arguments":{"action":"accept","content":{"n":2.0}}}');
    const reply = readAnswerAhead(request, BACK, (answer as JsonObject)['arguments'] ?? null);
    expect(JSON.stringify(reply)).toBe('{"result":{"action":"accept","content":{"n":2.0}}}');
  });
});
