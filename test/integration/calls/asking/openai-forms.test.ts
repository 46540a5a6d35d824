/** Forms of OpenAI's extension on the way from a server of the official SDK to modern clients, wherever the call goes meanwhile. */
import { fileURLToPath } from 'node:url';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { describe, expect, test } from 'vitest';
import { DIALECT_NAMES } from '../../../../src/dialects/dialects.ts';
import { DialectClient } from '../../../fixtures/clients/dialect-client.ts';
import { LegacyHttpClient, EventReader } from '../../../fixtures/clients/legacy-http.ts';
import { accept, callTool, send, type Exchanged } from '../../../fixtures/clients/modern-client.ts';
import {
  aboutTask,
  callForTask,
  TASK_CLIENT,
  untilTask,
} from '../../../fixtures/clients/task-client.ts';
import { withDialect } from '../../../fixtures/dialects/testbed.ts';
import { WIRES } from '../../../fixtures/dialects/wires.ts';
import { legacyGateway, text } from '../../../fixtures/gateways/legacy-gateway.ts';
import {
  legacyServer,
  replicas,
  stateOf,
  whileRetryable,
} from '../../../fixtures/gateways/replica-testbed.ts';
import { gatewayBefore, testGateway } from '../../../fixtures/gateways/test-gateway.ts';
import { RELAY_WAYS } from '../../../fixtures/relay-ways.ts';
import type { Tool } from '../../../fixtures/servers/legacy/tools.ts';
import {
  askOpenaiForm,
  OPENAI_CAPABILITIES,
  OPENAI_CONTENT,
  OPENAI_FORM,
  OPENAI_SCHEMA,
  pickPart,
  shownOpenaiForm,
} from '../../../fixtures/servers/openai-form.ts';
import {
  eventStream,
  INITIALIZE_RESULT,
  json,
  ScriptedServer,
} from '../../../fixtures/servers/scripted-server.ts';
import { stopAfterTest } from '../../../fixtures/stop-after-test.ts';

const SHOWS_THEM = { capabilities: OPENAI_CAPABILITIES };
const ANSWER = accept(OPENAI_CONTENT);
const TOLD = JSON.stringify(ANSWER);
const tools = { pick: pickPart };

/** The answer to the one question of a call, which is the form as the server asked it, to the letter. */
function answered(asked: Exchanged) {
  const { inputRequests } = asked.response.result;
  expect(Object.values(inputRequests)).toEqual([shownOpenaiForm()]);
  expect(asked.text).toContain(`{"requestedSchema":${JSON.stringify(OPENAI_SCHEMA)}}`);
  const inputResponses = { [Object.keys(inputRequests)[0]!]: ANSWER };
  return { requestState: stateOf(asked), inputResponses };
}

// Rules openai-1, openai-4.
test.each(['streamable-http', 'http-sse', 'stdio'] as const)(
  'a form of a server over %s is shown by the official client as it is, and answered',
  async (transport) => {
    const url =
      transport === 'stdio'
        ? (
            await testGateway({
              command: process.execPath,
              args: [
                fileURLToPath(new URL('../../../fixtures/servers/form-server.js', import.meta.url)),
              ],
            })
          ).url
        : (await legacyGateway({ tools, transport })).url;
    const client = new Client(
      { name: 'official', version: '1.0.0' },
      {
        versionNegotiation: { mode: { pin: '2026-07-28' } },
        capabilities: OPENAI_CAPABILITIES,
      },
    );
    stopAfterTest(() => client.close());
    const asked: unknown[] = [];
    client.setRequestHandler('elicitation/create', ({ method, params }) => {
      asked.push({ method, params });
      return { action: 'accept' as const, content: { part: 'file:///bolt.stl', washers: ['m6'] } };
    });
    await client.connect(new StreamableHTTPClientTransport(new URL(url)));
    const { content } = await client.callTool({
      name: 'pick',
      arguments: { form: OPENAI_FORM.params },
    });
    expect(asked).toEqual([shownOpenaiForm()]);
    const told = { action: 'accept', content: { part: 'file:///bolt.stl', washers: ['m6'] } };
    expect(content).toEqual([{ type: 'text', text: JSON.stringify(told) }]);
  },
);

// Rule openai-1.
test('a form keeps the spelling of numbers that JavaScript would write differently, and so does its answer', async () => {
  const schema = '{"properties":{"n":{"minimum":1.0,"maximum":12345678901234567890}}}';
  const n = { minimum: JSON.rawJSON('1.0'), maximum: JSON.rawJSON('12345678901234567890') };
  const params = { message: 'm', requestedSchema: { properties: { n } } };
  let stream: ReturnType<typeof eventStream> | undefined;
  let callId: unknown;
  const server = await ScriptedServer.start(({ method, body }, response) => {
    if (method !== 'POST') return void response.writeHead(method === 'GET' ? 405 : 200).end();
    if (body.method === 'initialize') {
      const message = { jsonrpc: '2.0', id: body.id, result: INITIALIZE_RESULT };
      return json(response, 200, message, { 'mcp-session-id': 's' });
    }
    if (body.method === 'tools/call') {
      callId = body.id;
      stream = eventStream(response);
      return stream.send({ jsonrpc: '2.0', id: 'q', method: OPENAI_FORM.method, params });
    }
    response.writeHead(202).end();
    if (body.id !== 'q') return;
    stream?.send({ jsonrpc: '2.0', id: callId, result: { content: [] } });
  });
  const { gateway } = await gatewayBefore(server, { transport: 'streamable-http' });
  const shown = await callTool(gateway.url, 'ask', {}, SHOWS_THEM);
  expect(shown.text).toContain(`{"requestedSchema":${schema}}`);
  const inputResponses = { q: accept({ n: JSON.rawJSON('2.0') }) };
  await callTool(gateway.url, 'ask', { requestState: stateOf(shown), inputResponses }, SHOWS_THEM);
  const sent = server.received.find(({ body }) => body?.id === 'q');
  expect(sent?.text).toContain('"content":{"n":2.0}');
});

// Rules openai-1, tasks-3.
test.each(['streamable-http', 'http-sse'] as const)(
  'a form of a tool that a server over %s runs as a task is a question of the call',
  async (transport) => {
    const tasks = { pick: { taskSupport: 'required' } } as const;
    const { url } = await legacyGateway({ tools, tasks, transport });
    const asked = await callTool(url, 'pick', {}, SHOWS_THEM);
    const done = await callTool(url, 'pick', answered(asked), SHOWS_THEM);
    expect(JSON.parse(text(done)!)).toMatchObject(ANSWER);
  },
);

// Rules openai-1, promoted-2.
test('a form of a call that became a task is in the task, and is answered there', async () => {
  const { url } = await legacyGateway({ tools }, { tasks: { promote: 'interactive' } });
  const extensions = { ...TASK_CLIENT.extensions, ...OPENAI_CAPABILITIES.extensions };
  const as = { capabilities: { ...TASK_CLIENT, extensions } };
  const { response } = await callForTask(url, 'pick', {}, as);
  const { taskId } = response.result;
  const { inputRequests } = await untilTask(url, taskId, ['input_required'], as);
  expect(Object.values(inputRequests)).toEqual([shownOpenaiForm()]);
  const inputResponses = { [Object.keys(inputRequests)[0]!]: ANSWER };
  await aboutTask(url, 'update', taskId, { inputResponses }, as);
  const { result: done } = await untilTask(url, taskId, ['completed'], as);
  expect(done.content[0].text).toBe(TOLD);
});

// Rules openai-1, closing-1.
test('a form that nobody answers is cancelled at the server with its call', async () => {
  const { url, legacy, gateway } = await legacyGateway({ tools }, { parking: { ttlMs: 300 } });
  await callTool(url, 'pick', {}, SHOWS_THEM);
  await gateway.log.saw('call.ended');
  const told = await legacy.saw('response');
  expect(told.body.result).toEqual({ action: 'cancel' });
});

// Rules openai-1, shown-8.
test('a form that its server takes back is not answered, and the retry gets what the tool did without it', async () => {
  const patience = new AbortController();
  const pick: Tool = (call) =>
    askOpenaiForm(call, {}, patience.signal).then(
      () => 'answered',
      () => 'went on without it',
    );
  const { url, legacy, gateway } = await legacyGateway({ tools: { pick } });
  const asked = await callTool(url, 'pick', {}, SHOWS_THEM);
  patience.abort();
  await gateway.log.saw('call.result_ready');
  const retried = await callTool(url, 'pick', answered(asked), SHOWS_THEM);
  expect(text(retried)).toBe('went on without it');
  expect(legacy.methods()).not.toContain('response');
});

// Rules openai-1, shown-8.
test('a form that its server takes back at once is shown to nobody', async () => {
  const pick: Tool = async (call) => {
    const patience = new AbortController();
    const asked = askOpenaiForm(call, {}, patience.signal);
    patience.abort();
    await asked.catch(() => {});
    return 'went on without it';
  };
  const { url, legacy } = await legacyGateway({ tools: { pick } });
  expect(text(await callTool(url, 'pick', {}, SHOWS_THEM))).toBe('went on without it');
  expect(legacy.methods()).not.toContain('response');
});

// Rules openai-4, audit-1.
test('a form that is answered or declined is one audit line, and no log has the form or the answer', async () => {
  const pick: Tool = async (call) =>
    JSON.stringify(await askOpenaiForm(call, { message: 'secret question?' }));
  const config = { log: { level: 'trace', format: 'json' } };
  const [one] = await replicas(await legacyServer({ tools: { pick } }), 1, { config });
  for (const answer of [accept({ part: 'secret answer' }), { action: 'decline' }]) {
    const asked = await callTool(one.url, 'pick', {}, SHOWS_THEM);
    const [key = ''] = Object.keys(asked.response.result.inputRequests);
    const retry = { requestState: stateOf(asked), inputResponses: { [key]: answer } };
    expect(JSON.parse(text(await callTool(one.url, 'pick', retry, SHOWS_THEM))!)).toEqual(answer);
  }
  const none = { accepted: 0, declined: 0, cancelled: 0, failed: 0 };
  expect(await one.written('audit')).toMatchObject([
    { target: 'pick', recoveredBy: 'here', ...none, accepted: 1 },
    { target: 'pick', recoveredBy: 'here', ...none, declined: 1 },
  ]);
  expect(JSON.stringify(one.lines())).not.toMatch(/secret|x-openai-input|bolt/);
});

// Rules openai-1, dialects-1.
describe.each(DIALECT_NAMES)('in the dialect %s', (dialect) => {
  test('a form is shown as it is, and answered', async () => {
    const { ask, retry, questionsOf, textOf } = WIRES[dialect];
    const { url } = await legacyGateway({ tools }, withDialect(dialect, '/draft'));
    const client = await DialectClient.connect(url, '/draft', SHOWS_THEM);
    const asked = await client.send(ask('pick', {}));
    const [question, ...others] = questionsOf(asked);
    expect(others).toEqual([]);
    expect(question?.params).toMatchObject({
      _meta: { 'openai/elicitation': { requestedSchema: OPENAI_SCHEMA } },
    });
    const answers = { [question!.key]: ANSWER };
    expect(textOf(await client.send(retry('pick', {}, asked, answers)))).toBe(TOLD);
  });
});

for (const { way, tags, options } of RELAY_WAYS)
  describe(`among replicas that relay ${way}`, { tags, timeout: 60_000 }, () => {
    // Rules openai-1, relay-1.
    test('a form is answered through another replica', async () => {
      const [one, other] = await replicas(await legacyServer({ tools }), 2, await options());
      const asked = await callTool(one.url, 'pick', {}, SHOWS_THEM);
      const done = await callTool(other.url, 'pick', answered(asked), SHOWS_THEM);
      expect(text(done)).toBe(TOLD);
    });

    // Rules openai-1, reattach-1.
    test('a form is answered where the replica that showed it was killed', async () => {
      const legacy = await legacyServer({ tools, keepsEvents: true });
      const [one, other] = await replicas(legacy, 2, await options());
      const asked = await callTool(one.url, 'pick', {}, SHOWS_THEM);
      await one.kill();
      const retry = () => callTool(other.url, 'pick', answered(asked), SHOWS_THEM);
      // Where a store has the claim of the replica that was killed, its lease has to end first.
      expect(text(await whileRetryable(retry))).toBe(TOLD);
      expect(await other.recoveries()).toEqual(['reattach']);
    });
  });

describe('a lost call that another replica makes again', () => {
  /** Answers the first form of a tool, kills the replica that shows the second one, and answers that at another one. */
  async function replayed(pick: Tool) {
    const route = { continuation: { replay: { tools: ['pick'] } } };
    const [one, other] = await replicas(await legacyServer({ tools: { pick } }), 2, { route });
    const first = await callTool(one.url, 'pick', {}, SHOWS_THEM);
    const second = await callTool(one.url, 'pick', answered(first), SHOWS_THEM);
    const [key = ''] = Object.keys(second.response.result.inputRequests);
    await one.kill();
    const inputResponses = { [key]: accept({ size: 's' }) };
    const retry = { requestState: stateOf(second), inputResponses };
    const told = await callTool(other.url, 'pick', retry, SHOWS_THEM);
    expect(await other.recoveries()).toEqual(['replay']);
    return { other, told };
  }

  // Rules openai-1, replay-3.
  test('answers the forms that it repeats from what was answered before', async () => {
    const told: object[] = [];
    const done = await replayed(async (call) => {
      for (const message of ['Which part?', 'Which one then?']) {
        told.push(await askOpenaiForm(call, { message }));
      }
      return 'picked';
    });
    expect(text(done.told)).toBe('picked');
    expect(told).toEqual([ANSWER, ANSWER, accept({ size: 's' })]);
  });

  // Rules openai-1, replay-3.
  test('asks for a form of the same words whose schema is another one', async () => {
    let calls = 0;
    const { other, told } = await replayed(async (call) => {
      calls += 1;
      const requestedSchema = calls === 1 ? OPENAI_SCHEMA : { ...OPENAI_SCHEMA, required: [] };
      await askOpenaiForm(call, { requestedSchema });
      return JSON.stringify(await askOpenaiForm(call, { message: 'Which one then?' }));
    });
    const [[key, { params }] = ['', { params: {} as never }], ...others] = Object.entries<
      ReturnType<typeof shownOpenaiForm>
    >(told.response.result.inputRequests);
    expect(others).toEqual([]);
    expect(params._meta['openai/elicitation'].requestedSchema.required).toEqual([]);
    const inputResponses = { [key]: ANSWER };
    const retry = { requestState: stateOf(told), inputResponses };
    const done = await callTool(other.url, 'pick', retry, SHOWS_THEM);
    expect(JSON.parse(text(done)!)).toEqual(accept({ size: 's' }));
  });
});

describe('a legacy client', () => {
  // Rule openai-5: Legacy clients and modern servers exchange these forms unchanged.
  test.each(['over HTTP', 'over stdio'])(
    'is asked by a server %s with its own request',
    async (how) => {
      const args = [
        fileURLToPath(new URL('../../../fixtures/servers/form-server.js', import.meta.url)),
      ];
      const { url } =
        how === 'over stdio'
          ? await testGateway({ command: process.execPath, args })
          : await legacyGateway({ tools });
      const client = await LegacyHttpClient.open(url);
      const stream = new EventReader(
        await client.send(client.callOf('pick', { form: OPENAI_FORM.params })),
      );
      const question = await stream.next();
      expect(question?.message).toMatchObject(OPENAI_FORM);
      await client.post({ jsonrpc: '2.0', id: question?.message.id, result: ANSWER });
      expect((await stream.next())?.message.result.content[0].text).toBe(TOLD);
    },
  );
});

describe('a modern server', () => {
  // Rule openai-5.
  test('asks modern clients itself', async () => {
    const inputRequests = { part: shownOpenaiForm() };
    const result = { resultType: 'input_required', inputRequests, requestState: 'state' };
    const discovered = {
      resultType: 'complete',
      supportedVersions: ['2026-07-28'],
      capabilities: { tools: {}, extensions: { 'com.example/any': { a: [1] } } },
      ttlMs: 0,
      cacheScope: 'private',
    };
    const server = await ScriptedServer.start(({ body }, response) => {
      const isCall = body.method === 'tools/call';
      json(response, 200, { jsonrpc: '2.0', id: body.id, result: isCall ? result : discovered });
    });
    const { gateway } = await gatewayBefore(server, { upstream: { era: 'modern' } });
    const shown = await send(
      gateway.url,
      'tools/call',
      { name: 'pick', arguments: {} },
      SHOWS_THEM,
    );
    expect(shown.response.result).toEqual(result);
    const told = await send(gateway.url, 'server/discover');
    expect(told.response.result).toEqual(discovered);
    const declared = server.received.find(({ body }) => body.method === 'tools/call')?.body.params
      ._meta;
    expect(declared['io.modelcontextprotocol/clientCapabilities']).toEqual(OPENAI_CAPABILITIES);
  });
});
