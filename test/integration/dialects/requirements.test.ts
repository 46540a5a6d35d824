/** What the proposals demand of a server in words, beside their printed exchanges, in each dialect. */
import { describe, expect, test } from 'vitest';
import { DIALECT_NAMES, type DialectName } from '../../../src/dialects/dialects.ts';
import { DialectClient } from '../../fixtures/clients/dialect-client.ts';
import { accept } from '../../fixtures/clients/modern-client.ts';
import { proposalGateway } from '../../fixtures/dialects/testbed.ts';
import { WIRES } from '../../fixtures/dialects/wires.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';
import type { Tool } from '../../fixtures/servers/legacy/tools.ts';
import { askName } from '../../fixtures/servers/legacy-server.ts';

const DRAFTS = ['first-draft', 'sep-2322', 'rewritten'] as const;
const WEATHER = { location: 'New York' };
const LOGIN = accept({ name: 'octocat' });

const chatty: Tool = async (call) => {
  const { progressToken = 0 } = call.extra._meta ?? {};
  const params = { progressToken, progress: 1 };
  await call.extra.sendNotification({ method: 'notifications/progress', params });
  return askName(call);
};

describe.each(DRAFTS)('%s', (dialect) => {
  const { retry, questionsOf } = WIRES[dialect];
  const request = (id: number, method: string, params: object) => ({
    ...{ jsonrpc: '2.0', id, method, params },
  });

  // Rule dialects-15: Prompts and resources ask as tools do.
  test.each([
    ['prompts/get', { name: 'greeting' }, 'messages'],
    ['resources/read', { uri: 'file:///greeting' }, 'contents'],
  ])('"Supported Requests": %s can ask', async (method, params, member) => {
    const { client } = await proposalGateway(dialect, '/draft', {
      server: {
        prompts: { greeting: async (call) => askName(call) },
        resources: { 'file:///greeting': async (call) => askName(call) },
      },
    });
    const asked = await client.send(request(1, method, params));
    const [question] = questionsOf(asked);
    expect(question?.key).toBe('elicitation-1');
    const answers = { 'elicitation-1': accept({ name: 'Ada' }) };
    // The answers and the state are where those of a tool call are.
    const { params: written, ...message } = retry('', {}, asked, answers) as {
      params: { name: string; arguments: object };
    };
    const { name: _name, arguments: _arguments, ...state } = written;
    const done = await client.send({ ...message, method, params: { ...params, ...state } });
    expect(JSON.stringify(done.result[member])).toContain('Ada');
  });

  // Rule dialects-13.
  test('"Error Handling": answers of a task that are no map are an error, and it goes on asking', async () => {
    const { client } = await proposalGateway(dialect, '/draft');
    const call = request(1, 'tools/call', { name: 'echo', task: { ttl: 60_000 } });
    const { taskId } = (await client.send(call)).result.task;
    await client.send(request(2, 'tasks/result', { taskId }));
    const _meta = { 'io.modelcontextprotocol/related-task': { taskId } };
    const malformed =
      dialect === 'first-draft'
        ? { jsonrpc: '2.0', id: 3, input_responses: 'yes', _meta }
        : request(3, 'tasks/input_response', { inputResponses: 'yes', _meta });
    expect((await client.send(malformed)).error.code).toBe(-32602);
    const { result } = await client.send(request(4, 'tasks/get', { taskId }));
    expect(result.status).toBe('input_required');
  });
});

// Rule dialects-16: The id of an expired task is unknown (-32602).
test('a task that nobody answers ends with its time', async () => {
  const clock = new ManualClock();
  const { client, legacy } = await proposalGateway('rewritten', '/draft', { clock });
  const call = { name: 'echo', task: { ttl: 60_000 } };
  const creating = client.send({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: call });
  await legacy.saw('tools/call');
  clock.advance(1);
  const { taskId } = (await creating).result.task;
  clock.advance(60_000);
  await legacy.saw('notifications/cancelled');
  const poll = { jsonrpc: '2.0', id: 2, method: 'tasks/get', params: { taskId } };
  expect((await client.send(poll)).error.code).toBe(-32602);
});

describe.each(DIALECT_NAMES)('%s', (dialect: DialectName) => {
  const { ask, retry, questionsOf, textOf } = WIRES[dialect];

  // Rule dialects-17: Ill-formed answers, and a changed state or token, get a JSON-RPC error. The call goes on.
  test('"Error Handling": malformed answers are an error, and the call goes on', async () => {
    const { client } = await proposalGateway(dialect, '/draft');
    const asked = await client.send(ask('get_weather', WEATHER));
    const [question] = questionsOf(asked);
    const answers = { [question!.key]: LOGIN };
    const text = JSON.stringify(retry('get_weather', WEATHER, asked, answers));
    const malformed = text.replace(
      /"(input_responses|inputResponses|completedSteps)":(\{.*?\}{2,4}|\[.*\])/,
      '"$1":"yes"',
    );
    expect(malformed).not.toBe(text);
    expect((await client.send(malformed)).error.code).toBe(-32602);
    const done = await client.send(retry('get_weather', WEATHER, asked, answers));
    expect(textOf(done)).toContain('Current weather');
  });

  // Rule dialects-17.
  test('"Security": a state that was changed is refused, and the call goes on', async () => {
    const { client } = await proposalGateway(dialect, '/draft');
    const asked = await client.send(ask('get_weather', WEATHER));
    const [question] = questionsOf(asked);
    const message = retry('get_weather', WEATHER, asked, { [question!.key]: LOGIN });
    const forged = JSON.stringify(message).replace(
      /("(?:request_state|requestState|sagaToken)":"[^"]{10})./,
      (_found, before: string) => `${before}~`,
    );
    expect(JSON.parse(forged)).not.toEqual(message);
    expect((await client.send(forged)).error.code).toBe(-32602);
    expect(textOf(await client.send(message))).toContain('Current weather');
  });

  // Rule dialects-10.
  test('a client without elicitation is not asked a form', async () => {
    const { gateway, legacy } = await proposalGateway(dialect, '/draft');
    const mute = await DialectClient.connect(gateway.url, '/draft', { capabilities: {} });
    const reply = await mute.send(ask('get_weather', WEATHER));
    expect(() => questionsOf(reply)).toThrow();
    const opened = legacy.received.filter(({ method }) => method === 'initialize');
    expect(opened.at(-1)?.body.params.capabilities).toEqual({});
  });

  // Rule dialects-6.
  test('an incomplete response is the last message', async () => {
    const { client } = await proposalGateway(dialect, '/draft', { server: { tools: { chatty } } });
    const message = ask('chatty', {}) as { params: object };
    const params = { ...message.params, _meta: { progressToken: 'p' } };
    const asked = await client.post({ ...message, params });
    expect(questionsOf(asked.body)).toHaveLength(1);
    expect(asked.streamed).toBe(dialect !== 'first-draft');
  });
});
