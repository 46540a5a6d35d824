/** Servers that run tasks in ways of their own: what the specification allows, and what deployed ones do. */
import { describe, expect, test } from 'vitest';
import { accept, callTool, type Exchanged } from '../../../fixtures/clients/modern-client.ts';
import type { GatewayOverrides } from '../../../fixtures/gateways/gateway.ts';
import { reasonOf, text } from '../../../fixtures/gateways/replica-testbed.ts';
import { scriptedGateway } from '../../../fixtures/gateways/scripted-gateway.ts';
import { hurriedClock } from '../../../fixtures/hurried-clock.ts';
import {
  eventStream,
  json,
  type Answer,
  type Received,
  type ScriptedServer,
} from '../../../fixtures/servers/scripted-server.ts';

const RELATED = 'io.modelcontextprotocol/related-task';
const CAPABILITIES = { tasks: { cancel: {}, requests: { tools: { call: {} } } } };
const HELLO = { content: [{ type: 'text', text: 'Hello' }] };

type Handler = (received: Received, response: Parameters<Answer>[1]) => void;

const reply = (result: object): Handler => {
  return ({ body }, response) => json(response, 200, { jsonrpc: '2.0', id: body.id, result });
};
const refuse = (code: number, message: string): Handler => {
  return ({ body }, response) =>
    json(response, 200, { jsonrpc: '2.0', id: body.id, error: { code, message } });
};
const taskOf = (taskId: string, status = 'working', pollInterval = 100) => ({
  taskId,
  status,
  createdAt: '2026-11-22T07:00:00Z',
  lastUpdatedAt: '2026-11-22T07:00:00Z',
  ttl: null,
  pollInterval,
});
const listing = (taskSupport?: string) =>
  reply({
    tools: [
      {
        name: 'work',
        inputSchema: { type: 'object' },
        ...(taskSupport === undefined ? {} : { execution: { taskSupport } }),
      },
    ],
  });
const LISTED = { 'tools/list': listing('required') };
const CREATES = { 'tools/call': reply({ task: taskOf('task-1') }) };
const question = (id: string, taskId: string) => ({
  jsonrpc: '2.0',
  id,
  method: 'elicitation/create',
  params: {
    message: `${id}?`,
    requestedSchema: { type: 'object', properties: {} },
    _meta: { [RELATED]: { taskId } },
  },
});

/** A server that runs tasks and answers each method as it is told here. */
function running(handlers: Record<string, Handler>, overrides: GatewayOverrides = {}) {
  const onCall: Answer = (received, response) =>
    (handlers[received.body.method] ?? refuse(-32601, 'Method not found'))(received, response);
  return scriptedGateway(onCall, overrides, { capabilities: CAPABILITIES });
}

const about = (server: ScriptedServer, method: string) =>
  server.received.filter(({ body }) => body?.method === method).map(({ body }) => body.params);
const saw = (server: ScriptedServer, method: string) =>
  server.saw(({ body }) => body?.method === method);
const answered = (asked: Exchanged) => ({
  requestState: asked.response.result.requestState,
  inputResponses: Object.fromEntries(
    Object.keys(asked.response.result.inputRequests).map((key) => [key, accept()]),
  ),
});

describe('a server whose list does not say that a tool demands a task', () => {
  // Rule tasks-10 (2025-11-25 tasks, "Tool-Level Negotiation", "Protocol Errors"): A server that refuses a plain call
  // with -32601 or -32600 is called once more, with a task.
  test.each([-32601, -32600])('says so with error %d, and gets a task', async (code) => {
    const { server, url } = await running({
      'tools/list': listing(),
      'tools/call': (received, response) => {
        const { task } = received.body.params;
        if (task === undefined) return refuse(code, 'a task is required')(received, response);
        reply({ task: taskOf('task-1') })(received, response);
      },
      'tasks/result': reply(HELLO),
    });
    expect(text(await callTool(url, 'work'))).toBe('Hello');
    expect(about(server, 'tools/call').map(({ task }) => task !== undefined)).toEqual([
      false,
      true,
    ]);
    expect(about(server, 'tasks/result')).toEqual([{ taskId: 'task-1' }]);
  });

  // Rule tasks-10.
  test('and refuses a task as well is called twice, and no more', async () => {
    const { server, url } = await running({
      'tools/list': listing(),
      'tools/call': refuse(-32601, 'no such tool'),
    });
    const { error } = (await callTool(url, 'work')).response;
    expect(error).toMatchObject({ code: -32602, message: 'no such tool' });
    expect(about(server, 'tools/call')).toHaveLength(2);
  });
});

describe('a server that does not wait for the end of a task', () => {
  // Rule tasks-6.
  test('is asked at its own interval, and then for the result', async () => {
    const statuses = ['working', 'working', 'completed'];
    let isOver = false;
    const { server, url } = await running({
      ...LISTED,
      ...CREATES,
      'tasks/get': (received, response) => {
        const status = statuses.shift() ?? 'completed';
        isOver = status === 'completed';
        reply(taskOf('task-1', status))(received, response);
      },
      'tasks/result': (received, response) => {
        const refused = refuse(-32603, 'task-1 is not completed yet');
        (isOver ? reply(HELLO) : refused)(received, response);
      },
    });
    expect(text(await callTool(url, 'work'))).toBe('Hello');
    expect(about(server, 'tasks/get')).toHaveLength(3);
    expect(about(server, 'tasks/result')).toHaveLength(2);
  });

  // Rule tasks-6.
  test('and fails does not count as one: the error of the tool reaches the client, without the id of the task', async () => {
    const { server, url } = await running({
      ...LISTED,
      ...CREATES,
      'tasks/get': reply(taskOf('task-1', 'failed')),
      'tasks/result': refuse(-32603, 'task-1 ran out of paper'),
    });
    const { error } = (await callTool(url, 'work')).response;
    expect(error).toMatchObject({ code: -32603, message: '… ran out of paper' });
    expect(about(server, 'tasks/result')).toHaveLength(2);
  });
});

describe('a task of which the server knows nothing more', () => {
  // Rule tasks-8.
  test('is a lost call, and is not made again', async () => {
    const { server, url } = await running({
      ...LISTED,
      ...CREATES,
      'tasks/get': refuse(-32602, 'Task not found: task-1'),
      'tasks/result': refuse(-32602, 'Task not found: task-1'),
    });
    expect(reasonOf(await callTool(url, 'work'))).toBe('call_lost');
    expect(about(server, 'tools/call')).toHaveLength(1);
  });

  // Rule tasks-8.
  test('since the session is gone is a lost call as well: the tool is not called again', async () => {
    const { server, url } = await running({
      ...LISTED,
      ...CREATES,
      'tasks/result': (_received, response) =>
        json(response, 404, {
          jsonrpc: '2.0',
          id: null,
          error: { code: -32001, message: 'Session not found' },
        }),
    });
    expect(reasonOf(await callTool(url, 'work'))).toBe('call_lost');
    expect(about(server, 'tools/call')).toHaveLength(1);
  });
});

// Rule tasks-5.
test('a task is cancelled by its id alone when the client leaves, once the server has taken tasks/cancel', async () => {
  const { server, url } = await running({
    ...LISTED,
    ...CREATES,
    'tasks/result': (_received, response) => eventStream(response).send(question('sure', 'task-1')),
    'tasks/cancel': reply(taskOf('task-1', 'cancelled')),
  });
  const asked = await callTool(url, 'work');
  const leaving = new AbortController();
  const retried = callTool(url, 'work', answered(asked), { signal: leaving.signal });
  await server.saw(({ body }) => body?.id === 'sure');
  leaving.abort();
  await retried.catch(() => {});
  await saw(server, 'tasks/cancel');
  expect(about(server, 'notifications/cancelled')).toEqual([]);
});

// Rule tasks-6.
test('a call whose server ends the stream of tasks/result again and again is lost', async () => {
  const handlers: Record<string, Handler> = {
    ...LISTED,
    ...CREATES,
    'tasks/result': (_received, response) => eventStream(response).end(),
  };
  // The gateway waits for 15 s in all between its requests.
  const { server, url } = await running(handlers, { clock: hurriedClock(5) });
  expect(reasonOf(await callTool(url, 'work'))).toBe('call_lost');
  expect(about(server, 'tasks/result').length).toBeLessThan(10);
  expect(about(server, 'tools/call')).toHaveLength(1);
});
