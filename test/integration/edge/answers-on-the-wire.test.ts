/** The bytes of an answer to a modern request: as one object, and as an event stream. */
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { describe, expect, test } from 'vitest';
import { hurriedClock } from '../../fixtures/hurried-clock.ts';
import { startTestGateway } from '../../fixtures/gateways/gateway.ts';
import { accept, callTool, modernBody } from '../../fixtures/clients/modern-client.ts';
import { sendRaw, valuesOf } from '../../fixtures/clients/raw-http.ts';
import { eventStream, legacyServer, type Answer } from '../../fixtures/servers/scripted-server.ts';
import {
  closed,
  ground,
  open,
  openBoth,
  rawCall,
} from '../../fixtures/gateways/survival-testbed.ts';

const RESULT = { content: [{ type: 'text', text: 'done' }] };

/** A call that wants to hear of its progress. */
const curious = (tool: string) =>
  rawCall({
    tool,
    body: JSON.stringify(
      modernBody(
        'tools/call',
        { name: tool, arguments: {} },
        { id: 7, meta: { progressToken: 'p' } },
      ),
    ),
  });

/** Tells of progress under event ids and with a time to reconnect, and says more after the result. */
const talkative: Answer = ({ body }, response) => {
  const stream = eventStream(response);
  const progress = (value: number) => ({
    jsonrpc: '2.0',
    method: 'notifications/progress',
    params: { progressToken: body.params._meta.progressToken, progress: value },
  });
  stream.raw('retry: 5\n\n');
  stream.send(progress(1), 'event-1');
  stream.send({ jsonrpc: '2.0', id: 'server-1', method: 'ping' }, 'event-2');
  stream.send({ jsonrpc: '2.0', id: body.id, result: RESULT }, 'event-3');
  stream.send(progress(2), 'event-4');
  stream.end();
};

describe('a response as an event stream', () => {
  // Rule responses-2 (streamable-http, "Receiving Messages"): An event stream has the notifications of its request
  // and then one response. It cannot be resumed, and has no session id.
  // Rule responses-3.
  test('has the notifications of the call and its response, and nothing of the stream behind it', async () => {
    const field = await ground({}, talkative);
    const answer = await sendRaw(field.url, curious('talk'));
    expect(answer.status).toBe(200);
    const [first = '', second = '', ...rest] = answer.body.split('\n\n');
    expect(rest).toEqual(['']);
    const data = (event: string) => {
      expect(event).toMatch(/^event: message\ndata: [^\n]*$/);
      return JSON.parse(event.slice(event.indexOf('data: ') + 'data: '.length));
    };
    expect(data(first)).toEqual({
      jsonrpc: '2.0',
      method: 'notifications/progress',
      params: { progressToken: 'p', progress: 1 },
    });
    expect(data(second)).toMatchObject({ jsonrpc: '2.0', id: 7, result: RESULT });
    expect(valuesOf(answer, 'content-type')).toEqual(['text/event-stream']);
    expect(valuesOf(answer, 'cache-control')).toEqual(['no-cache, no-transform']);
    expect(valuesOf(answer, 'x-accel-buffering')).toEqual(['no']);
    expect(valuesOf(answer, 'mcp-session-id')).toEqual([]);
  });
});

describe('a failure', () => {
  const refused = (response: ServerResponse) => void response.writeHead(401).end();
  const unauthorized = { code: -32603, data: { reason: 'unauthorized' } };

  // Rule responses-4 (streamable-http, "Protocol Version Header"; basic/index, "Error Codes"): After validation the
  // status is 200, except for an unsupported list or completion (404), -32021 (400) and refused credentials (401,
  // 403).
  test('before a byte was sent has its HTTP status', async () => {
    const field = await ground({}, (_received, response) => refused(response));
    const answer = await sendRaw(field.url, curious('fail'));
    expect(answer.status).toBe(401);
    expect(valuesOf(answer, 'content-type')).toEqual(['application/json']);
    expect(JSON.parse(answer.body)).toMatchObject({ id: 7, error: unauthorized });
  });

  // Rule responses-4.
  test('after the stream began is its last message, and the status stays 200', async () => {
    const asked = Promise.withResolvers<ServerResponse>();
    const field = await ground({ clock: hurriedClock(50) }, (_received, response) =>
      asked.resolve(response),
    );
    const socket = open(field.url);
    let text = '';
    socket.on('data', (data) => (text += data.toString('latin1')));
    socket.write(curious('fail'));
    const response = await asked.promise;
    while (!text.includes('\r\n\r\n')) await once(socket, 'data');
    expect(text).toMatch(/^HTTP\/1\.1 200 /);
    refused(response);
    while (!text.includes('\r\n0\r\n\r\n')) await once(socket, 'data');
    const message = /data: (.*)/.exec(text)?.[1] ?? '';
    expect(JSON.parse(message)).toMatchObject({ jsonrpc: '2.0', id: 7, error: unauthorized });
  });

  // Rule responses-5 (streamable-http, "Receiving Messages"): Every response ends with a JSON-RPC reply, even if the
  // server's stream breaks off. An internal error is -32603 without detail.
  test('of the server in the middle of its stream is still told', async () => {
    const field = await ground({}, ({ body }, response) => {
      const stream = eventStream(response);
      const { progressToken } = body.params._meta;
      const params = { progressToken, progress: 1 };
      stream.send({ jsonrpc: '2.0', method: 'notifications/progress', params });
      stream.end();
    });
    const answer = await sendRaw(field.url, curious('break'));
    const messages = answer.body.split('\n\n').filter((event) => event !== '');
    expect(messages).toHaveLength(2);
    expect(messages.at(-1)).toContain('"id":7');
    expect(messages.at(-1)).toContain('call_lost');
  });
});

// Rule responses-7.
test('a client that closes behind a question has not cancelled the call', async () => {
  let call: { id: unknown; response: ServerResponse } | null = null;
  const upstream = await legacyServer(
    ({ body }, response) => {
      call = { id: body.id, response };
      eventStream(response).send({
        jsonrpc: '2.0',
        id: 'q',
        method: 'elicitation/create',
        params: { message: 'm', requestedSchema: { type: 'object', properties: {} } },
      });
    },
    {
      onResponse: (_received, response) => {
        response.writeHead(202).end();
        const message = { jsonrpc: '2.0', id: call?.id, result: RESULT };
        call?.response.end(`data: ${JSON.stringify(message)}\n\n`);
      },
    },
  );
  const gateway = await startTestGateway(upstream.url);
  const { client, server } = await openBoth(gateway.url);
  let text = '';
  client.on('data', (data) => (text += data.toString('latin1')));
  client.write(curious('ask'));
  while (!text.includes('"requestState"')) await once(client, 'data');
  client.destroy();
  await closed(server);
  const requestState = /"requestState":"([^"]*)"/.exec(text)?.[1];
  const inputResponses = { q: accept() };
  const { response } = await callTool(gateway.url, 'ask', { requestState, inputResponses });
  expect(response.result).toMatchObject(RESULT);
  expect(upstream.methods()).not.toContain('notifications/cancelled');
  await gateway.close();
  await upstream.stop();
});
