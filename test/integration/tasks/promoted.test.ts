/** Calls that become tasks of the gateway, over HTTP: what their client sees, and what the server does. */
import type { ServerResponse } from 'node:http';
import { describe, expect, test } from 'vitest';
import { startTestGateway, type GatewayOverrides } from '../../fixtures/gateways/gateway.ts';
import { accept, callTool, send } from '../../fixtures/clients/modern-client.ts';
import {
  aboutTask,
  callForTask,
  TASK_CLIENT,
  untilTask,
} from '../../fixtures/clients/task-client.ts';
import { answersOf, text } from '../../fixtures/gateways/replica-testbed.ts';
import { ManualClock, turnsUntil } from '../../fixtures/manual-clock.ts';
import {
  askName,
  LegacyServer,
  type LegacyServerOptions,
  type Tool,
} from '../../fixtures/servers/legacy-server.ts';
import {
  eventStream,
  json,
  legacyServer as scriptedServer,
} from '../../fixtures/servers/scripted-server.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

const TASKS = 'io.modelcontextprotocol/tasks';
const REQUIRED = { extensions: { [TASKS]: {} } };

async function serving(options: LegacyServerOptions, overrides: GatewayOverrides = {}) {
  const legacy = await LegacyServer.start(options);
  stopAfterTest(() => legacy.stop());
  const gateway = await startTestGateway(legacy.url, overrides);
  stopAfterTest(() => gateway.close());
  return { legacy, gateway, url: gateway.url };
}

const SOON = { tasks: { afterMs: 50 } } as const;
const never: Tool = () => new Promise(() => {});

/** A call of this tool that has become a task. */
async function taskOf(tool: Tool, overrides: GatewayOverrides = SOON) {
  const stage = await serving({ tools: { work: tool } }, overrides);
  const created = await callForTask(stage.url, 'work');
  expect(created.response.result).toMatchObject({ resultType: 'task' });
  const taskId: string = created.response.result.taskId;
  return { ...stage, taskId, created: created.response.result };
}

const answerTo = ({ inputRequests }: { inputRequests: object }, name: string) => ({
  inputResponses: Object.fromEntries(
    Object.keys(inputRequests).map((key) => [key, accept({ name })]),
  ),
});

describe('a slow call', () => {
  // Rule promoted-1 (tasks extension, "Task Creation"): For a client that declares the extension, a `tools/call`
  // without outcome or question for `tasks.after` gets a task as its result, whose id has at most 200 characters. It
  // can be fetched at once, and no message of it has a `requestState`.
  test('becomes a task that can be fetched at once', async () => {
    const { url, taskId, created } = await taskOf(never);
    expect(created).toMatchObject({ status: 'working', ttlMs: 3_600_000, pollIntervalMs: 1_000 });
    expect(taskId.length).toBeLessThanOrEqual(200);
    const { response } = await aboutTask(url, 'get', taskId);
    expect(response.result).toMatchObject({ resultType: 'complete', taskId, status: 'working' });
    expect(JSON.stringify([created, response])).not.toContain('requestState');
  });

  // Rule promoted-2 (tasks extension, "Task Polling"): `tasks/get` has the result of a task that is completed, with
  // `isError` as well, and the JSON-RPC error of one that failed.
  test('completes with its result, an error of the tool included', async () => {
    const ending = Promise.withResolvers<object>();
    const { url, taskId } = await taskOf(() => ending.promise);
    ending.resolve({ content: [{ type: 'text', text: 'broken' }], isError: true });
    const done = await untilTask(url, taskId, ['completed']);
    expect(done.result).toMatchObject({ content: [{ text: 'broken' }], isError: true });
  });

  // Rule promoted-3 (tasks extension, "Task Update Requests"): The questions of a task are its `inputRequests`, all that
  // are open. Answers go to the server once; what is missing stays open under its key, other keys are ignored, and
  // no key is used for two questions.
  test('asks in its task, takes answers one by one, and uses no key twice', async () => {
    const starting = Promise.withResolvers<void>();
    const { url, taskId, legacy } = await taskOf(async (call) => {
      await starting.promise;
      const two = await Promise.all([askName(call, 'First?'), askName(call, 'Second?')]);
      return [...two, await askName(call, 'Third?')].join(' ');
    });
    starting.resolve();
    const asked = await untilTask(url, taskId, ['input_required']);
    const [first = '', second = ''] = Object.keys(asked.inputRequests);
    expect(asked.inputRequests[first].params.message).toBe('First?');

    const give = (inputResponses: object) => aboutTask(url, 'update', taskId, { inputResponses });
    const acknowledged = await give({ [first]: accept({ name: 'a' }), unknown: accept() });
    expect(acknowledged.response.result).toEqual({ resultType: 'complete' });
    const left = await untilTask(url, taskId, ['input_required']);
    expect(Object.keys(left.inputRequests)).toEqual([second]);
    await give({ [first]: accept({ name: 'x' }) });
    await give({ [second]: accept({ name: 'b' }) });
    const last = await untilTask(url, taskId, ['input_required']);
    const [third = ''] = Object.keys(last.inputRequests);
    expect([first, second]).not.toContain(third);
    await give({ [third]: accept({ name: 'c' }) });
    const done = await untilTask(url, taskId, ['completed']);
    expect(done.result.content).toEqual([{ type: 'text', text: 'a b c' }]);
    expect(legacy.methods().filter((method) => method === 'response')).toHaveLength(3);
  });

  // Rule promoted-4: An answer that does not fit its question is refused with -32602, and the question stays open.
  test('refuses an answer that does not fit, and keeps the question open', async () => {
    const { url, taskId } = await taskOf(async (call) => askName(call), {
      tasks: { promote: 'interactive' },
    });
    const asked = await untilTask(url, taskId, ['input_required']);
    const [key = ''] = Object.keys(asked.inputRequests);
    const refused = await aboutTask(url, 'update', taskId, {
      inputResponses: { [key]: { action: 'perhaps' } },
    });
    expect(refused.response.error.code).toBe(-32602);
    expect((await untilTask(url, taskId, ['input_required'])).inputRequests).toHaveProperty(key);
    await aboutTask(url, 'update', taskId, answerTo(asked, 'Ada'));
    expect((await untilTask(url, taskId, ['completed'])).result.content[0].text).toBe('Ada');
  });

  // Rule promoted-5 (tasks extension, "Task Cancellation"): `tasks/cancel` is acknowledged and ends the task. The server
  // is told to cancel the call, also while a question waits.
  test.each(['working', 'input_required'])('is cancelled while it is %s', async (status) => {
    const { url, taskId, legacy } = await taskOf(
      status === 'working' ? never : async (call) => askName(call),
      { tasks: { promote: 'always' } },
    );
    await untilTask(url, taskId, [status]);
    await legacy.saw('tools/call');
    const cancelled = await aboutTask(url, 'cancel', taskId);
    expect(cancelled.response.result).toEqual({ resultType: 'complete' });
    await legacy.saw('notifications/cancelled');
    const { response } = await aboutTask(url, 'get', taskId);
    expect(response.result.status).toBe('cancelled');
    expect((await aboutTask(url, 'cancel', taskId)).response.result).toBeDefined();
  });

  // Rule promoted-6: A task ends at its `ttlMs`, and everything of it with it: the server is told, and its id is unknown.
  test('that nobody fetches ends with its time', async () => {
    const clock = new ManualClock();
    const { url, legacy } = await serving(
      { tools: { work: never } },
      { clock, tasks: { afterMs: 50, ttlMs: 60_000 } },
    );
    const creating = callForTask(url, 'work');
    // Nothing is cancelled that the server has not got.
    await legacy.saw('tools/call');
    await clock.advance(50);
    const { taskId } = (await creating).response.result;
    await clock.advance(60_000);
    await legacy.saw('notifications/cancelled');
    const { response } = await aboutTask(url, 'get', taskId);
    expect(response.error).toMatchObject({ code: -32602, data: { reason: 'unknown_task' } });
  });

  // Rule promoted-7: Beyond `limits.maxTasks` or `limits.maxTasksPerPrincipal` no call becomes a task. Its client is told
  // to retry, as without tasks.
  test.each([{ maxTasks: 1 }, { maxTasksPerPrincipal: 1 }])(
    '%j: a call beyond the limit becomes no task',
    async (limits) => {
      const { url } = await serving({ tools: { work: never } }, { ...SOON, limits });
      const [first, second] = [await callForTask(url, 'work'), await callForTask(url, 'work')];
      expect(first.response.result.resultType).toBe('task');
      expect(second.response.result).toMatchObject({
        resultType: 'input_required',
        inputRequests: {},
      });
    },
  );
});

describe('which calls become tasks', () => {
  // Rule promoted-8: With `tasks.promote: slow` a question is asked as without tasks, and the retry can become a task.
  test('slow: a question before that is asked in the call itself', async () => {
    const { url } = await serving(
      { tools: { work: async (call) => (await askName(call), never(call)) } },
      { tasks: { afterMs: 1_000 } },
    );
    const asked = await callForTask(url, 'work');
    expect(asked.response.result.resultType).toBe('input_required');
    const { requestState, inputResponses } = answersOf(asked, 'Ada');
    const created = await callForTask(url, 'work', { requestState, inputResponses });
    expect(created.response.result.resultType).toBe('task');
  });

  // Rule promoted-9: With `interactive` a question makes the call a task. With `always` the call becomes one at once, and
  // with `never` none does. `tasks.tools` decides for single tools.
  test.each([
    ['interactive', 'input_required'],
    ['always', 'working'],
  ] as const)('%s: the task begins as %s', async (promote, status) => {
    const { created } = await taskOf(async (call) => askName(call), { tasks: { promote } });
    expect(created.status).toBe(status);
  });

  test('never, for one tool', async () => {
    const tasks = { promote: 'always', tools: { ask: 'never' } } as const;
    const { url } = await serving(
      { tools: { ask: async (call) => askName(call), work: never } },
      { tasks },
    );
    const [asked, created] = [await callForTask(url, 'ask'), await callForTask(url, 'work')];
    expect(asked.response.result.resultType).toBe('input_required');
    expect(created.response.result.resultType).toBe('task');
  });

  // Rule promoted-10 (tasks extension, "Capability Negotiation"): A client that does not declare the extension gets no
  // task, whatever is configured, and -32021 for each of the methods of tasks.
  test('none of a client that knows no tasks', async () => {
    const { url } = await serving(
      { tools: { work: async () => 'done' } },
      { tasks: { promote: 'always' } },
    );
    expect(text(await callTool(url, 'work'))).toBe('done');
    for (const method of ['get', 'update', 'cancel'] as const) {
      const { status, response } = await aboutTask(
        url,
        method,
        'any',
        method === 'update' ? { inputResponses: {} } : {},
        { capabilities: {} },
      );
      expect([status, response.error.code]).toEqual([400, -32021]);
      expect(response.error.data).toEqual({ requiredCapabilities: REQUIRED });
    }
  });

  // Rule promoted-11: The extension is advertised where tasks are offered. Elsewhere its methods do not exist.
  test.each([
    ['slow', { [TASKS]: {} }, -32602],
    ['never', undefined, -32601],
  ] as const)('%s: advertised or unknown', async (promote, extensions, code) => {
    const { url } = await serving({ tools: { work: never } }, { tasks: { promote } });
    const { response } = await send(url, 'server/discover');
    expect(response.result.capabilities.extensions).toEqual(extensions);
    expect((await aboutTask(url, 'get', 'any')).response.error.code).toBe(code);
  });
});

// Rule promoted-12 (tasks extension, "Security Considerations"): The id of a task works for its principal only, on its
// route only. It is as unknown to others as any other text.
test('the task of another caller is unknown', async () => {
  const { url } = await serving({ tools: { work: never } }, SOON);
  const as = (name: string) => ({ headers: { authorization: `Bearer ${name}` } });
  const created = await callForTask(url, 'work', {}, as('ada'));
  const { taskId } = created.response.result;
  for (const method of ['get', 'update', 'cancel'] as const) {
    const answers = method === 'update' ? { inputResponses: {} } : {};
    const reply = await aboutTask(url, method, taskId, answers, as('eve'));
    expect(reply.response.error).toMatchObject({ code: -32602 });
  }
  const own = await aboutTask(url, 'get', taskId, {}, as('ada'));
  expect(own.response.result.status).toBe('working');
});

// Rule promoted-13 (tasks extension, "Streamable HTTP: Routing Headers"): `Mcp-Name` repeats the id of the task.
test('a request whose Mcp-Name is another task is refused', async () => {
  const { url, taskId } = await taskOf(never);
  const headers = { 'mcp-name': 'another' };
  const { status, response } = await aboutTask(url, 'get', taskId, {}, { headers });
  expect([status, response.error.code]).toEqual([400, -32020]);
});

describe('a tool that its server runs as a task', () => {
  const tasks = { work: { taskSupport: 'required', ttl: 120_000 } } as const;

  // Rule promoted-14: A call that the server runs as a legacy task is a task for the client as soon as the server has
  // created it, with the time to live and the poll interval that the server set. `tasks.promote: never` keeps it a call.
  test('becomes a task at once, with what its server says of it', async () => {
    const { url } = await serving({ tools: { work: async (call) => askName(call) }, tasks });
    const created = await callForTask(url, 'work');
    expect(created.response.result).toMatchObject({ resultType: 'task', ttlMs: 120_000 });
    const { taskId } = created.response.result;
    const asked = await untilTask(url, taskId, ['input_required']);
    await aboutTask(url, 'update', taskId, answerTo(asked, 'Ada'));
    const done = await untilTask(url, taskId, ['completed']);
    expect(done.result.content).toEqual([{ type: 'text', text: 'Ada' }]);
    expect(JSON.stringify(done)).not.toContain('related-task');
  });

  /** A server that asks before it creates its task, when it is told to. */
  async function askingFirst(overrides: GatewayOverrides = {}) {
    const reply = (id: unknown, result: object) => ({ jsonrpc: '2.0', id, result });
    const at = '2026-11-22T07:00:00Z';
    const status = { status: 'working', createdAt: at, lastUpdatedAt: at, ttl: 120_000 };
    const answered = Promise.withResolvers<() => void>();
    const followed: ServerResponse[] = [];
    let create = () => {};
    const server = await scriptedServer(
      ({ body }, response) => {
        const execution = { taskSupport: 'required' };
        const tool = { name: 'work', inputSchema: { type: 'object' }, execution };
        if (body.method === 'tools/list')
          return json(response, 200, reply(body.id, { tools: [tool] }));
        if (body.method === 'tasks/result') return void followed.push(response);
        if (body.method !== 'tools/call') return void eventStream(response);
        const stream = eventStream(response);
        const requestedSchema = { type: 'object', properties: { name: { type: 'string' } } };
        const params = { message: 'Who?', requestedSchema };
        stream.send({ jsonrpc: '2.0', id: 'q', method: 'elicitation/create', params });
        create = () => stream.send(reply(body.id, { task: { taskId: 'theirs', ...status } }));
      },
      {
        capabilities: { tasks: { requests: { tools: { call: {} } } } },
        onResponse: (_received, response) =>
          answered.resolve(() => void response.writeHead(202).end()),
      },
    );
    stopAfterTest(() => server.stop());
    const gateway = await startTestGateway(server.url, overrides);
    stopAfterTest(() => gateway.close());
    const asked = await callForTask(gateway.url, 'work');
    create();
    await turnsUntil(() => followed.length === 1);
    const retried = callForTask(gateway.url, 'work', answersOf(asked, 'Ada'));
    return { retried, followed, acceptAnswer: await answered.promise };
  }

  // Rule promoted-14.
  test('becomes one with the retry if its client was asked before the task was there', async () => {
    const { retried, followed, acceptAnswer } = await askingFirst();
    for (const response of followed) eventStream(response);
    acceptAnswer();
    const { response } = await retried;
    expect(response.result).toMatchObject({ resultType: 'task', ttlMs: 120_000 });
  });

  // Rule promoted-14.
  test('becomes one as soon as its stream is back, if that broke meanwhile', async () => {
    const { retried, followed, acceptAnswer } = await askingFirst({
      tasks: { afterMs: 3_600_000 },
    });
    followed[0]?.destroy();
    await turnsUntil(() => followed.length === 2);
    // The head of the second response is held back.
    acceptAnswer();
    const { response } = await retried;
    expect(response.result).toMatchObject({ resultType: 'task', ttlMs: 120_000 });
  });

  test('stays a call if the operator says so', async () => {
    const { url } = await serving(
      { tools: { work: async () => 'done' }, tasks },
      { tasks: { promote: 'never' } },
    );
    expect(text(await callForTask(url, 'work'))).toBe('done');
  });
});

describe('a listener', () => {
  const listening = (taskIds: string[]) => ({ notifications: { taskIds } });

  // Rule promoted-15 (tasks extension, "Task Status Notifications"): A listener that names tasks gets each change of
  // those that its caller has, as `tasks/get` shows them, and their first state. Its acknowledgement lists them.
  test('is told what tasks/get would show, each time that a task changes', async () => {
    const { url, taskId } = await taskOf(async (call) => askName(call), {
      tasks: { promote: 'interactive' },
    });
    const heard: any[] = []; // eslint-disable-line @typescript-eslint/no-explicit-any
    const leaving = new AbortController();
    const asked = Promise.withResolvers<object>();
    const ended = Promise.withResolvers<void>();
    const listener = send(url, 'subscriptions/listen', listening([taskId, 'unknown']), {
      capabilities: TASK_CLIENT,
      signal: leaving.signal,
      onMessage: ({ method, params }) => {
        heard.push({ method, params });
        if (params?.status === 'input_required') asked.resolve(params);
        if (params?.status === 'completed') ended.resolve();
      },
    }).catch(() => {});
    const question = (await asked.promise) as { inputRequests: object };
    await aboutTask(url, 'update', taskId, answerTo(question, 'Ada'));
    await ended.promise;
    const { result } = (await aboutTask(url, 'get', taskId)).response;
    leaving.abort();
    await listener;
    expect(heard[0].params.notifications).toEqual({ taskIds: [taskId] });
    expect(new Set(heard.slice(1).map(({ method }) => method))).toEqual(
      new Set(['notifications/tasks']),
    );
    const { _meta: _id, ...last } = heard.at(-1).params;
    const { resultType: _type, ...shown } = result;
    expect(last).toEqual(shown);
  });

  // Rule promoted-10.
  test('that names tasks must declare the extension', async () => {
    const { url } = await serving({ tools: { work: never } });
    const { status, response } = await send(url, 'subscriptions/listen', listening(['any']));
    expect([status, response.error.code]).toEqual([400, -32021]);
  });
});
