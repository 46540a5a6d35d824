/** What the first draft prints, message by message, in front of a legacy server that asks these questions. */
import { expect, test } from 'vitest';
import { accept } from '../../fixtures/clients/modern-client.ts';
import type { Tool } from '../../fixtures/servers/legacy/tools.ts';
import { askName } from '../../fixtures/servers/legacy-server.ts';
import { proposalGateway } from '../../fixtures/dialects/testbed.ts';
import { CAPITAL_OF_FRANCE, GITHUB_LOGIN } from '../../fixtures/dialects/proposal-tools.ts';

const PATH = '/drafts/first';
const state = expect.any(String);
const weather = (id: number) => ({
  jsonrpc: '2.0',
  id,
  method: 'tools/call',
  params: { name: 'get_weather', arguments: { location: 'New York' } },
});

test('"Example Flow for Ephemeral Tools": the weather call', async () => {
  const { client } = await proposalGateway('first-draft', PATH);
  const asked = await client.send(weather(2));
  expect(asked).toEqual({
    jsonrpc: '2.0',
    id: 2,
    input_requests: { github_login: GITHUB_LOGIN },
    request_state: state,
  });
  const done = await client.send({
    ...weather(3),
    input_responses: { github_login: { result: accept({ name: 'octocat' }) } },
    request_state: asked.request_state,
  });
  expect(done).toEqual({
    jsonrpc: '2.0',
    id: 3,
    result: {
      content: [
        {
          type: 'text',
          text: 'Current weather in New York:\nTemperature: 72°F\nConditions: Partly cloudy',
        },
      ],
      isError: false,
    },
  });
});

test('"Specification": an elicitation and a sampling in one response', async () => {
  const { client } = await proposalGateway('first-draft', PATH);
  const call = { jsonrpc: '2.0', method: 'tools/call', params: { name: 'both_kinds' } };
  const asked = await client.send({ ...call, id: 1 });
  expect(asked.input_requests).toEqual({
    github_login: GITHUB_LOGIN,
    capital_of_france: CAPITAL_OF_FRANCE,
  });
  const done = await client.send({
    ...call,
    id: 2,
    input_responses: {
      github_login: { result: accept({ name: 'octocat' }) },
      capital_of_france: {
        result: {
          role: 'assistant',
          content: { type: 'text', text: 'The capital of France is Paris.' },
          model: 'claude-3-sonnet-20240307',
          stopReason: 'endTurn',
        },
      },
    },
    request_state: asked.request_state,
  });
  expect(JSON.parse(done.result.content[0].text)).toEqual([
    { name: 'octocat' },
    'The capital of France is Paris.',
  ]);
});

// Rule dialects-6: A response of the first draft is one JSON object, without progress and logs.
test('"Ephemeral Tool Workflow", 2: a single response, not an event stream', async () => {
  const chatty: Tool = async (call) => {
    const { progressToken = 0 } = call.extra._meta ?? {};
    const params = { progressToken, progress: 1 };
    await call.extra.sendNotification({ method: 'notifications/progress', params });
    return askName(call);
  };
  const { client } = await proposalGateway('first-draft', PATH, { server: { tools: { chatty } } });
  const params = { name: 'chatty', _meta: { progressToken: 'p' } };
  const asked = await client.post({ jsonrpc: '2.0', id: 1, method: 'tools/call', params });
  expect(asked.streamed).toBe(false);
  expect(asked.body.input_requests).toBeDefined();
});
