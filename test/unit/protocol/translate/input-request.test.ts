import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  EMPTY_PROFILE,
  type ClientProfile,
} from '../../../../src/protocol/translate/client-profile.ts';
import {
  closeOutReply,
  translateInputResponse,
  translateServerRequest,
  type AnswerTranslation,
} from '../../../../src/protocol/translate/input-request.ts';
import type { JsonObject, JsonValue } from '../../../../src/protocol/json.ts';
import type { LegacyRevision } from '../../../../src/protocol/meta.ts';

const ALL: ClientProfile = {
  elicitationForm: true,
  elicitationUrl: true,
  sampling: true,
  samplingTools: true,
  samplingContext: true,
  roots: true,
  extensions: {},
};
const FORM = { message: 'm', requestedSchema: { type: 'object', properties: {} } };
const URL_MODE = { mode: 'url', message: 'm', url: 'https://a.example/x?y#z', elicitationId: 'e' };
const SAMPLING = { messages: [], maxTokens: 1 };

type How = { profile?: ClientProfile; revision?: LegacyRevision };

function surfaced(method: string, params: JsonObject, how: How = {}) {
  const { profile = ALL, revision = '2025-11-25' } = how;
  const translation = translateServerRequest(method, params, profile, revision);
  if (translation.type !== 'surface') throw new Error(translation.error.message);
  return translation;
}

function refused(method: string, params: JsonObject, how: How = {}) {
  const { profile = ALL, revision = '2025-11-25' } = how;
  const translation = translateServerRequest(method, params, profile, revision);
  if (translation.type !== 'refuse') throw new Error('it was not refused');
  return translation;
}

/** What goes upstream for an answer. */
function sent(back: AnswerTranslation, answer: JsonValue) {
  const reading = translateInputResponse(back, answer);
  if (reading.type !== 'respond') throw new Error(reading.problem);
  return reading.reply;
}

function problem(back: AnswerTranslation, answer: JsonValue): string {
  const reading = translateInputResponse(back, answer);
  return reading.type === 'ill-formed' ? reading.problem : 'none';
}

describe('an input request', () => {
  // Rule shown-2 (MRTR, "InputRequests"; basic, "`_meta`"): A question has its `method` and `params`. `task`,
  // progress token and reserved `_meta` members are removed, and unknown members stay.
  test.each([
    ['elicitation/create', FORM],
    ['elicitation/create', URL_MODE],
    ['sampling/createMessage', SAMPLING],
    ['roots/list', {}],
  ])(
    'is a method and params and nothing else: %s %j (MRTR, "Input Requests")',
    (method, params) => {
      const { request } = surfaced(method, params);
      expect(Object.keys(request)).toEqual(['method', 'params']);
      expect(request.method).toBe(method);
    },
  );

  // Rule shown-2.
  test('loses what only the server and a legacy client share: task, progress token, related task', () => {
    const _meta = {
      progressToken: 1,
      'io.modelcontextprotocol/related-task': { taskId: 't' },
      'com.example/kept': 1,
      traceparent: '00-1-2-01',
    };
    for (const [method, params] of [
      ['elicitation/create', FORM],
      ['elicitation/create', URL_MODE],
      ['sampling/createMessage', SAMPLING],
      ['roots/list', {}],
    ] as const) {
      const { request } = surfaced(method, { ...params, task: { ttl: 1 }, _meta });
      expect(request.params).not.toHaveProperty('task');
      expect(request.params['_meta']).toEqual({ 'com.example/kept': 1, traceparent: '00-1-2-01' });
    }
  });

  // Rule questions-8.
  test('whose method nobody knows is refused as unknown, and requires nothing of the client', () => {
    for (const method of ['tasks/list', 'tasks/result', 'x/y', 'tools/call']) {
      const { error, requiredCapabilities } = refused(method, {});
      expect(error.code).toBe(-32601);
      expect(requiredCapabilities).toBeNull();
    }
  });
});

describe('a form elicitation', () => {
  // Rule forms-1 (elicitation, "Form Mode Elicitation Requests"): A form is shown unchanged, with `mode` `form`.
  test('says its mode, also when the server left it out', () => {
    expect(surfaced('elicitation/create', FORM).request.params).toEqual({ ...FORM, mode: 'form' });
  });

  // Rule forms-6.
  test('that strict clients could not show is refused with an internal error that says why', () => {
    const requestedSchema = { type: 'object', properties: { a: { type: 'object' } } };
    const { error, reason } = refused('elicitation/create', { ...FORM, requestedSchema });
    expect(error.code).toBe(-32603);
    expect(error.message).toMatch(/"a"/);
    expect(reason).toBe('schema_not_representable');
  });

  // Rule forms-8 (2025-11-25 elicitation, "Error Handling"): A request of another mode, or without a message, a
  // schema or a list of messages gets -32602.
  test.each([
    { requestedSchema: FORM.requestedSchema },
    { message: 5, requestedSchema: FORM.requestedSchema },
    { message: 'm' },
    { message: 'm', requestedSchema: [] },
    { ...FORM, mode: 'voice' },
  ])('that is none is refused as invalid params: %j', (params) => {
    expect(refused('elicitation/create', params as unknown as JsonObject).error.code).toBe(-32602);
  });
});

describe('a URL elicitation', () => {
  // Rule urls-1 (elicitation, "URL Mode Elicitation Requests"; "Safe URL Handling"): The URL goes to the client
  // unchanged, without `elicitationId`. The gateway does not fetch it.
  test('keeps its URL to the letter; the elicitation id was removed in 2026-07-28', () => {
    expect(surfaced('elicitation/create', URL_MODE).request.params).toEqual({
      mode: 'url',
      message: 'm',
      url: 'https://a.example/x?y#z',
    });
  });

  // Rule urls-2 (elicitation, "Safe URL Handling"): A URL that is not absolute `http` or `https`, or has userinfo, is
  // shown to nobody. The server gets -32602.
  test.each(['javascript:alert(1)', 'file:///etc/passwd', 'data:,x', '/relative', '', 5, null])(
    'with the URL %j is refused (elicitation, "Safe URL Handling")',
    (url) => {
      const { error, reason } = refused('elicitation/create', { ...URL_MODE, url });
      expect(error.code).toBe(-32602);
      expect(reason).toBe('unsafe_url');
    },
  );
});

describe('a sampling request', () => {
  // Rule sampling-1.
  test('goes on word for word, with tools and context where the client declared them', () => {
    const params = {
      messages: [{ role: 'user', content: [{ type: 'text', text: 't' }] }],
      modelPreferences: { hints: [{ name: 'h' }], costPriority: 0.5 },
      systemPrompt: 's',
      includeContext: 'allServers',
      temperature: 0.1,
      maxTokens: 5,
      stopSequences: ['x'],
      metadata: { a: 1 },
      tools: [{ name: 'n', inputSchema: { type: 'object' } }],
      toolChoice: { mode: 'auto' },
    };
    expect(surfaced('sampling/createMessage', params).request.params).toEqual(params);
  });

  // Rule sampling-2.
  test.each(['thisServer', 'allServers'])(
    'loses includeContext %s when the client did not declare sampling.context',
    (includeContext) => {
      const profile = { ...ALL, samplingContext: false };
      const { request } = surfaced(
        'sampling/createMessage',
        { ...SAMPLING, includeContext },
        { profile },
      );
      expect(request.params).toEqual(SAMPLING);
    },
  );

  // Rule sampling-2.
  test('keeps includeContext "none", which asks for nothing', () => {
    const params = { ...SAMPLING, includeContext: 'none' };
    const profile = { ...ALL, samplingContext: false };
    expect(surfaced('sampling/createMessage', params, { profile }).request.params).toEqual(params);
  });

  test('is not changed by its translation', () => {
    const tool = { name: 't', inputSchema: { type: 'object' }, execution: {} };
    const params = { ...SAMPLING, includeContext: 'thisServer', tools: [tool] };
    const before = structuredClone(params);
    surfaced('sampling/createMessage', params, { profile: { ...ALL, samplingContext: false } });
    expect(params).toEqual(before);
  });

  test('has tools without "execution", which 2026-07-28 does not know', () => {
    const tool = { name: 'n', inputSchema: { type: 'object' } };
    const tools = [{ ...tool, execution: { taskSupport: 'optional' } }];
    const { request } = surfaced('sampling/createMessage', { ...SAMPLING, tools });
    expect(request.params['tools']).toEqual([tool]);
  });

  // Rule forms-8.
  test('without a list of messages is refused as invalid params', () => {
    expect(refused('sampling/createMessage', { maxTokens: 1 }).error.code).toBe(-32602);
  });
});

// Rule roots-1.
test('a roots request has params even when the server sent none: some clients cannot do without', () => {
  expect(surfaced('roots/list', {}).request).toEqual({ method: 'roots/list', params: {} });
});

describe('what the client did not declare is never shown to it (MRTR, server requirement 7)', () => {
  const withTools = { ...SAMPLING, tools: [] };
  // Rule undeclared-1 (MRTR, "Server Requirements" 7; 2025-11-25 elicitation, "Error Handling"): A question whose
  // capability the request does not declare is never shown. The server gets -32601, or -32602 if only the mode or the
  // tools are missing.
  test.each<[string, JsonObject, Partial<ClientProfile>, number, JsonObject]>([
    ['elicitation/create', FORM, {}, -32601, { elicitation: { form: {} } }],
    ['elicitation/create', URL_MODE, {}, -32601, { elicitation: { url: {} } }],
    ['elicitation/create', FORM, { elicitationUrl: true }, -32602, { elicitation: { form: {} } }],
    [
      'elicitation/create',
      URL_MODE,
      { elicitationForm: true },
      -32602,
      { elicitation: { url: {} } },
    ],
    ['sampling/createMessage', SAMPLING, {}, -32601, { sampling: {} }],
    ['sampling/createMessage', withTools, { sampling: true }, -32602, { sampling: { tools: {} } }],
    ['roots/list', {}, {}, -32601, { roots: {} }],
  ])(
    '%s %j for %j: the server hears %i, and %j is noted',
    (method, params, has, code, required) => {
      const profile = { ...EMPTY_PROFILE, ...has };
      const { error, requiredCapabilities, reason } = refused(method, params, { profile });
      expect(error.code).toBe(code);
      expect(requiredCapabilities).toEqual(required);
      expect(reason).toBe('capability_not_declared');
    },
  );

  // Rule sampling-3.
  test('a tool choice alone asks for tools too', () => {
    const profile = { ...EMPTY_PROFILE, sampling: true };
    const params = { ...SAMPLING, toolChoice: { mode: 'auto' } };
    expect(refused('sampling/createMessage', params, { profile }).requiredCapabilities).toEqual({
      sampling: { tools: {} },
    });
  });
});

describe('the answer to a form', () => {
  const back = surfaced('elicitation/create', FORM).back;

  test('that accepts goes upstream with its content, in the terms of the server', () => {
    const requestedSchema = {
      type: 'object',
      properties: { n: { enum: [1, 2] }, o: { anyOf: [{ type: 'string' }, { type: 'null' }] } },
      required: ['n', 'o'],
    };
    const own = surfaced('elicitation/create', { message: 'm', requestedSchema }).back;
    expect(sent(own, { action: 'accept', content: { n: '2' } })).toEqual({
      result: { action: 'accept', content: { n: 2, o: null } },
    });
  });

  // Rule answers-1.
  test('that accepts without content goes upstream with an empty one', () => {
    expect(sent(back, { action: 'accept' })).toEqual({ result: { action: 'accept', content: {} } });
  });

  // Rule answers-1.
  test.each(['decline', 'cancel'])(
    'that says %s goes upstream as that and nothing else',
    (action) => {
      expect(sent(back, { action, content: { a: 1 }, more: 1 })).toEqual({ result: { action } });
    },
  );

  // Rule answers-7 (basic, "`_meta`"): `resultType` and reserved `_meta` members are removed from an answer. Unknown
  // members stay.
  test('loses resultType and reserved _meta, and keeps what nobody knows', () => {
    const _meta = { 'io.modelcontextprotocol/related-task': {}, 'com.example/a': 1 };
    const answer = { resultType: 'complete', action: 'accept', content: {}, more: [1], _meta };
    expect(sent(back, answer)).toEqual({
      result: { action: 'accept', content: {}, more: [1], _meta: { 'com.example/a': 1 } },
    });
  });

  // Rule answers-6.
  test.each<JsonValue>([
    {},
    { action: 'ok' },
    { action: 5 },
    { action: 'accept', content: null },
    { action: 'accept', content: [] },
    { action: 'accept', content: { a: null } },
    { action: 'accept', content: { a: {} } },
    { action: 'accept', content: { a: [1] } },
    'accept',
    null,
    [],
  ])('that cannot be one is named and goes nowhere: %j', (answer) => {
    expect(problem(back, answer)).not.toBe('none');
  });

  // Rule answers-2: Values are not checked against the schema: the server judges them.
  test('is not judged by the schema: the server is the authority', () => {
    const requestedSchema = { type: 'object', properties: { a: { type: 'integer', maximum: 1 } } };
    const own = surfaced('elicitation/create', { message: 'm', requestedSchema }).back;
    const content = { a: 1.5, b: 'unasked' };
    expect(sent(own, { action: 'accept', content })).toEqual({
      result: { action: 'accept', content },
    });
  });
});

// Rule urls-4 (elicitation, "Response Actions"): The answer goes to the server as `action` alone, and the retry waits
// for the server.
test.each(['accept', 'decline', 'cancel'])(
  'the answer %s to a URL goes upstream without content (elicitation, "URL Mode")',
  (action) => {
    const { back } = surfaced('elicitation/create', URL_MODE);
    expect(sent(back, { action, content: { secret: 's' } })).toEqual({ result: { action } });
  },
);

describe('the answer to a sampling request', () => {
  const text = (value: string) => ({ type: 'text', text: value });
  const audio = { type: 'audio', data: '', mimeType: 'audio/wav' };
  const answer = (content: JsonValue) => ({ role: 'assistant', model: 'm', content });
  const backOf = (revision: LegacyRevision, params: JsonObject = SAMPLING) =>
    surfaced('sampling/createMessage', params, { revision }).back;
  const withTools = { ...SAMPLING, tools: [] };

  test('goes upstream word for word when it has one block', () => {
    const whole = { ...answer(text('a')), stopReason: 'endTurn', more: 1, _meta: { 'a.b/c': 1 } };
    expect(sent(backOf('2025-06-18'), whole)).toEqual({ result: whole });
  });

  // Rule sampling-4.
  test('keeps its list of blocks for a server of 2025-11-25 that sent tools', () => {
    const whole = answer([{ type: 'tool_use', id: 'i', name: 'n', input: {} }, text('a')]);
    expect(sent(backOf('2025-11-25', withTools), whole)).toEqual({ result: whole });
  });

  // Rule sampling-4.
  test.each<[LegacyRevision]>([['2024-11-05'], ['2025-03-26'], ['2025-06-18'], ['2025-11-25']])(
    'has one block for a server of %s that sent no tools',
    (revision) => {
      const back = backOf(revision);
      expect(sent(back, answer([text('a')]))).toEqual({ result: answer(text('a')) });
      expect(sent(back, answer([text('a'), text('b')]))).toEqual({
        result: answer(text('a\nb')),
      });
      for (const content of [[], [text('a'), audio], [audio, audio]]) {
        expect(sent(back, answer(content))).toMatchObject({ error: { code: -32603 } });
      }
    },
  );

  test('is an internal error to the server when its one block is of a type the server cannot know', () => {
    expect(sent(backOf('2024-11-05'), answer(audio))).toMatchObject({ error: { code: -32603 } });
    expect(sent(backOf('2025-03-26'), answer(audio))).toEqual({ result: answer(audio) });
    const use = { type: 'tool_use', id: 'i', name: 'n', input: {} };
    expect(sent(backOf('2025-06-18'), answer([use]))).toMatchObject({ error: { code: -32603 } });
  });

  test.each<JsonValue>([
    { model: 'm', content: text('a') },
    { role: 'system', model: 'm', content: text('a') },
    { role: 'user', content: text('a') },
    { role: 'user', model: 'm' },
    { role: 'user', model: 'm', content: 'a' },
    { role: 'user', model: 'm', content: [{}] },
    { role: 'user', model: 'm', content: [null] },
    { action: 'decline' },
  ])('that cannot be one is named and goes nowhere: %j', (value) => {
    expect(problem(backOf('2025-11-25'), value)).not.toBe('none');
  });
});

describe('the answer to a roots request', () => {
  const { back } = surfaced('roots/list', {});

  test('goes upstream word for word', () => {
    const roots = [{ uri: 'file:///a', name: 'a', _meta: { x: 1 } }, { uri: 'file:///b' }];
    expect(sent(back, { roots })).toEqual({ result: { roots } });
  });

  // Rule roots-2 (roots, "Root"): A root that is not a `file://` URI, or a missing list, is an ill-formed answer.
  test.each<JsonValue>([
    {},
    { roots: {} },
    { roots: ['file:///a'] },
    { roots: [{}] },
    { roots: [{ uri: 'https://a.example' }] },
    { roots: [{ uri: ['file:///a'] }] },
    { roots: [{ uri: { toString: 1, valueOf: 1 } }] },
  ])('that cannot be one is named and goes nowhere: %j (roots: file URIs only)', (value) => {
    expect(problem(back, value)).not.toBe('none');
  });
});

// Rule closing-1.
describe('a question that nobody will answer', () => {
  test('is cancelled when it is an elicitation', () => {
    expect(closeOutReply('elicitation-form')).toEqual({ result: { action: 'cancel' } });
    expect(closeOutReply('elicitation-url')).toEqual({ result: { action: 'cancel' } });
  });

  test('is refused as a user would when it is a sampling request', () => {
    expect(closeOutReply('sampling')).toMatchObject({ error: { code: -1 } });
  });

  test('is an internal error when it is a roots request', () => {
    expect(closeOutReply('roots')).toMatchObject({ error: { code: -32603 } });
  });
});

test('a property of an answer may have any name without changing what the answer is', () => {
  const { back } = surfaced('elicitation/create', FORM);
  const names = fc.constantFrom('toString', 'constructor', 'hasOwnProperty', 'action', 'length');
  fc.assert(
    fc.property(fc.dictionary(names, fc.string(), { noNullPrototype: true }), (content) => {
      expect(sent(back, { action: 'accept', content })).toEqual({
        result: { action: 'accept', content },
      });
    }),
  );
});
