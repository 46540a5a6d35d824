/**
 * Numbers that JavaScript cannot hold, such as keys of databases and times in nanoseconds: most clients and
 * servers are not written in it, and what the gateway only passes on must leave as it came.
 */
import { expect, test } from 'vitest';
import { exactNumber } from '../../../src/protocol/json.ts';
import { startTestGateway } from '../../fixtures/gateways/gateway.ts';
import { modernBody, modernHeaders } from '../../fixtures/clients/modern-client.ts';
import {
  eventStream,
  json,
  legacyServer,
  type Answer,
} from '../../fixtures/servers/scripted-server.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

const KEY = '9007199254740993';
const TIME = '1763632800123456789';
const HUGE = '1e400';
const key = exactNumber(KEY);
const time = exactNumber(TIME);
const huge = exactNumber(HUGE);

/** A gateway in front of a server whose tool does as the test says. */
async function gatewayTo(onCall: Answer, onResponse?: Answer) {
  const upstream = await legacyServer(onCall, onResponse === undefined ? {} : { onResponse });
  stopAfterTest(() => upstream.stop());
  const gateway = await startTestGateway(upstream.url);
  stopAfterTest(() => gateway.close());
  return { upstream, url: gateway.url };
}

/** Calls a tool; the answer as its text, since no parser here could read it. */
async function call(url: string, params: object, options: Parameters<typeof modernBody>[2] = {}) {
  const given = { name: 'look_up', arguments: { key }, ...params };
  const body = JSON.stringify(modernBody('tools/call', given, options));
  const headers = modernHeaders('tools/call', given);
  const answer = await fetch(url, { method: 'POST', headers, body });
  expect(answer.status).toBe(200);
  return answer.text();
}

// Rule envelope-4: Numbers keep their spelling, such as `1.0`, and the digits that JavaScript cannot hold, also as
// ids and progress tokens: at most 131,072 of them in a message.
test('numbers that JavaScript cannot hold arrive upstream, and come back, as they were written', async () => {
  const { upstream, url } = await gatewayTo(({ body }, response) => {
    const result = { content: [], structuredContent: { key, huge, list: [{ time }] } };
    json(response, 200, { jsonrpc: '2.0', id: body.id, result });
  });
  const answer = await call(url, { arguments: { key, huge, nested: [{ time }] } });
  expect(answer).toContain(
    `"structuredContent":{"key":${KEY},"huge":${HUGE},"list":[{"time":${TIME}}]}`,
  );
  const { text } = await upstream.saw(({ body }) => body?.method === 'tools/call');
  expect(text).toContain(`"arguments":{"key":${KEY},"huge":${HUGE},"nested":[{"time":${TIME}}]}`);
});

// Rule envelope-4.
test('numbers keep their spelling on the way to the server and back', async () => {
  const spelled = '[1.0,-0,1E5,100.50,0.12345678901234567890123,{"id":2.0}]';
  const { upstream, url } = await gatewayTo(({ body, text }, response) => {
    const heard = /"arguments":(.*?\]\})/.exec(text)?.[1];
    // Before the call: `logging/setLevel`.
    if (heard === undefined)
      return json(response, 200, { jsonrpc: '2.0', id: body.id, result: {} });
    const stream = eventStream(response);
    stream.raw(
      `data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":${heard}}}\n\n`,
    );
    // Some servers write each number with a fraction, ids too.
    const result = `{"content":[],"structuredContent":${heard}}`;
    stream.raw(`data: {"jsonrpc":"2.0","id":${body.id}.0,"result":${result}}\n\n`);
    stream.end();
  });
  const given = { numbers: [] };
  const meta = { 'io.modelcontextprotocol/logLevel': 'debug' };
  const body = JSON.stringify(
    modernBody('tools/call', { name: 'look_up', arguments: given }, { meta }),
  );
  const headers = modernHeaders('tools/call', { name: 'look_up' });
  const answer = await fetch(url, {
    method: 'POST',
    headers,
    body: body.replace('"numbers":[]', `"numbers":${spelled}`),
  });
  const text = await answer.text();
  expect((await upstream.saw(({ body }) => body?.method === 'tools/call')).text).toContain(
    `"arguments":{"numbers":${spelled}}`,
  );
  expect(text).toContain(`"data":{"numbers":${spelled}}`);
  expect(text).toContain(`"structuredContent":{"numbers":${spelled}}`);
});

// Rule envelope-4.
test('numbers that JavaScript cannot hold are good ids and progress tokens', async () => {
  const { url } = await gatewayTo(({ body }, response) => {
    const stream = eventStream(response);
    const { progressToken } = body.params._meta;
    stream.send({
      jsonrpc: '2.0',
      method: 'notifications/progress',
      params: { progressToken, progress: key, total: time },
    });
    stream.send({ jsonrpc: '2.0', id: body.id, result: { content: [] } });
    stream.end();
  });
  const answer = await call(url, {}, { id: key, meta: { progressToken: time } });
  expect(answer).toContain(`"params":{"progressToken":${TIME},"progress":${KEY},"total":${TIME}}`);
  expect(answer).toContain(`"id":${KEY},"result":`);
});

// Rule envelope-4.
test('numbers that JavaScript cannot hold are asked for, and answered, in questions', async () => {
  let finish = (_text: string): void => {};
  const { url } = await gatewayTo(
    ({ body }, response) => {
      const stream = eventStream(response);
      const requestedSchema = {
        type: 'object',
        properties: { key: { type: 'integer', minimum: key, enum: [key, 1] } },
      };
      const params = { message: 'Which?', requestedSchema };
      stream.send({ jsonrpc: '2.0', id: 'ask', method: 'elicitation/create', params });
      finish = (text) => {
        const content = [{ type: 'text', text }];
        stream.send({ jsonrpc: '2.0', id: body.id, result: { content } });
        stream.end();
      };
    },
    ({ text }, response) => {
      response.writeHead(202).end();
      finish(text);
    },
  );
  const asked = await call(url, {});
  // A choice of numbers is shown as one of texts, as the modern schema has no other.
  expect(asked).toContain(`"enum":["${KEY}","1"]`);
  const { requestState } = JSON.parse(asked).result;
  const inputResponses = { ask: { action: 'accept', content: { key: KEY, more: time } } };
  const done = await call(url, { requestState, inputResponses });
  const heard = JSON.parse(done).result.content[0].text;
  expect(heard).toContain(`"content":{"key":${KEY},"more":${TIME}}`);
});

// Rule envelope-4.
test('numbers that JavaScript cannot hold as the id of a question are refused to the server, which would not know the answer', async () => {
  const { upstream, url } = await gatewayTo(({ body }, response) => {
    const stream = eventStream(response);
    stream.send({ jsonrpc: '2.0', id: key, method: 'roots/list' });
    void upstream
      .saw(({ text }) => text.includes(`"id":${KEY}`))
      .then(({ body: { error } }) => {
        const content = [{ type: 'text', text: String(error.code) }];
        stream.send({ jsonrpc: '2.0', id: body.id, result: { content } });
        stream.end();
      });
  });
  expect(JSON.parse(await call(url, {})).result.content[0].text).toBe('-32600');
});
