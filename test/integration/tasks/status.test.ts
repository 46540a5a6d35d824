/** What the server says of its own task while it runs it, as the client of the gateway's task sees it. */
import { expect, test } from 'vitest';
import { gatewayBefore } from '../../fixtures/gateways/test-gateway.ts';
import {
  aboutTask,
  callForTask,
  followTask,
  untilTask,
} from '../../fixtures/clients/task-client.ts';
import type { Tool } from '../../fixtures/servers/legacy/tools.ts';
import { askName, LegacyServer } from '../../fixtures/servers/legacy-server.ts';

const TASKS = { work: { taskSupport: 'required', ttl: 120_000 } } as const;

async function serving(tool: Tool) {
  const legacy = await LegacyServer.start({ tools: { work: tool }, tasks: TASKS });
  const { gateway } = await gatewayBefore(legacy);
  const created = await callForTask(gateway.url, 'work');
  return { legacy, url: gateway.url, created: created.response.result };
}

/** A tool whose server tells what it is at, each time that it is told to. */
function reporter() {
  const steps = new Map<string, PromiseWithResolvers<void>>();
  const step = (name: string) => {
    const waiting = steps.get(name) ?? Promise.withResolvers<void>();
    steps.set(name, waiting);
    return waiting;
  };
  const tool: Tool = async (call) => {
    const { taskStore, taskId = '' } = call.extra;
    for (const message of ['Looking up', 'Writing']) {
      await step(message).promise;
      await taskStore?.updateTaskStatus(taskId, 'working', message);
    }
    await step('ask').promise;
    return askName(call);
  };
  return { tool, say: (name: string) => step(name).resolve() };
}

/** Polls until the server's words are there. */
async function untilSaid(url: string, taskId: string, message: string) {
  for (;;) {
    const { result } = (await aboutTask(url, 'get', taskId)).response;
    if (result.statusMessage === message) return result;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

// Rule promoted-18 (2025-11-25, tasks, "Task Status Notification"): The server's own status text becomes the
// `statusMessage` of the task.
test('the status message of the server reaches tasks/get and listeners, as long as the task runs', async () => {
  const { tool, say } = reporter();
  const { url, created } = await serving(tool);
  const { taskId } = created;
  const told: string[] = [];
  const wrote = Promise.withResolvers<void>();
  const following = Promise.withResolvers<void>();
  const leave = followTask(url, taskId, ({ status, statusMessage }) => {
    if (status === 'working') following.resolve();
    if (typeof statusMessage === 'string') told.push(statusMessage);
    if (statusMessage === 'Writing') wrote.resolve();
  });
  await following.promise;
  say('Looking up');
  const first = await untilSaid(url, taskId, 'Looking up');
  expect(first).toMatchObject({ status: 'working', ttlMs: created.ttlMs });
  say('Writing');
  const second = await untilSaid(url, taskId, 'Writing');
  await wrote.promise;
  expect(told).toContain('Looking up');
  expect(Date.parse(second.lastUpdatedAt)).toBeGreaterThanOrEqual(Date.parse(first.lastUpdatedAt));
  expect((await aboutTask(url, 'get', taskId)).response.result).toEqual(second);
  await leave();
});

// Rule promoted-18.
test('it is there while the task asks, too', async () => {
  const { tool, say } = reporter();
  const { url, created } = await serving(tool);
  for (const name of ['Looking up', 'Writing', 'ask']) say(name);
  const asked = await untilTask(url, created.taskId, ['input_required']);
  expect(asked.statusMessage).toBe('Writing');
});

// Rule promoted-18.
test('a server that does not tell by itself is asked', async () => {
  const { tool, say } = reporter();
  const silent: Tool = (call) => {
    call.server.notification = async () => {};
    return tool(call);
  };
  const { url, created } = await serving(silent);
  say('Looking up');
  const first = await untilSaid(url, created.taskId, 'Looking up');
  say('Writing');
  const second = await untilSaid(url, created.taskId, 'Writing');
  expect([first.status, second.status]).toEqual(['working', 'working']);
});

// Rule promoted-18.
test('an old status message does not take the place of newer progress', async () => {
  const waiting = Promise.withResolvers<void>();
  const { url, created, legacy } = await serving(async (call) => {
    const { taskStore, taskId = '', _meta } = call.extra;
    const tell = call.server.notification.bind(call.server);
    call.server.notification = async () => {};
    await taskStore?.updateTaskStatus(taskId, 'working', 'Old words');
    call.server.notification = tell;
    await waiting.promise;
    const params = { progressToken: _meta?.progressToken ?? 0, progress: 1, message: 'Half done' };
    await call.extra.sendNotification({ method: 'notifications/progress', params });
    return new Promise(() => {});
  });
  await untilSaid(url, created.taskId, 'Old words');
  waiting.resolve();
  await untilSaid(url, created.taskId, 'Half done');
  const asked = legacy.methods().filter((method) => method === 'tasks/get').length;
  await legacy.saw('tasks/get', asked + 2);
  const { result } = (await aboutTask(url, 'get', created.taskId)).response;
  expect(result.statusMessage).toBe('Half done');
});
