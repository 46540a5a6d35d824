/** The persistent workflow: what the proposals print about tasks, in front of a legacy server that knows no tasks. */
import { describe, expect, test } from 'vitest';
import { send } from '../../fixtures/clients/modern-client.ts';
import { DialectClient } from '../../fixtures/clients/dialect-client.ts';
import { ECHO_INPUT, GITHUB_LOGIN } from '../../fixtures/dialects/proposal-tools.ts';
import { proposalGateway } from '../../fixtures/dialects/testbed.ts';

// The wire is not typed; a test reads whatever came.
/* eslint-disable @typescript-eslint/no-explicit-any */

const RELATED_TASK = 'io.modelcontextprotocol/related-task';
const TIME = expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
const DRAFTS = ['first-draft', 'sep-2322', 'rewritten'] as const;

/** What the examples differ in. */
const SPOKEN = {
  'first-draft': {
    working: 'Working',
    completed: 'Completed',
    task: { createdAt: TIME, ttl: 60_000, pollInterval: 1_000 },
    complete: {},
    asked: (input_requests: object, _meta: object) => ({ input_requests, _meta }),
    answer: (id: number, responses: Record<string, object>, _meta: object) => ({
      jsonrpc: '2.0',
      id,
      input_responses: Object.fromEntries(
        Object.entries(responses).map(([key, result]) => [key, { result }]),
      ),
      _meta,
    }),
  },
  'sep-2322': {
    working: 'working',
    completed: 'completed',
    task: { createdAt: TIME, lastUpdatedAt: TIME, ttl: 60_000, pollInterval: 1_000 },
    complete: { resultType: 'complete' },
    asked: (inputRequests: object, _meta: object) => ({
      result: { resultType: 'input_required', inputRequests, _meta },
    }),
    answer: inputResponse,
  },
  rewritten: {
    working: 'working',
    completed: 'completed',
    task: { createdAt: TIME, lastUpdatedAt: TIME, ttl: 60_000, pollInterval: 1_000 },
    complete: {},
    asked: (inputRequests: object, _meta: object) => ({ result: { inputRequests, _meta } }),
    answer: inputResponse,
  },
};

function inputResponse(id: number, inputResponses: object, _meta: object) {
  const params = { inputResponses, _meta };
  return { jsonrpc: '2.0', id, method: 'tasks/input_response', params };
}

const accepted = (content: object) => ({ action: 'accept', content });
const call = (id: number, method: string, params: object) => ({
  jsonrpc: '2.0',
  id,
  method,
  params,
});
const ECHO = { name: 'echo', task: { ttl: 60_000 } };

/** Polls as the examples do, until the status is another one. */
async function pollWhile(client: DialectClient, taskId: string, status: string): Promise<any> {
  for (let id = 100; ; id += 1) {
    const polled = await client.send(call(id, 'tasks/get', { taskId }));
    if (polled.result?.status !== status) return polled;
  }
}

describe.each(DRAFTS)('%s', (dialect) => {
  const { working, completed, task, complete, asked, answer } = SPOKEN[dialect];

  // Rule dialects-13: `params.task` makes a call a task, with the shorter of its lifetime and `tasks.ttl`. Any
  // replica serves it.
  test('"Echo Tool with Elicitation": the whole life of a task', async () => {
    const { client } = await proposalGateway(dialect, '/draft');
    const created = await client.send(call(1, 'tools/call', ECHO));
    expect(created).toEqual({
      jsonrpc: '2.0',
      id: 1,
      result: {
        ...complete,
        task: { taskId: expect.any(String), status: expect.any(String), ...task },
      },
    });
    const { taskId } = created.result.task;
    const meta = { [RELATED_TASK]: { taskId } };
    const polled = await pollWhile(client, taskId, working);
    expect(polled.result).toEqual({ ...complete, taskId, status: 'input_required', ...task });
    const input = await client.send(call(3, 'tasks/result', { taskId }));
    expect(input).toEqual({ jsonrpc: '2.0', id: 3, ...asked({ echo_input: ECHO_INPUT }, meta) });
    const given = await client.send(
      answer(4, { echo_input: accepted({ input: 'Hello World!' }) }, meta),
    );
    expect(given).toEqual({ jsonrpc: '2.0', id: 4, result: { ...complete, _meta: meta } });
    const done = await pollWhile(client, taskId, working);
    expect(done.result).toEqual({ ...complete, taskId, status: completed, ...task });
    const result = await client.send(call(6, 'tasks/result', { taskId }));
    expect(result).toEqual({
      jsonrpc: '2.0',
      id: 6,
      result: {
        ...complete,
        isError: false,
        content: [{ type: 'text', text: 'Echo: Hello World!' }],
        _meta: meta,
      },
    });
  });

  test('"Missing or Unexpected inputResponses": the task asks again', async () => {
    const { client } = await proposalGateway(dialect, '/draft');
    const { taskId } = (await client.send(call(1, 'tools/call', ECHO))).result.task;
    const meta = { [RELATED_TASK]: { taskId } };
    await client.send(call(2, 'tasks/result', { taskId }));
    const wrong = accepted({ not_requested_parameter: 'Information the server did not request.' });
    for (const responses of [{ not_requested: wrong }, { echo_input: wrong }]) {
      const given = await client.send(answer(4, responses, meta));
      expect(given).toEqual({ jsonrpc: '2.0', id: 4, result: { ...complete, _meta: meta } });
    }
    const again = await client.send(call(5, 'tasks/result', { taskId }));
    expect(again).toEqual({
      jsonrpc: '2.0',
      id: 5,
      ...asked({ echo_input_again: ECHO_INPUT }, meta),
    });
  });

  // Rule dialects-13.
  test('"Workflow Transitions": from rounds to a task', async () => {
    const { client, legacy } = await proposalGateway(dialect, '/draft');
    const params = { name: 'two_steps', arguments: {} };
    const first = await client.send(call(1, 'tools/call', params));
    const body = dialect === 'first-draft' ? first : first.result;
    const state = body.request_state ?? body.requestState;
    const answers = { github_login: accepted({ name: 'octocat' }) };
    const retry =
      dialect === 'first-draft'
        ? {
            ...call(2, 'tools/call', { ...params, task: { ttl: 60_000 } }),
            input_responses: { github_login: { result: answers.github_login } },
            request_state: state,
          }
        : call(2, 'tools/call', {
            ...params,
            task: { ttl: 60_000 },
            inputResponses: answers,
            requestState: state,
          });
    const { taskId } = (await client.send(retry)).result.task;
    const meta = { [RELATED_TASK]: { taskId } };
    const input = await client.send(call(3, 'tasks/result', { taskId }));
    expect(input).toEqual({ jsonrpc: '2.0', id: 3, ...asked({ echo_input: ECHO_INPUT }, meta) });
    await client.send(answer(4, { echo_input: accepted({ input: 'hi' }) }, meta));
    const result = await client.send(call(5, 'tasks/result', { taskId }));
    expect(result.result.content).toEqual([{ type: 'text', text: 'octocat: hi' }]);
    expect(legacy.methods().filter((method) => method === 'tools/call')).toHaveLength(1);
  });

  test('a task is cancelled, and only once', async () => {
    const { client } = await proposalGateway(dialect, '/draft');
    const { taskId } = (await client.send(call(1, 'tools/call', ECHO))).result.task;
    const cancelled = await client.send(call(2, 'tasks/cancel', { taskId }));
    expect(cancelled.result.status.toLowerCase()).toBe('cancelled');
    const result = await client.send(call(3, 'tasks/result', { taskId }));
    expect(result.error.code).toBe(-32602);
  });

  test('a client is told that tools can be called as tasks', async () => {
    const { client } = await proposalGateway(dialect, '/draft');
    const { capabilities } = client.initialized;
    expect(capabilities.tasks).toEqual({ cancel: {}, requests: { tools: { call: {} } } });
    const { result } = await client.send(call(1, 'tools/list', {}));
    for (const { execution } of result.tools)
      expect(execution).toEqual({ taskSupport: 'optional' });
  });
});

// Rule dialects-13.
test('a task of another principal does not exist', async () => {
  const identity = { source: 'header', header: 'x-user' } as const;
  const headers = { 'x-user': 'ada' };
  const { client, gateway } = await proposalGateway('rewritten', '/draft', { identity, headers });
  const { taskId } = (await client.send(call(1, 'tools/call', ECHO))).result.task;
  const eve = await DialectClient.connect(gateway.url, '/draft', { headers: { 'x-user': 'eve' } });
  const meta = { [RELATED_TASK]: { taskId } };
  for (const request of [
    call(2, 'tasks/get', { taskId }),
    call(3, 'tasks/result', { taskId }),
    call(4, 'tasks/cancel', { taskId }),
    inputResponse(5, { echo_input: accepted({ input: 'x' }) }, meta),
  ]) {
    const refused = await eve.post(request);
    expect([refused.status, refused.body.error.code]).toEqual([200, -32602]);
  }
  expect(
    (await client.send(call(6, 'tasks/result', { taskId }))).result.inputRequests,
  ).toBeDefined();
});

// Rule dialects-5.
test('the tasks of the final revision are not on the path of a dialect, and those of drafts not on that of the route', async () => {
  const { client, gateway } = await proposalGateway('rewritten', '/draft', {
    tasks: { promote: 'always' },
  });
  const extensions = { 'io.modelcontextprotocol/tasks': {} };
  const _meta = {
    'io.modelcontextprotocol/clientCapabilities': { elicitation: {}, extensions },
  };
  const asked = await client.send(call(1, 'tools/call', { name: 'get_weather', _meta }));
  expect(asked.result.inputRequests).toEqual({ github_login: GITHUB_LOGIN });
  const update = await client.send(call(2, 'tasks/update', { taskId: 't', inputResponses: {} }));
  expect(update.error.code).toBe(-32601);
  expect(client.initialized.capabilities.extensions).toBeUndefined();
  for (const method of ['tasks/result', 'tasks/input_response']) {
    const { status, response } = await send(gateway.url, method, { taskId: 't' });
    expect([status, response.error.code]).toEqual([404, -32601]);
  }
  const task = { ttl: 60_000 };
  const plain = await send(gateway.url, 'tools/call', { name: 'get_weather', arguments: {}, task });
  expect(plain.response.result.resultType).toBe('input_required');
});

test('sagas have no tasks', async () => {
  const { client } = await proposalGateway('sagas', '/draft');
  for (const method of ['tasks/get', 'tasks/result', 'tasks/input_response', 'tasks/cancel']) {
    const unknown = await client.send(call(1, method, { taskId: 't' }));
    expect(unknown.error.code).toBe(-32601);
  }
  expect(client.initialized.capabilities.tasks).toBeUndefined();
});
