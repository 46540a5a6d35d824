/**
 * Tasks of several gateways that relay to each other and share no store: each task is at one of them, which its id names.
 * @module-tag long
 */
import { describe, expect, test } from 'vitest';
import { accept, callTool, send } from '../../fixtures/clients/modern-client.ts';
import {
  aboutTask,
  callForTask,
  listenToTask,
  untilTask,
} from '../../fixtures/clients/task-client.ts';
import type { GatewayProcess } from '../../fixtures/gateways/gateway-process.ts';
import {
  greeter,
  legacyServer,
  replicas,
  stateOf,
  text,
} from '../../fixtures/gateways/replica-testbed.ts';
import { askName, type LegacyServerOptions } from '../../fixtures/servers/legacy-server.ts';

const TASKS = { greet: { taskSupport: 'required', ttl: 120_000 } } as const;

/** Two gateways in front of one server, whose tool `greet` is a task of the server. */
async function pair(options: LegacyServerOptions, more: object = {}) {
  const legacy = await legacyServer({ tasks: TASKS, ...options });
  const [one, other] = await replicas(legacy, 2, more);
  return { legacy, one, other };
}

async function taskAt({ url }: GatewayProcess): Promise<string> {
  const { response } = await callForTask(url, 'greet');
  expect(response.result).toMatchObject({ resultType: 'task', ttlMs: 120_000 });
  return response.result.taskId;
}

async function answer({ url }: GatewayProcess, taskId: string, name: string): Promise<void> {
  const asked = await untilTask(url, taskId, ['input_required']);
  const keys = Object.keys(asked.inputRequests);
  const inputResponses = Object.fromEntries(keys.map((key) => [key, accept({ name })]));
  await aboutTask(url, 'update', taskId, { inputResponses });
}

describe.each([
  ['replicas', {}],
  ['gateways with workers', { config: { workers: 2 } }],
] as const)('%s without a shared store', (_, more) => {
  // Rule owned-1: Tasks are offered for tools that the server itself runs as tasks, and any replica serves them in
  // one hop.
  test('serve a legacy task of the server at any of them', async () => {
    const { tools, effects } = greeter();
    const { one, other } = await pair({ tools }, more);
    const { response } = await send(other.url, 'server/discover');
    expect(response.result.capabilities.extensions).toHaveProperty('io.modelcontextprotocol/tasks');
    expect(one.named('tasks.legacy_only')).not.toEqual([]);
    const taskId = await taskAt(one);
    expect(taskId.length).toBeLessThanOrEqual(200);
    expect(taskId).not.toMatch(/127\.0\.0\.1|http/);
    await answer(other, taskId, 'Ada');
    const done = await untilTask(other.url, taskId, ['completed']);
    expect(done.result.content[0].text).toBe('Hello Ada');
    expect(await untilTask(one.url, taskId, ['completed'])).toEqual(done);
    expect(effects).toEqual(['Ada']);
  });
});

// Rule owned-4: If an address is too long for ids of tasks, `tasks.address_too_long` is logged at the start, and
// there are no tasks.
test('an address that is too long for ids is logged, and calls become no tasks', async () => {
  const legacy = await legacyServer({ tasks: TASKS, tools: { greet: async () => 'done' } });
  const advertise = `http://${'long.'.repeat(20)}example.com:8081`;
  const config = { relay: { listen: '127.0.0.1:0', advertise } };
  const [gateway] = await replicas(legacy, 1, { config });
  expect(gateway.named('tasks.address_too_long')).toMatchObject([
    { level: 'warn', route: 'mcp', address: advertise },
  ]);
  const held = await callForTask(gateway.url, 'greet');
  expect(held.response.result.resultType).toBe('input_required');
  const retry = { requestState: stateOf(held) };
  expect(text(await callForTask(gateway.url, 'greet', retry))).toBe('done');
});

// Rule owned-1.
test('a listener at another replica is told of each change', async () => {
  const { tools } = greeter();
  const { one, other } = await pair({ tools });
  const taskId = await taskAt(one);
  const listener = listenToTask(other.url, taskId);
  await listener.asked;
  await answer(other, taskId, 'Ada');
  expect(await listener.ended).toMatchObject({ taskId, result: { content: [{}] } });
  await listener.leave();
});

// Rule owned-1.
test('a task is cancelled at its server through another replica', async () => {
  const { tools } = greeter();
  const { legacy, one, other } = await pair({ tools });
  const taskId = await taskAt(one);
  const cancelled = await aboutTask(other.url, 'cancel', taskId);
  expect(cancelled.response.result).toEqual({ resultType: 'complete' });
  await legacy.saw('tasks/cancel');
  expect((await untilTask(other.url, taskId, ['cancelled'])).status).toBe('cancelled');
});

// Rule owned-1.
test.each(['slow', 'interactive', 'always'])('%s: a plain call stays a call', async (promote) => {
  const { one } = await pair(
    { tools: { work: async (call) => askName(call) } },
    { route: { tasks: { promote, after: '0s' } } },
  );
  const asked = await callForTask(one.url, 'work');
  expect(asked.response.result.resultType).toBe('input_required');
  const [key = ''] = Object.keys(asked.response.result.inputRequests);
  const retry = {
    requestState: stateOf(asked),
    inputResponses: { [key]: accept({ name: 'Ada' }) },
  };
  expect(text(await callForTask(one.url, 'work', retry))).toBe('Ada');
});

// Rule owned-1.
test('a client that knows no tasks calls the tool as any other one', async () => {
  const { one } = await pair({ tools: { greet: async () => 'done' } });
  expect(text(await callTool(one.url, 'greet'))).toBe('done');
});

// Rule owned-3: A task ends with its replica. Its id is then unknown (-32602).
test('a task whose replica was killed is unknown', async () => {
  const { tools } = greeter();
  const { one, other } = await pair({ tools });
  const taskId = await taskAt(one);
  await one.kill();
  for (const method of ['get', 'update', 'cancel'] as const) {
    const answers = method === 'update' ? { inputResponses: {} } : {};
    const { response } = await aboutTask(other.url, method, taskId, answers);
    expect(response.error).toMatchObject({ code: -32602, data: { reason: 'unknown_task' } });
  }
});
