/** What SEP-2322 and its page of the specification print, in front of a legacy server that asks these questions. */
import { expect, test } from 'vitest';
import { post } from '../../fixtures/clients/dialect-client.ts';
import { accept } from '../../fixtures/clients/modern-client.ts';
import { CAPITAL_OF_FRANCE, GITHUB_LOGIN } from '../../fixtures/dialects/proposal-tools.ts';
import { proposalGateway } from '../../fixtures/dialects/testbed.ts';

const PATH = '/drafts/sep-2322';
const opaque = expect.any(String);
const weather = (id: number, more: object = {}) => ({
  jsonrpc: '2.0',
  id,
  method: 'tools/call',
  params: { name: 'get_weather', arguments: { location: 'New York' }, ...more },
});
const asked = (id: number) => ({
  jsonrpc: '2.0',
  id,
  result: {
    resultType: 'input_required',
    inputRequests: { github_login: GITHUB_LOGIN },
    requestState: opaque,
  },
});
const done = (id: number) => ({
  jsonrpc: '2.0',
  id,
  result: {
    resultType: 'complete',
    content: [
      {
        type: 'text',
        text: 'Current weather in New York:\nTemperature: 72°F\nConditions: Partly cloudy',
      },
    ],
    isError: false,
  },
});
const LOGIN = { github_login: accept({ name: 'octocat' }) };
const CAPITAL = {
  role: 'assistant',
  content: { type: 'text', text: 'The capital of France is Paris.' },
  model: 'claude-3-sonnet-20240307',
  stopReason: 'endTurn',
};

test('"Guidance for Error Handling": responses that nobody asked for are ignored, and the question comes again', async () => {
  const { client } = await proposalGateway('sep-2322', PATH);
  const notRequested = {
    not_requested_info: accept({
      not_requested_param_name: 'Information the server did not request',
    }),
  };
  // As it is printed, without a state.
  const first = await client.send(weather(3, { inputResponses: notRequested }));
  expect(first).toEqual(asked(3));
  // And as a client does that has one.
  const { requestState } = first.result;
  const second = await client.send(weather(4, { inputResponses: notRequested, requestState }));
  expect(second).toEqual(asked(4));
  const third = await client.send(
    weather(5, { inputResponses: LOGIN, requestState: second.result.requestState }),
  );
  expect(third).toEqual(done(5));
});

test('"InputRequiredResult": an elicitation and a sampling, of which one answer comes later', async () => {
  const { client } = await proposalGateway('sep-2322', PATH);
  const call = (id: number, more = {}) => ({
    ...{ jsonrpc: '2.0', id, method: 'tools/call', params: { name: 'both_kinds', ...more } },
  });
  const first = await client.send(call(1));
  expect(first.result).toEqual({
    resultType: 'input_required',
    inputRequests: { github_login: GITHUB_LOGIN, capital_of_france: CAPITAL_OF_FRANCE },
    requestState: opaque,
  });
  const { requestState } = first.result;
  const second = await client.send(call(2, { inputResponses: LOGIN, requestState }));
  expect(second.result).toEqual({
    resultType: 'input_required',
    inputRequests: { capital_of_france: CAPITAL_OF_FRANCE },
    requestState: opaque,
  });
  const third = await client.send(
    call(3, {
      inputResponses: { capital_of_france: CAPITAL },
      requestState: second.result.requestState,
    }),
  );
  expect(JSON.parse(third.result.content[0].text)).toEqual([
    { name: 'octocat' },
    'The capital of France is Paris.',
  ]);
});

test('a client that sends its capabilities in `_meta` needs no session', async () => {
  const { client } = await proposalGateway('sep-2322', PATH);
  const _meta = { 'io.modelcontextprotocol/clientCapabilities': { elicitation: {} } };
  const first = await post(client.url, weather(1, { _meta }));
  expect(first.body).toEqual(asked(1));
  const { requestState } = first.body.result;
  const retry = weather(2, { _meta, inputResponses: LOGIN, requestState });
  expect((await post(client.url, retry)).body).toEqual(done(2));
});
