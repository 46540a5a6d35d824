/** What the rewritten draft prints, message by message, in front of a legacy server that asks these questions. */
import { expect, test } from 'vitest';
import {
  CAPITAL_OF_FRANCE,
  DUPLICATE_OF,
  GITHUB_LOGIN,
  RESOLUTION,
} from '../../fixtures/dialects/proposal-tools.ts';
import { proposalGateway } from '../../fixtures/dialects/testbed.ts';

const PATH = '/drafts/rewritten';
const opaque = expect.any(String);
const weather = (id: number, more: object = {}) => ({
  jsonrpc: '2.0',
  id,
  method: 'tools/call',
  params: { name: 'get_weather', arguments: { location: 'New York' }, ...more },
});
const LOGIN = { github_login: { action: 'accept', content: { name: 'octocat' } } };
const asked = (id: number) => ({
  jsonrpc: '2.0',
  id,
  result: { inputRequests: { github_login: GITHUB_LOGIN }, requestState: opaque },
});
const done = (id: number) => ({
  jsonrpc: '2.0',
  id,
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

test('"Ephemeral Workflow: Basic Flow"', async () => {
  const { client } = await proposalGateway('rewritten', PATH);
  const first = await client.send(weather(2));
  expect(first).toEqual(asked(2));
  const { requestState } = first.result;
  const second = await client.send(weather(3, { inputResponses: LOGIN, requestState }));
  expect(second).toEqual(done(3));
});

test('"Data Structures": the answers beside `params`, as one example has them', async () => {
  const { client } = await proposalGateway('rewritten', PATH);
  const { requestState } = (await client.send(weather(1))).result;
  const second = await client.send({ ...weather(2), inputResponses: LOGIN, requestState });
  expect(second).toEqual(done(2));
});

test('"Multi-Round with requestState (Azure DevOps)"', async () => {
  const { client } = await proposalGateway('rewritten', PATH);
  const update = (id: number, more: object = {}) => ({
    jsonrpc: '2.0',
    id,
    method: 'tools/call',
    params: {
      name: 'update_work_item',
      arguments: { workItemId: 4522, fields: { 'System.State': 'Resolved' } },
      ...more,
    },
  });
  const first = await client.send(update(1));
  expect(first).toEqual({
    jsonrpc: '2.0',
    id: 1,
    result: { inputRequests: { resolution: RESOLUTION }, requestState: opaque },
  });
  const second = await client.send(
    update(2, {
      inputResponses: { resolution: { action: 'accept', content: { resolution: 'Duplicate' } } },
      requestState: first.result.requestState,
    }),
  );
  expect(second).toEqual({
    jsonrpc: '2.0',
    id: 2,
    result: { inputRequests: { duplicate_of: DUPLICATE_OF }, requestState: opaque },
  });
  const third = await client.send(
    update(3, {
      inputResponses: { duplicate_of: { action: 'accept', content: { duplicateOfId: 4301 } } },
      requestState: second.result.requestState,
    }),
  );
  expect(third).toEqual({
    jsonrpc: '2.0',
    id: 3,
    result: {
      content: [
        {
          type: 'text',
          text: 'Bug #4522 resolved as Duplicate of Bug #4301. State set to Resolved and duplicate link created.',
        },
      ],
      isError: false,
    },
  });
});

test('"Missing or Unexpected inputResponses": the server asks again', async () => {
  const { client } = await proposalGateway('rewritten', PATH);
  const inputResponses = {
    not_requested_info: {
      action: 'accept',
      content: { not_requested_param_name: 'Information the server did not request' },
    },
  };
  const first = await client.send(weather(3, { inputResponses }));
  expect(first).toEqual(asked(3));
  const { requestState } = first.result;
  expect(await client.send(weather(4, { inputResponses, requestState }))).toEqual(asked(4));
});

test('"InputRequests with Multiple Request Types"', async () => {
  const { client } = await proposalGateway('rewritten', PATH);
  const params = { name: 'both_kinds' };
  const first = await client.send({ jsonrpc: '2.0', id: 1, method: 'tools/call', params });
  expect(first.result.inputRequests).toEqual({
    github_login: GITHUB_LOGIN,
    capital_of_france: CAPITAL_OF_FRANCE,
  });
  const inputResponses = {
    ...LOGIN,
    capital_of_france: {
      role: 'assistant',
      content: { type: 'text', text: 'The capital of France is Paris.' },
      model: 'claude-3-sonnet-20240307',
      stopReason: 'endTurn',
    },
  };
  const { requestState } = first.result;
  const second = await client.send({
    jsonrpc: '2.0',
    id: 2,
    method: 'tools/call',
    params: { ...params, inputResponses, requestState },
  });
  expect(JSON.parse(second.result.content[0].text)).toEqual([
    { name: 'octocat' },
    'The capital of France is Paris.',
  ]);
});

// Rule dialects-10.
test('"Abstract", 4: a client is not asked for roots, which this draft does not have', async () => {
  const { client, legacy } = await proposalGateway('rewritten', PATH);
  const params = { name: 'roots' };
  const reply = await client.send({ jsonrpc: '2.0', id: 1, method: 'tools/call', params });
  expect(reply.error ?? reply.result.isError).toBeTruthy();
  expect(legacy.received.find(({ body }) => body.error !== undefined)?.body.error.code).toBe(
    -32601,
  );
});
