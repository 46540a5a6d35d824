/** Error -32042: the server ends a call with URLs to visit first, and the call is made anew after that. */
import { describe, expect, test } from 'vitest';
import { startTestGateway, type GatewayOverrides } from '../../../fixtures/gateways/gateway.ts';
import { accept, callTool, send, type Exchanged } from '../../../fixtures/clients/modern-client.ts';
import { hurriedClock } from '../../../fixtures/hurried-clock.ts';
import {
  eventStream,
  json,
  legacyServer,
  type Answer,
} from '../../../fixtures/servers/scripted-server.ts';
import { stopAfterTest } from '../../../fixtures/stop-after-test.ts';

const visit = (name: string) => ({
  mode: 'url',
  message: `Visit ${name}`,
  url: `https://${name}.example/`,
  elicitationId: name,
});
const demand = (id: unknown, elicitations: object) => ({
  jsonrpc: '2.0',
  id,
  error: { code: -32042, message: 'visit first', data: { elicitations } },
});

/** A server whose calls end with these demands, one after the other, and then well. */
async function demanding(demands: object[][], overrides: GatewayOverrides = {}, onCall?: Answer) {
  const left = [...demands];
  const server = await legacyServer((received, response, request) => {
    const elicitations = left.shift();
    const { id, params } = received.body;
    if (elicitations !== undefined) return json(response, 200, demand(id, elicitations));
    if (onCall !== undefined) return onCall(received, response, request);
    const text = JSON.stringify(params.arguments ?? {});
    json(response, 200, { jsonrpc: '2.0', id, result: { content: [{ type: 'text', text }] } });
  });
  stopAfterTest(() => server.stop());
  const gateway = await startTestGateway(server.url, {
    transport: 'streamable-http',
    clock: hurriedClock(50),
    ...overrides,
  });
  stopAfterTest(() => gateway.close());
  const calls = () => server.methods().filter((method) => /call|get|read/.test(method)).length;
  return { server, gateway, url: gateway.url, calls };
}

const urlsOf = ({ response }: Exchanged) =>
  Object.entries(response.result.inputRequests as Record<string, { params: { url: string } }>).map(
    ([key, { params }]) => [key, params.url],
  );
const visited = (asked: Exchanged, answers: Record<string, string>) => ({
  requestState: asked.response.result.requestState,
  inputResponses: Object.fromEntries(
    Object.entries(answers).map(([key, action]) => [key, { action }]),
  ),
});

test('a call that is made again reports its progress from the beginning', async () => {
  const progressOf = (token: unknown, progress: number) => ({
    jsonrpc: '2.0',
    method: 'notifications/progress',
    params: { progressToken: token, progress, total: 10 },
  });
  let made = 0;
  const server = await legacyServer(({ body: { id, params } }, response) => {
    made += 1;
    const stream = eventStream(response);
    const steps = made === 1 ? [5] : [1, 2];
    for (const step of steps) stream.send(progressOf(params._meta.progressToken, step));
    stream.send(
      made === 1 ? demand(id, [visit('one')]) : { jsonrpc: '2.0', id, result: { content: [] } },
    );
    stream.end();
  });
  stopAfterTest(() => server.stop());
  const gateway = await startTestGateway(server.url, { clock: hurriedClock(50) });
  stopAfterTest(() => gateway.close());
  const heard: unknown[] = [];
  const listening = (progressToken: string) => ({
    meta: { progressToken },
    onMessage: ({ method, params }: { method?: string; params?: object }) => {
      if (method === 'notifications/progress') heard.push(params);
    },
  });
  const asked = await callTool(gateway.url, 'pay', {}, listening('first'));
  const answers = visited(asked, { 'elicitation-1': 'accept' });
  await callTool(gateway.url, 'pay', answers, listening('second'));
  expect(heard).toEqual([
    { progressToken: 'first', progress: 5, total: 10 },
    { progressToken: 'second', progress: 1, total: 10 },
    { progressToken: 'second', progress: 2, total: 10 },
  ]);
});

describe('URLs that are to be visited', () => {
  // Rule url-errors-3 (MRTR, "Error Handling"): A client that accepts some URLs is asked for the others. A new demand
  // is a further round.
  test('in part lead to a question for the rest, and not to a call', async () => {
    const { url, calls } = await demanding([[visit('one'), visit('two')]]);
    const params = { arguments: { order: 7 } };
    const asked = await callTool(url, 'pay', params);
    const partly = await callTool(url, 'pay', {
      ...params,
      ...visited(asked, { 'elicitation-2': 'accept' }),
    });
    expect(urlsOf(partly)).toEqual([['elicitation-1', 'https://one.example/']]);
    expect(calls()).toBe(1);
    const done = await callTool(url, 'pay', {
      ...params,
      ...visited(partly, { 'elicitation-1': 'accept' }),
    });
    expect(done.response.result.content[0].text).toBe('{"order":7}');
    expect(calls()).toBe(2);
  });

  // Rule url-errors-3.
  test('after the call was made again are asked in a further round', async () => {
    const { url, calls } = await demanding([[visit('one')], [visit('two')]]);
    const first = await callTool(url, 'pay');
    const second = await callTool(url, 'pay', visited(first, { 'elicitation-1': 'accept' }));
    expect(urlsOf(second)).toEqual([['elicitation-2', 'https://two.example/']]);
    const done = await callTool(url, 'pay', visited(second, { 'elicitation-2': 'accept' }));
    expect(done.response.result.resultType).toBe('complete');
    expect(calls()).toBe(3);
  });

  // Rule url-errors-3.
  test('again and again end with the rounds that a call may have', async () => {
    const { url, calls } = await demanding(
      Array.from({ length: 9 }, () => [visit('one')]),
      { parking: { maxRounds: 2 } },
    );
    const first = await callTool(url, 'pay');
    const second = await callTool(url, 'pay', visited(first, { 'elicitation-1': 'accept' }));
    const over = await callTool(url, 'pay', visited(second, { 'elicitation-2': 'accept' }));
    expect(over.response.error).toMatchObject({
      code: -32603,
      data: { reason: 'too_many_rounds' },
    });
    expect(calls()).toBe(3);
  });

  // Rule url-errors-1.
  test('may be followed by questions of the call that is made again', async () => {
    const { url, server } = await demanding([[visit('one')]], {}, async ({ body }, response) => {
      const stream = eventStream(response);
      const params = { message: 'm', requestedSchema: { type: 'object', properties: {} } };
      stream.send({ jsonrpc: '2.0', id: 'form', method: 'elicitation/create', params });
      await server.saw((one) => one.body?.id === 'form');
      stream.send({ jsonrpc: '2.0', id: body.id, result: { content: [] } });
    });
    const asked = await callTool(url, 'pay');
    const form = await callTool(url, 'pay', visited(asked, { 'elicitation-1': 'accept' }));
    const { inputRequests, requestState } = form.response.result;
    expect(Object.keys(inputRequests)).toEqual(['form']);
    const inputResponses = { form: accept() };
    const done = await callTool(url, 'pay', { requestState, inputResponses });
    expect(done.response.result.resultType).toBe('complete');
  });

  // Rule url-errors-6 (elicitation, "Safe URL Handling"): If a URL is missing or unsafe, the client gets -32603 with
  // `data.upstream`, or `data.reason` `unsafe_url` for one with userinfo.
  test.each([
    ['is none', { message: 'no URL' }],
    ['is unsafe', { ...visit('two'), url: 'javascript:alert(1)' }],
  ])('of which one %s are an internal error, and nobody is sent to any', async (_how, odd) => {
    const { url, calls } = await demanding([[visit('one'), odd]]);
    const { status, response } = await callTool(url, 'pay');
    expect(status).toBe(200);
    expect(response.error).toMatchObject({ code: -32603, data: { upstream: { code: -32042 } } });
    expect(calls()).toBe(1);
  });
});

// Rule url-errors-2.
test('a client that is told to retry before a call is made again finds it made with its arguments', async () => {
  const { url, server } = await demanding([[visit('one')]], {
    calls: { maxHoldMs: 1_000 },
    clock: hurriedClock(10),
  });
  const params = { arguments: { order: 7 } };
  const asked = await callTool(url, 'pay', params);
  const answers = visited(asked, { 'elicitation-1': 'accept' });
  const held = await callTool(url, 'pay', { ...params, ...answers });
  expect(held.response.result).toMatchObject({ resultType: 'input_required', inputRequests: {} });
  const isCall = ({ body }: { body?: { method?: string } }) => body?.method === 'tools/call';
  const [first] = server.received.filter(isCall);
  const again = await server.saw((received) => isCall(received) && received !== first);
  expect(again.body.params).toMatchObject({ name: 'pay', ...params });
});

describe('a user who does not want to visit one of them', () => {
  // Rule url-errors-4.
  test.each([
    { method: 'prompts/get', params: { name: 'hello' } },
    { method: 'resources/read', params: { uri: 'test://one' } },
  ])('ends $method with an error, and nothing is asked again', async ({ method, params }) => {
    const { url, calls } = await demanding([[visit('one'), visit('two')]]);
    const asked = await send(url, method, params);
    for (const action of ['cancel', 'cancel']) {
      const answers = { 'elicitation-1': 'accept', 'elicitation-2': action };
      const declined = await send(url, method, { ...params, ...visited(asked, answers) });
      expect(declined.status).toBe(200);
      expect(declined.response.error).toMatchObject({
        code: -32603,
        data: { reason: 'elicitation_declined' },
      });
    }
    expect(calls()).toBe(1);
  });
});
