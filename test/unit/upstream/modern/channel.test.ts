/** A session of a legacy client in front of a server of 2026-07-28 that says what a test wants. */
import { expect, test } from 'vitest';
import { ManualClock } from '../../../fixtures/manual-clock.ts';
import type { SessionListener } from '../../../../src/model/channel.ts';
import type { ModernListener, ModernServerRequest } from '../../../../src/model/modern-server.ts';
import { UpstreamFailure } from '../../../../src/model/upstream-failure.ts';
import type { JsonObject } from '../../../../src/protocol/json.ts';
import type { JsonRpcErrorObject } from '../../../../src/protocol/json-rpc.ts';
import { ModernChannel } from '../../../../src/upstream/modern/channel.ts';

interface Sent {
  readonly request: ModernServerRequest;
  readonly listener: ModernListener;
  isCancelled: boolean;
}

const CALL = { id: 1, method: 'tools/call', params: { name: 'tool' } };
const DISCOVERED = {
  resultType: 'complete',
  supportedVersions: ['2026-07-28'],
  capabilities: { tools: {}, logging: {}, resources: { subscribe: true } },
};
const form = (message: string) => ({
  method: 'elicitation/create',
  params: { mode: 'form', message, requestedSchema: { type: 'object', properties: {} } },
});

async function session(capabilities: object = { elicitation: {} }, revision = '2025-11-25') {
  const clock = new ManualClock();
  const sent: Sent[] = [];
  const told: { message: JsonObject; about: unknown }[] = [];
  const refused: unknown[] = [];
  let doubts = 0;
  const listener: SessionListener = {
    messages: (_messages, line, about) => told.push({ message: JSON.parse(line), about }),
    refused: (id, line, refusal) => refused.push({ id, line, refusal }),
    dropped: () => {},
    ended: () => {},
  };
  const channel = new ModernChannel(listener, {
    clock,
    maxCallMs: 3_600_000,
    requestTimeoutMs: 60_000,
    onDoubt: () => (doubts += 1),
    server: {
      hasHeaders: false,
      send: (request, of) => {
        const one: Sent = { request, listener: of, isCancelled: false };
        sent.push(one);
        return { cancel: () => (one.isCancelled = true), pause: () => {}, resume: () => {} };
      },
    },
  });
  const settled = () => new Promise((resolve) => setImmediate(resolve));
  const say = async (message: object, headers = {}) => {
    await channel.send(JSON.stringify({ jsonrpc: '2.0', ...message }), headers);
    await settled();
  };
  const field = {
    ...{ clock, channel, sent, told, refused, say, settled, doubts: () => doubts },
    /** Takes what the client was told last. */
    last: () => told.at(-1)?.message ?? {},
    request: () => sent.at(-1)!.request,
    reply: async (result: object) => {
      sent.at(-1)!.listener.replied({ result: result as JsonObject });
      await settled();
    },
    fail: async (error: JsonRpcErrorObject | UpstreamFailure) => {
      const { listener: of } = sent.at(-1)!;
      if (error instanceof UpstreamFailure) of.failed(error);
      else of.replied({ error });
      await settled();
    },
    wait: async (ms: number) => {
      clock.advance(ms);
      await settled();
    },
  };
  const params = {
    protocolVersion: revision,
    capabilities,
    clientInfo: { name: 'c', version: '1' },
  };
  await say({ id: 0, method: 'initialize', params });
  await field.reply(DISCOVERED);
  await say({ method: 'notifications/initialized' });
  return field;
}

// Rule back-15: `initialize` agrees to the revision that the client asks for, or to the newest one.
test.each([
  ['2025-11-25', '2025-11-25'],
  ['2024-11-05', '2024-11-05'],
  ['2099-01-01', '2025-11-25'],
])('a client that asks for %s gets %s', async (asked, agreed) => {
  const field = await session({}, asked);
  expect(field.told[0]?.message).toMatchObject({
    result: { protocolVersion: agreed, serverInfo: { name: 'unknown' } },
  });
});

// Rule back-16: What the client declares goes with each request, without tasks and changes of roots.
test('each request says what the client declared, and keeps the rest of its _meta', async () => {
  const declared = { roots: { listChanged: true }, tasks: {}, sampling: { tools: {} } };
  const field = await session({ ...declared, elicitation: { form: {}, url: {} } });
  const _meta = { progressToken: 7, traceparent: 't', 'io.modelcontextprotocol/x': 1 };
  await field.say({ ...CALL, params: { name: 'tool', task: {}, _meta } }, { authorization: 'a' });
  expect(field.request()).toMatchObject({ method: 'tools/call', headers: { authorization: 'a' } });
  expect(field.request().params).toEqual({
    name: 'tool',
    _meta: {
      ...{ progressToken: 7, traceparent: 't' },
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientInfo': { name: 'c', version: '1' },
      'io.modelcontextprotocol/clientCapabilities': {
        sampling: { tools: {} },
        elicitation: { form: {}, url: {} },
        roots: {},
      },
    },
  });
});

// Rule back-7.
test.each([
  ['2025-06-18', { elicitation: {} }],
  ['2025-03-26', {}],
])('a client of %s declares to the server %j', async (revision, expected) => {
  const field = await session({ elicitation: { url: {} } }, revision);
  await field.say(CALL);
  expect(field.request().params['_meta']).toMatchObject({
    'io.modelcontextprotocol/clientCapabilities': expected,
  });
});

// Rule back-2.
test('a question is asked in its call, and the answers and the state go back as they are', async () => {
  const field = await session();
  await field.say(CALL);
  const inputRequests = { a: form('A?'), b: form('B?') };
  await field.reply({ resultType: 'input_required', inputRequests, requestState: 'state' });
  const asked = field.told.slice(-2);
  expect(asked).toMatchObject([
    { about: 1, message: { method: 'elicitation/create', params: { message: 'A?' } } },
    { about: 1, message: { method: 'elicitation/create', params: { message: 'B?' } } },
  ]);
  for (const { message } of asked.toReversed()) {
    await field.say({ id: message['id'], result: { action: 'accept', content: { x: 1.5 } } });
  }
  const answer = { action: 'accept', content: { x: 1.5 } };
  expect(field.request().params).toMatchObject({
    inputResponses: { a: answer, b: answer },
    requestState: 'state',
  });
  await field.reply({ resultType: 'complete', content: [], ttlMs: 5, cacheScope: 'private' });
  expect(field.last()).toEqual({ jsonrpc: '2.0', id: 1, result: { content: [] } });
});

// Rule back-7.
test('a round with one question that was not declared is not shown at all', async () => {
  const field = await session();
  await field.say(CALL);
  const before = field.told.length;
  const inputRequests = { a: form('A?'), b: { method: 'sampling/createMessage', params: {} } };
  await field.reply({ resultType: 'input_required', inputRequests });
  const text = expect.stringContaining('supports sampling');
  expect(field.told.slice(before).map(({ message }) => message)).toMatchObject([
    { id: 1, result: { isError: true, content: [{ text }] } },
  ]);
});

// Rule back-18: An answer that is an error fails the call with its text.
test('a client that answers with an error ends its call', async () => {
  const field = await session();
  await field.say(CALL);
  const inputRequests = { a: form('A?'), b: form('B?') };
  await field.reply({ resultType: 'input_required', inputRequests });
  const [first, second] = field.told.slice(-2);
  await field.say({ id: first?.message['id'], error: { code: -1, message: 'no screen' } });
  const rest = field.told.slice(-2).map(({ message }) => message);
  expect(rest).toContainEqual(
    expect.objectContaining({
      method: 'notifications/cancelled',
      params: { requestId: second?.message['id'] },
    }),
  );
  expect(JSON.stringify(rest)).toContain('no screen');
});

// Rule back-19: A question waits ten minutes for its answer. Then its request fails with a timeout.
test('a question without an answer ends its call after ten minutes', async () => {
  const field = await session();
  await field.say({ ...CALL, method: 'prompts/get' });
  await field.reply({ resultType: 'input_required', inputRequests: { a: form('A?') } });
  await field.wait(599_000);
  expect(field.last()['method']).toBe('elicitation/create');
  await field.wait(1_000);
  expect(field.told.slice(-2).map(({ message }) => message)).toContainEqual(
    expect.objectContaining({ id: 1, error: expect.objectContaining({ code: -32603 }) }),
  );
});

// Rule back-3.
test('the pauses between rounds without a question grow from 250 ms to 5 s', async () => {
  const field = await session();
  await field.say(CALL);
  for (const pauseMs of [250, 500, 1_000, 2_000, 4_000, 5_000, 5_000]) {
    const before = field.sent.length;
    await field.reply({ resultType: 'input_required', requestState: 's' });
    await field.wait(pauseMs - 1);
    expect(field.sent).toHaveLength(before);
    await field.wait(1);
    expect(field.request().params['requestState']).toBe('s');
  }
});

// Rule back-19.
test('a request whose question is not answered in time fails as one that took too long', async () => {
  const field = await session();
  await field.say({ id: 1, method: 'prompts/get', params: { name: 'prompt' } });
  await field.reply({ resultType: 'input_required', inputRequests: { a: form('A?') } });
  await field.wait(600_000);
  expect(field.last()).toMatchObject({
    id: 1,
    error: { code: -32603, data: { reason: 'upstream_timeout', mayHaveActed: 'yes' } },
  });
});

// Rule openai-5.
test('a rich form is asked with openai/elicitation/create', async () => {
  const field = await session({ extensions: { 'openai/elicitation': { form: {} } } });
  await field.say(CALL);
  const capabilities = 'io.modelcontextprotocol/clientCapabilities';
  expect(field.request().params['_meta']).toMatchObject({
    [capabilities]: {
      elicitation: { form: {} },
      extensions: { 'openai/elicitation': { form: {} } },
    },
  });
  const requestedSchema = { type: 'object', 'x-openai-input': { n: 1 } };
  const _meta = { 'openai/elicitation': { requestedSchema, other: 1 }, vendor: 2 };
  const { method, params } = form('Rich?');
  const inputRequests = { a: { method, params: { ...params, _meta } }, b: form('Plain?') };
  await field.reply({ resultType: 'input_required', inputRequests });
  expect(field.told.slice(-2).map(({ message }) => message)).toMatchObject([
    {
      method: 'openai/elicitation/create',
      params: {
        message: 'Rich?',
        requestedSchema,
        _meta: { 'openai/elicitation': { other: 1 }, vendor: 2 },
      },
    },
    { method: 'openai/elicitation/create', params: { message: 'Plain?' } },
  ]);
});

// Rule back-21: A tool that needs a task gets one: the gateway polls it, asks its questions and returns its result.
test('a call that needs tasks is made with them, and its client gets the result', async () => {
  const field = await session();
  await field.say(CALL);
  const requiredCapabilities = { extensions: { 'io.modelcontextprotocol/tasks': {} } };
  await field.fail({ code: -32021, message: 'tasks', data: { requiredCapabilities } });
  expect(field.request().params['_meta']).toMatchObject({
    'io.modelcontextprotocol/clientCapabilities': requiredCapabilities,
  });
  const task = { taskId: 't-1', pollIntervalMs: 2_000 };
  await field.reply({ resultType: 'task', status: 'working', ...task });
  await field.wait(2_000);
  expect(field.request()).toMatchObject({ method: 'tasks/get', params: { taskId: 't-1' } });
  const asking = { status: 'input_required', inputRequests: { a: form('A?') }, ...task };
  await field.reply(asking);
  await field.say({ id: field.last()['id'], result: { action: 'decline' } });
  expect(field.request()).toMatchObject({
    method: 'tasks/update',
    params: { taskId: 't-1', inputResponses: { a: { action: 'decline' } } },
  });
  await field.reply({});
  await field.wait(2_000);
  const questions = field.told.length;
  // The server has not taken the answer in yet.
  await field.reply(asking);
  expect(field.told).toHaveLength(questions);
  await field.wait(2_000);
  await field.reply({ status: 'completed', result: { content: [] }, ...task });
  expect(field.last()).toEqual({ jsonrpc: '2.0', id: 1, result: { content: [] } });
});

// Rule back-21.
test('the state of a task is asked for again where the response broke off, five times at most', async () => {
  const field = await session();
  await field.say(CALL);
  const requiredCapabilities = { extensions: { 'io.modelcontextprotocol/tasks': {} } };
  await field.fail({ code: -32021, message: 'tasks', data: { requiredCapabilities } });
  await field.reply({ resultType: 'task', status: 'working', taskId: 't-1' });
  const broken = new UpstreamFailure('upstream_unavailable', 'cut', { mayHaveActed: true });
  const breaks = async (times: number) => {
    for (let i = 0; i < times; i += 1) {
      expect(field.request().method).toBe('tasks/get');
      await field.fail(broken);
      await field.wait(5_000);
    }
  };
  await field.wait(1_000);
  await breaks(4);
  await field.reply({ status: 'working', taskId: 't-1' });
  await field.wait(1_000);
  await breaks(5);
  expect(field.last()).toMatchObject({ id: 1, result: { isError: true } });
  expect(field.request().method).toBe('tasks/cancel');
});

test('a task is cancelled with the call of its client', async () => {
  const field = await session();
  await field.say(CALL);
  const requiredCapabilities = { extensions: { 'io.modelcontextprotocol/tasks': {} } };
  await field.fail({ code: -32021, message: 'tasks', data: { requiredCapabilities } });
  await field.reply({ resultType: 'task', status: 'working', taskId: 't-1' });
  const before = field.told.length;
  await field.say({ method: 'notifications/cancelled', params: { requestId: 1 } });
  expect(field.request()).toMatchObject({ method: 'tasks/cancel', params: { taskId: 't-1' } });
  expect(field.told).toHaveLength(before);
});

// Rule back-10.
test('a cancelled call withdraws its question, and its client gets no reply', async () => {
  const field = await session();
  await field.say(CALL);
  await field.reply({ resultType: 'input_required', inputRequests: { a: form('A?') } });
  const { id } = field.last();
  await field.say({ method: 'notifications/cancelled', params: { requestId: 1 } });
  expect(field.last()).toMatchObject({
    method: 'notifications/cancelled',
    params: { requestId: id },
  });
});

// Rule back-22: Methods of MCP that no modern server has get -32601. Vendors' methods are sent unchanged.
test('what no server of 2026-07-28 has is refused, and what a vendor has is sent', async () => {
  const field = await session();
  for (const method of ['tasks/list', 'server/discover', 'subscriptions/listen', 'sampling/x']) {
    await field.say({ id: method, method, params: {} });
    expect(field.last()).toMatchObject({ id: method, error: { code: -32601 } });
  }
  await field.say({ id: 2, method: 'acme/thing', params: { a: 1 } });
  expect(field.request()).toMatchObject({ method: 'acme/thing', params: { a: 1 } });
  await field.fail({ code: -32000, message: 'as sent', data: [1] });
  expect(field.last()).toMatchObject({ error: { code: -32000, message: 'as sent', data: [1] } });
});

test('an unsupported version makes the era doubtful', async () => {
  const field = await session();
  await field.say(CALL);
  await field.fail({ code: -32022, message: 'gone', data: { supported: ['2025-11-25'] } });
  expect(field.doubts()).toBe(1);
  expect(field.last()).toMatchObject({ id: 1, error: { code: -32022 } });
});

test('a request whose version the server refuses, and names, is sent again once', async () => {
  const field = await session();
  await field.say(CALL);
  const refused = { code: -32022, message: 'no', data: { supported: ['2026-07-28'] } };
  const before = field.sent.length;
  await field.fail(refused);
  expect(field.sent).toHaveLength(before + 1);
  expect(field.request()).toEqual(field.sent.at(-2)!.request);
  expect(field.doubts()).toBe(0);
  await field.fail(refused);
  expect(field.doubts()).toBe(1);
  expect(field.last()).toMatchObject({ id: 1, error: { code: -32022 } });
});

// Rule back-13.
test('refused credentials are told with their status', async () => {
  const field = await session();
  await field.say(CALL);
  const details = { mayHaveActed: false, httpStatus: 403, wwwAuthenticate: 'Bearer scope="x"' };
  await field.fail(new UpstreamFailure('unauthorized', 'refused', details));
  expect(field.refused).toMatchObject([
    { id: 1, refusal: { httpStatus: 403, headers: { 'www-authenticate': 'Bearer scope="x"' } } },
  ]);
});

// Rule back-9.
test('a gap in what the server tells is followed by each change, once', async () => {
  const field = await session();
  await field.say({ id: 5, method: 'resources/subscribe', params: { uri: 'memo://a' } });
  const acknowledge = () =>
    field.sent.at(-1)!.listener.notified('notifications/subscriptions/acknowledged', {
      notifications: { resourceSubscriptions: ['memo://a'] },
    });
  acknowledge();
  await field.settled();
  expect(field.last()).toMatchObject({ id: 5, result: {} });
  await field.reply({});
  const before = field.told.length;
  await field.wait(1_000);
  acknowledge();
  await field.settled();
  expect(field.told.slice(before)).toMatchObject([
    {
      about: null,
      message: { method: 'notifications/resources/updated', params: { uri: 'memo://a' } },
    },
  ]);
});

test('what listened with credentials that were refused listens soon again with those of a later GET', async () => {
  const field = await session();
  const first = { authorization: 'first' };
  await field.say({ id: 5, method: 'resources/subscribe', params: { uri: 'memo://a' } }, first);
  field.sent.at(-1)!.listener.notified('notifications/subscriptions/acknowledged', {
    notifications: { resourceSubscriptions: ['memo://a'] },
  });
  await field.settled();
  await field.reply({});
  const refused = new UpstreamFailure('unauthorized', 'refused', { mayHaveActed: false });
  for (const pauseMs of [1_000, 2_000, 4_000]) {
    await field.wait(pauseMs);
    await field.fail(refused);
  }
  const before = field.sent.length;
  field.channel.renew({ authorization: 'first' });
  await field.wait(1_000);
  expect(field.sent).toHaveLength(before);
  field.channel.renew({ authorization: 'second' });
  await field.wait(1_000);
  expect(field.sent).toHaveLength(before + 1);
  expect(field.request()).toMatchObject({
    method: 'subscriptions/listen',
    headers: { authorization: 'second' },
  });
});

test('a resource that the server does not tell of gets -32602', async () => {
  const field = await session();
  await field.say({ id: 5, method: 'resources/subscribe', params: { uri: 'memo://a' } });
  const { listener } = field.sent.at(-1)!;
  listener.notified('notifications/subscriptions/acknowledged', { notifications: {} });
  await field.settled();
  expect(field.last()).toMatchObject({ id: 5, error: { code: -32602 } });
  expect(field.sent.at(-1)?.isCancelled).toBe(true);
});

// Rule back-29: A malformed message gets an error. Params that are `null` count as absent.
test('params that are no object get an error, and an answer that is none ends its question', async () => {
  const field = await session();
  await field.say({ id: 7, method: 'tools/list', params: null });
  expect(field.request()).toMatchObject({ method: 'tools/list' });
  await field.say({ id: 8, method: 'tools/list', params: [] });
  expect(field.last()).toMatchObject({ id: 8, error: { code: -32600 } });
  await field.say({ id: 9, method: 'acme/中', params: {} });
  expect(field.last()).toMatchObject({ id: 9, error: { code: -32601 } });
  await field.say(CALL);
  await field.reply({ resultType: 'input_required', inputRequests: { a: form('A?') } });
  await field.say({ id: field.last()['id'], result: null });
  expect(field.last()).toMatchObject({ id: 1, result: { isError: true } });
});

test('an initialize that the server refuses makes the era doubtful', async () => {
  const field = await session();
  await field.say({ id: 2, method: 'initialize', params: { protocolVersion: '2025-11-25' } });
  await field.fail({ code: -32601, message: 'Method not found' });
  expect(field.doubts()).toBe(1);
});

// Rule back-13.
test('a round is sent again with the token that the answer came with', async () => {
  const field = await session();
  await field.say(CALL, { authorization: 'old', 'x-tenant': 'a' });
  await field.reply({ resultType: 'input_required', inputRequests: { a: form('A?') } });
  const answer = { id: field.last()['id'], result: { action: 'decline' } };
  await field.say(answer, { authorization: 'new', 'mcp-param-x': 'y' });
  expect(field.request().headers).toEqual({ authorization: 'new', 'x-tenant': 'a' });
});

// Rule back-9.
test('a subscription that fails while nothing listens leaves the earlier ones to be listened for again', async () => {
  const field = await session();
  const subscribe = (id: number, uri: string) =>
    field.say({ id, method: 'resources/subscribe', params: { uri } });
  const acknowledge = (...uris: string[]) =>
    field.sent.at(-1)!.listener.notified('notifications/subscriptions/acknowledged', {
      notifications: { resourceSubscriptions: uris },
    });
  await subscribe(5, 'memo://a');
  acknowledge('memo://a');
  await field.settled();
  await field.reply({});
  await subscribe(6, 'memo://b');
  acknowledge();
  await field.settled();
  expect(field.last()).toMatchObject({ id: 6, error: { code: -32602 } });
  await field.wait(2_000);
  expect(field.request().params['notifications']).toEqual({ resourceSubscriptions: ['memo://a'] });
});
