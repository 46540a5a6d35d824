/** Limits that must hold when calls come together, when streams break, and when a server asks without end. */
import { expect, test } from 'vitest';
import { hurriedClock } from '../../../fixtures/hurried-clock.ts';
import { startGateway } from '../../../../src/app/gateway.ts';
import {
  RecordedLog,
  startTestGateway,
  testConfig,
  type GatewayOverrides,
} from '../../../fixtures/gateways/gateway.ts';
import { callTool, send } from '../../../fixtures/clients/modern-client.ts';
import {
  eventStream,
  json,
  legacyServer,
  type Answer,
} from '../../../fixtures/servers/scripted-server.ts';
import { stopAfterTest } from '../../../fixtures/stop-after-test.ts';

async function start(onCall: Answer, overrides: GatewayOverrides, onGet?: Answer) {
  const server = await legacyServer(onCall, onGet === undefined ? {} : { onGet });
  stopAfterTest(() => server.stop());
  const gateway = await startTestGateway(server.url, overrides);
  stopAfterTest(() => gateway.close());
  return { server, gateway, url: gateway.url };
}

const question = (id: string) => ({
  jsonrpc: '2.0',
  id,
  method: 'elicitation/create',
  params: { message: 'Name?', requestedSchema: { type: 'object', properties: {} } },
});
const done = (id: unknown) => ({
  jsonrpc: '2.0',
  id,
  result: { content: [{ type: 'text', text: 'done' }] },
});

// Rule validation-23.
test('a parked call whose stream is being resumed takes no place of a running one', async () => {
  let isCut = false;
  const { gateway, url } = await start(
    ({ body }, response) => {
      if (body.params.name === 'plain') return json(response, 200, done(body.id));
      const stream = eventStream(response);
      stream.send(question('q'), 'e1');
      setImmediate(() => {
        isCut = true;
        response.destroy();
      });
    },
    { limits: { maxRunningCalls: 1 } },
    (_received, response) => {
      if (isCut) return void response.writeHead(503).end();
      eventStream(response);
    },
  );
  const asked = await callTool(url, 'ask');
  expect(asked.response.result.resultType).toBe('input_required');
  await gateway.log.saw('call.parked');
  const plain = await callTool(url, 'plain');
  expect(plain.response.result.content[0].text).toBe('done');
});

// Rule validation-23.
test('no more calls run at once than may, though their tools have to be looked up first', async () => {
  let running = 0;
  let most = 0;
  const finish = Promise.withResolvers<void>();
  const { url } = await start(
    ({ body }, response) => {
      if (body.method === 'tools/list') {
        return json(response, 200, { jsonrpc: '2.0', id: body.id, result: { tools: [] } });
      }
      running += 1;
      most = Math.max(most, running);
      void finish.promise.then(() => {
        running -= 1;
        json(response, 200, done(body.id));
      });
    },
    {
      limits: { maxRunningCalls: 2 },
      continuation: { replay: { tools: [], annotated: true } },
      clock: hurriedClock(50),
    },
  );
  const calls = Array.from({ length: 10 }, () => callTool(url, 'work'));
  const refused = await Promise.any(calls);
  expect(refused.response.error.data.reason).toBe('overloaded');
  finish.resolve();
  const all = await Promise.all(calls);
  expect(all.filter(({ response }) => response.error === undefined)).toHaveLength(2);
  expect(most).toBeLessThanOrEqual(2);
});

test('a caller that runs as many calls as it can leaves room for another one', async () => {
  const finish = Promise.withResolvers<void>();
  const { url } = await start(
    ({ body }, response) => {
      if (body.params.name === 'quick') return json(response, 200, done(body.id));
      void finish.promise.then(() => json(response, 200, done(body.id)));
    },
    { limits: { maxRunningCalls: 20 } },
  );
  const by = (token: string, tool: string) =>
    callTool(url, tool, {}, { headers: { authorization: `Bearer ${token}` } });
  const calls = Array.from({ length: 20 }, () => by('alice', 'slow'));
  const refused = await Promise.any(calls);
  expect(refused.response.error.data.reason).toBe('overloaded');
  const other = await by('bob', 'quick');
  expect(other.response.result?.content[0].text).toBe('done');
  finish.resolve();
  const all = await Promise.all(calls);
  expect(all.filter(({ response }) => response.error === undefined)).toHaveLength(19);
});

// Rule shown-4.
test('a server that asks without end is told that it asks too much, and the client is shown a few', async () => {
  const { server, url } = await start(({ body }, response) => {
    if (body.method !== 'tools/call') return;
    const stream = eventStream(response);
    for (let number = 0; number < 1_000; number += 1) stream.send(question(`q${number}`));
  }, {});
  const asked = await callTool(url, 'flood');
  expect(Object.keys(asked.response.result.inputRequests)).toHaveLength(16);
  const refused = await server.saw(({ body }) => body?.id === 'q999');
  expect(refused.body.error.message).toMatch(/Too many questions/);
  const { requestState } = asked.response.result;
  await send(url, 'tools/call', { name: 'flood', arguments: {}, requestState });
});

// Rule shown-10: A call with more than 10,000 questions, or 1 MiB of their ids, is cancelled and fails.
test.each([
  ['10 000 questions', 10_001, (number: number) => `q${number}`],
  ['questions with long ids', 3, (number: number) => `q${number}`.padEnd(400_000, '-')],
])('a server that asks and withdraws %s in one call loses the call', async (_what, count, idOf) => {
  const { server, url } = await start(({ body }, response) => {
    if (body.method !== 'tools/call') return;
    const stream = eventStream(response);
    for (let number = 0; number < count; number += 1) {
      const requestId = idOf(number);
      stream.send(question(requestId));
      stream.send({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId } });
    }
  }, {});
  let replied = await callTool(url, 'flood');
  while (replied.response.result?.resultType === 'input_required') {
    const { requestState } = replied.response.result;
    replied = await callTool(url, 'flood', { requestState });
  }
  expect(replied.response.error.data).toMatchObject({
    reason: 'upstream_protocol_error',
    mayHaveActed: 'yes',
  });
  await server.saw(({ body }) => body?.method === 'notifications/cancelled');
});

test('no more calls run at once in a process than may, whichever of its routes they take', async () => {
  const finish = Promise.withResolvers<void>();
  const server = await legacyServer(async ({ body }, response) => {
    if (body.params.name === 'slow') await finish.promise;
    json(response, 200, done(body.id));
  });
  stopAfterTest(() => server.stop());
  const config = testConfig(server.url, { limits: { maxRunningCalls: 1 } });
  const routes = config.routes.flatMap((route) => [
    { ...route, id: 'one', path: '/one' },
    { ...route, id: 'two', path: '/two' },
  ]);
  const gateway = await startGateway({ ...config, routes }, { log: new RecordedLog() });
  stopAfterTest(() => gateway.close());
  const { origin } = new URL(gateway.url);
  const slow = callTool(`${origin}/one`, 'slow');
  await server.saw(({ body }) => body?.method === 'tools/call');
  const refused = await callTool(`${origin}/two`, 'quick');
  finish.resolve();
  expect((await slow).response.result.content[0].text).toBe('done');
  expect(refused.response.error?.data.reason).toBe('overloaded');
  const taken = await callTool(`${origin}/two`, 'quick');
  expect(taken.response.result.content[0].text).toBe('done');
});
