/** Calls that become tasks of the gateway, over HTTP: what their client sees, and what the server does. */
import { describe, expect, test } from 'vitest';
import { accept, callTool, send } from '../../fixtures/clients/modern-client.ts';
import { aboutTask, callForTask, untilTask } from '../../fixtures/clients/task-client.ts';
import { answersOf, text } from '../../fixtures/gateways/replica-testbed.ts';
import { legacyGateway } from '../../fixtures/gateways/legacy-gateway.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';
import { askName } from '../../fixtures/servers/legacy-server.ts';
import { answerTo, never, SOON, taskOf } from '../../fixtures/gateways/promoting-gateway.ts';

const TASKS = 'io.modelcontextprotocol/tasks';
const REQUIRED = { extensions: { [TASKS]: {} } };

describe('a slow call', () => {
  // Rule promoted-1 (tasks extension, "Task Creation"): For a client with the extension, a `tools/call` without an
  // outcome for `tasks.after` becomes a task. Its id has at most 200 characters.
  test('becomes a task that can be fetched at once', async () => {
    const { url, taskId, created } = await taskOf(never);
    expect(created).toMatchObject({ status: 'working', ttlMs: 3_600_000, pollIntervalMs: 1_000 });
    expect(taskId.length).toBeLessThanOrEqual(200);
    const { response } = await aboutTask(url, 'get', taskId);
    expect(response.result).toMatchObject({ resultType: 'complete', taskId, status: 'working' });
    expect(JSON.stringify([created, response])).not.toContain('requestState');
  });

  // Rule promoted-2 (tasks extension, "Task Polling"): `tasks/get` has the result of a completed task, and the error
  // of a failed one.
  test('completes with its result, an error of the tool included', async () => {
    const ending = Promise.withResolvers<object>();
    const { url, taskId } = await taskOf(() => ending.promise);
    ending.resolve({ content: [{ type: 'text', text: 'broken' }], isError: true });
    const done = await untilTask(url, taskId, ['completed']);
    expect(done.result).toMatchObject({ content: [{ text: 'broken' }], isError: true });
  });

  // Rule promoted-3 (tasks extension, "Task Update Requests"): `inputRequests` has all open questions, and each
  // answer goes to the server once. An answer that does not fit gets -32602.
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

  // Rule promoted-3.
  test('works on without a question that the server takes back', async () => {
    const takenBack = new AbortController();
    const ending = Promise.withResolvers<string>();
    const { url, taskId } = await taskOf(
      async (call) => {
        await askName(call, 'Your name?', 'name', takenBack.signal).catch(() => {});
        return ending.promise;
      },
      { tasks: { promote: 'interactive' } },
    );
    await untilTask(url, taskId, ['input_required']);
    takenBack.abort();
    expect(await untilTask(url, taskId, ['working'])).not.toHaveProperty('inputRequests');
    ending.resolve('nobody');
    expect((await untilTask(url, taskId, ['completed'])).result.content[0].text).toBe('nobody');
  });

  // Rule promoted-3.
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

  // Rule promoted-5 (tasks extension, "Task Cancellation"): `tasks/cancel` ends the task, and cancels the call at the
  // server.
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

  // Rule promoted-6: A task ends at its `ttlMs`: the server is told, and the id becomes unknown.
  test('that nobody fetches ends with its time', async () => {
    const clock = new ManualClock();
    const { url, legacy } = await legacyGateway(
      { tools: { work: never } },
      { clock, tasks: { afterMs: 50, ttlMs: 60_000 } },
    );
    const creating = callForTask(url, 'work');
    // Nothing is cancelled that the server has not got.
    await legacy.saw('tools/call');
    clock.advance(50);
    const { taskId } = (await creating).response.result;
    clock.advance(60_000);
    await legacy.saw('notifications/cancelled');
    const { response } = await aboutTask(url, 'get', taskId);
    expect(response.error).toMatchObject({ code: -32602, data: { reason: 'unknown_task' } });
  });

  // Rule promoted-7: Beyond `limits.maxParkedCalls` or `limits.maxParkedCallsPerPrincipal` no call becomes a task.
  test.each([{ maxParkedCalls: 1 }, { maxParkedCallsPerPrincipal: 1 }])(
    '%j: a call beyond the limit becomes no task',
    async (limits) => {
      const { url } = await legacyGateway({ tools: { work: never } }, { ...SOON, limits });
      const [first, second] = [await callForTask(url, 'work'), await callForTask(url, 'work')];
      expect(first.response.result.resultType).toBe('task');
      expect(second.response.result).toMatchObject({
        resultType: 'input_required',
        inputRequests: {},
      });
    },
  );

  // Rule promoted-7.
  test('anonymous callers have half of all tasks together, and none each', async () => {
    const { url } = await legacyGateway(
      { tools: { work: never } },
      {
        ...SOON,
        limits: { maxParkedCalls: 4, maxParkedCallsPerPrincipal: 1 },
        // Nobody here is the user of this machine.
        edge: { trustedProxies: ['10.0.0.1'] },
      },
    );
    const types: string[] = [];
    for (let called = 0; called < 3; called += 1) {
      types.push((await callForTask(url, 'work')).response.result.resultType);
    }
    expect(types).toEqual(['task', 'task', 'input_required']);
  });
});

describe('which calls become tasks', () => {
  // Rule promoted-9.
  test('slow: a question before that is asked in the call itself', async () => {
    const { url } = await legacyGateway(
      { tools: { work: async (call) => (await askName(call), never(call)) } },
      { tasks: { afterMs: 1_000 } },
    );
    const asked = await callForTask(url, 'work');
    expect(asked.response.result.resultType).toBe('input_required');
    const { requestState, inputResponses } = answersOf(asked, 'Ada');
    const created = await callForTask(url, 'work', { requestState, inputResponses });
    expect(created.response.result.resultType).toBe('task');
  });

  // Rule promoted-9: `tasks.promote` makes a task of slow calls (`slow`), also of calls that ask (`interactive`), of
  // all (`always`) or none (`never`). `tasks.tools` sets it for single tools.
  test.each([
    ['interactive', 'input_required'],
    ['always', 'working'],
  ] as const)('%s: the task begins as %s', async (promote, status) => {
    const { created } = await taskOf(async (call) => askName(call), { tasks: { promote } });
    expect(created.status).toBe(status);
  });

  test('never, for one tool', async () => {
    const tasks = { promote: 'always', tools: { ask: 'never' } } as const;
    const { url } = await legacyGateway(
      { tools: { ask: async (call) => askName(call), work: never } },
      { tasks },
    );
    const [asked, created] = [await callForTask(url, 'ask'), await callForTask(url, 'work')];
    expect(asked.response.result.resultType).toBe('input_required');
    expect(created.response.result.resultType).toBe('task');
  });

  // Rule promoted-10 (tasks extension, "Capability Negotiation"): A client without the extension gets no task, and
  // -32021 for its methods.
  test('none of a client that knows no tasks', async () => {
    const { url } = await legacyGateway(
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

  // Rule promoted-11: The extension is advertised if tasks are offered. Otherwise its methods do not exist.
  test.each([
    ['slow', { [TASKS]: {} }, -32602],
    ['never', undefined, -32601],
  ] as const)('%s: advertised or unknown', async (promote, extensions, code) => {
    const { url } = await legacyGateway({ tools: { work: never } }, { tasks: { promote } });
    const { response } = await send(url, 'server/discover');
    expect(response.result.capabilities.extensions).toEqual(extensions);
    expect((await aboutTask(url, 'get', 'any')).response.error.code).toBe(code);
  });
});

// Rule promoted-12 (tasks extension, "Security Considerations"): The id of a task works for its principal and route
// only.
test('the task of another caller is unknown', async () => {
  const { url } = await legacyGateway({ tools: { work: never } }, SOON);
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

// Rule validation-16.
test('a request whose Mcp-Name is another task is refused', async () => {
  const { url, taskId } = await taskOf(never);
  const headers = { 'mcp-name': 'another' };
  const { status, response } = await aboutTask(url, 'get', taskId, {}, { headers });
  expect([status, response.error.code]).toEqual([400, -32020]);
});

// Rule promoted-24: A question becomes a task instead of the tenth round, or the last one of `parking.maxRounds`.
test.each([
  { parking: {}, roundsBefore: 9 },
  { parking: { maxRounds: 3 }, roundsBefore: 2 },
  { parking: { maxRounds: 50 }, roundsBefore: 9 },
])(
  'a tool that asks more often than its client stands asks in a task after $roundsBefore rounds',
  async ({ parking, roundsBefore }) => {
    const { url, legacy } = await legacyGateway(
      {
        tools: {
          work: async (call) => {
            const names: string[] = [];
            for (let asked = 1; asked <= 12; asked += 1) names.push(await askName(call));
            return names.join(' ');
          },
        },
      },
      { parking },
    );
    let told = await callForTask(url, 'work');
    let rounds = 0;
    while (told.response.result.resultType === 'input_required') {
      rounds += 1;
      told = await callForTask(url, 'work', answersOf(told, `${rounds}`));
    }
    expect(rounds).toBe(roundsBefore);
    expect(told.response.result).toMatchObject({ resultType: 'task', status: 'input_required' });
    const { taskId } = told.response.result;
    for (let asked = rounds + 1; asked <= 12; asked += 1) {
      const open = await untilTask(url, taskId, ['input_required']);
      await aboutTask(url, 'update', taskId, answerTo(open, `${asked}`));
    }
    const done = await untilTask(url, taskId, ['completed']);
    expect(done.result.content[0].text).toBe('1 2 3 4 5 6 7 8 9 10 11 12');
    expect(legacy.methods().filter((method) => method === 'tools/call')).toHaveLength(1);
  },
);
