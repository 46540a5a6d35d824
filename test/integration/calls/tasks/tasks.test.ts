/** Tools that a legacy server runs only as tasks, for clients that know none: they are called like any other. */
import { CreateMessageResultSchema } from '@modelcontextprotocol/sdk/types.js';
import { describe, expect, test } from 'vitest';
import { answersOf, reasonOf, text } from '../../../fixtures/gateways/replica-testbed.ts';
import type { GatewayOverrides } from '../../../fixtures/gateways/gateway.ts';
import { gatewayBefore } from '../../../fixtures/gateways/test-gateway.ts';
import { accept, callTool, send } from '../../../fixtures/clients/modern-client.ts';
import type { Tool } from '../../../fixtures/servers/legacy/tools.ts';
import {
  askName,
  LegacyServer,
  type LegacyServerOptions,
} from '../../../fixtures/servers/legacy-server.ts';

const RELATED = 'io.modelcontextprotocol/related-task';
const REQUIRED = { greet: { taskSupport: 'required' } } as const;
const TRANSPORTS = ['streamable-http', 'http-sse'] as const;

async function serving(options: LegacyServerOptions, overrides: GatewayOverrides = {}) {
  const legacy = await LegacyServer.start({ tasks: REQUIRED, ...options });
  const { gateway } = await gatewayBefore(legacy, overrides);
  return { legacy, gateway, url: gateway.url };
}

const greet: Tool = async (call) => `Hello ${await askName(call)}`;

/** The messages about the call that the server got. */
const aboutCall = (legacy: LegacyServer) =>
  legacy.methods().filter((method) => /^tools\/call|^tasks\/|cancelled$|^response$/.test(method));

describe.each(TRANSPORTS)('over %s, a tool that demands a task', (transport) => {
  // Rule tasks-1 (2025-11-25 tasks, "Tool-Level Negotiation"): A tool with `taskSupport` `required` is called as a
  // task. The client sees an ordinary call.
  test('is called as one, and the client cannot tell', async () => {
    const { legacy, url } = await serving({ transport, tools: { greet: async () => 'Hello' } });
    const done = await callTool(url, 'greet');
    expect(text(done)).toBe('Hello');
    expect(JSON.stringify(done.response)).not.toContain('task');
    expect(aboutCall(legacy)).toEqual(['tools/call', 'tasks/result']);
  });

  // Rule tasks-2 (2025-11-25 tasks, "TTL and Resource Management"): The server is asked to keep the task for the rest
  // of `parking.callTtl`.
  test('is asked to keep the task as long as the call may take', async () => {
    const { legacy, url } = await serving(
      { transport, tools: { greet: async () => 'Hello' } },
      { parking: { callTtlMs: 600_000 } },
    );
    await callTool(url, 'greet');
    const { ttl } = (await legacy.saw('tools/call')).body.params.task;
    expect(ttl).toBeGreaterThan(0);
    expect(ttl).toBeLessThanOrEqual(600_000);
  });

  // Rule tasks-3 (2025-11-25 tasks, "Associating Task-Related Messages" and "Task Progress Notifications"):
  // Questions, progress and log messages of the task are those of the call.
  test('asks a form and for a completion inside its task, and gets both answers', async () => {
    const tools: LegacyServerOptions['tools'] = {
      greet: async (call) => {
        const name = await askName(call);
        const sampled = await call.extra.sendRequest(
          {
            method: 'sampling/createMessage',
            params: {
              messages: [{ role: 'user', content: { type: 'text', text: `Greet ${name}` } }],
              maxTokens: 10,
            },
          },
          CreateMessageResultSchema,
        );
        return sampled.content.type === 'text' ? sampled.content.text : 'no text';
      },
    };
    const { legacy, url } = await serving({ transport, tools });
    const first = await callTool(url, 'greet');
    expect(JSON.stringify(first.response)).not.toContain('task');
    const second = await callTool(url, 'greet', answersOf(first, 'Ada'));
    const [key = ''] = Object.keys(second.response.result.inputRequests);
    expect(second.response.result.inputRequests[key].method).toBe('sampling/createMessage');
    const content = { type: 'text', text: 'Good day, Ada' };
    const done = await callTool(url, 'greet', {
      requestState: second.response.result.requestState,
      inputResponses: { [key]: { role: 'assistant', content, model: 'm' } },
    });
    expect(text(done)).toBe('Good day, Ada');
    const taskId = (await legacy.saw('tasks/result')).body.params.taskId;
    for (const times of [1, 2]) {
      const { body } = await legacy.saw('response', times);
      expect(body.result._meta[RELATED]).toEqual({ taskId });
    }
  });

  // Rule tasks-3.
  test('reports progress and logs while its task runs', async () => {
    const tools: LegacyServerOptions['tools'] = {
      greet: async ({ extra }) => {
        const progressToken = extra._meta?.progressToken ?? 'none';
        await extra.sendNotification({
          method: 'notifications/progress',
          params: { progressToken, progress: 1, total: 2 },
        });
        await extra.sendNotification({
          method: 'notifications/message',
          params: { level: 'warning', data: 'half way' },
        });
        return 'Hello';
      },
    };
    const { url } = await serving({ transport, tools });
    const done = await callTool(
      url,
      'greet',
      {},
      { meta: { progressToken: 'mine', 'io.modelcontextprotocol/logLevel': 'info' } },
    );
    expect(done.notifications).toEqual([
      {
        jsonrpc: '2.0',
        method: 'notifications/progress',
        params: { progressToken: 'mine', progress: 1, total: 2 },
      },
      {
        jsonrpc: '2.0',
        method: 'notifications/message',
        params: { level: 'warning', data: 'half way' },
      },
    ]);
    expect(text(done)).toBe('Hello');
  });

  // Rule tasks-5 (2025-11-25 cancellation, "Behavior Requirements"): A cancelled call cancels its task with
  // `tasks/cancel`.
  test('is cancelled by tasks/cancel if the client leaves', async () => {
    const tools = { greet: () => new Promise<string>(() => {}) };
    const { legacy, url } = await serving({ transport, tools });
    const leaving = new AbortController();
    const called = callTool(url, 'greet', {}, { signal: leaving.signal });
    const { body } = await legacy.saw('tasks/result');
    leaving.abort();
    await expect(called).rejects.toThrow();
    const cancelled = await legacy.saw('tasks/cancel');
    expect(cancelled.body.params.taskId).toBe(body.params.taskId);
    expect(legacy.methods()).not.toContain('notifications/cancelled');
  });

  // Rule tasks-6 (2025-11-25 tasks, "Getting Tasks"): The reply of `tasks/result` is the result, unchanged. It is
  // asked again if its stream breaks, or at the interval of the server if it comes too early.
  test('fails as any other', async () => {
    const tools: LegacyServerOptions['tools'] = {
      greet: async () => {
        throw new Error('no luck');
      },
    };
    const { url } = await serving({ transport, tools });
    const { result } = (await callTool(url, 'greet')).response;
    expect(result).toMatchObject({ isError: true, content: [{ text: 'Error: no luck' }] });
  });
});

// Rule tasks-1.
test.each(['optional', 'forbidden'] as const)(
  'a tool whose taskSupport is %s is called plainly',
  async (taskSupport) => {
    const { legacy, url } = await serving({
      tools: { greet },
      tasks: { greet: { taskSupport } },
    });
    const asked = await callTool(url, 'greet');
    expect(text(await callTool(url, 'greet', answersOf(asked, 'Ada')))).toBe('Hello Ada');
    expect((await legacy.saw('tools/call')).body.params.task).toBeUndefined();
    expect(aboutCall(legacy)).toEqual(['tools/call', 'response']);
  },
);

// Rule tasks-1.
test('what a listing showed holds for later calls: the server is not asked again for each', async () => {
  const { legacy, url } = await serving({ tools: { greet: async () => 'Hello' } });
  await send(url, 'tools/list');
  for (let call = 0; call < 3; call += 1) await callTool(url, 'greet');
  expect(legacy.methods().filter((method) => method === 'tools/list')).toHaveLength(1);
});

// Rule tasks-1.
test('a server without tasks is not asked for its tools before a call', async () => {
  const { legacy, url } = await serving({ tools: { greet }, tasks: undefined as never });
  const asked = await callTool(url, 'greet');
  expect(text(await callTool(url, 'greet', answersOf(asked, 'Ada')))).toBe('Hello Ada');
  expect(legacy.methods()).not.toContain('tools/list');
});

describe('a parked call whose task waits', () => {
  // Rule tasks-5.
  test('is cancelled with tasks/cancel when the client stays away', async () => {
    const { legacy, url, gateway } = await serving(
      { tools: { greet } },
      { parking: { ttlMs: 200 } },
    );
    await callTool(url, 'greet');
    const { body } = await legacy.saw('tasks/result');
    expect((await legacy.saw('tasks/cancel')).body.params.taskId).toBe(body.params.taskId);
    await gateway.log.saw('call.ended');
  });

  // Rule tasks-6.
  test.each([true, false])(
    'goes on over a broken stream (events kept: %s)',
    async (keepsEvents) => {
      const effects: string[] = [];
      const tools: LegacyServerOptions['tools'] = {
        greet: async (call) => {
          const name = await askName(call);
          effects.push(name);
          return `Hello ${name}`;
        },
      };
      const { legacy, url } = await serving({ tools, keepsEvents });
      const asked = await callTool(url, 'greet');
      legacy.cut();
      const done = await callTool(url, 'greet', answersOf(asked, 'Ada'));
      expect(text(done)).toBe('Hello Ada');
      expect(effects).toEqual(['Ada']);
      expect(legacy.methods().filter((method) => method === 'tools/call')).toHaveLength(1);
    },
  );

  // Rule tasks-8: A task that the server has dropped is a lost call.
  test('is lost when the task expires at the server', async () => {
    const tasks = { greet: { taskSupport: 'required', ttl: 500 } } as const;
    const { url, legacy } = await serving({ tools: { greet }, tasks });
    const asked = await callTool(url, 'greet');
    await legacy.saw('tasks/get');
    const done = await callTool(url, 'greet', answersOf(asked, 'Ada'));
    expect(reasonOf(done)).toBe('call_lost');
    expect(JSON.stringify(done.response)).not.toContain('task');
  });
});

// Rule tasks-6.
test('a stream that breaks while the tool works is asked for again', async () => {
  const finishing = Promise.withResolvers<void>();
  const tools: LegacyServerOptions['tools'] = {
    greet: async () => finishing.promise.then(() => 'Hello'),
  };
  const { legacy, url } = await serving({ tools });
  const called = callTool(url, 'greet');
  await legacy.saw('tasks/result');
  legacy.cut();
  await legacy.saw('tasks/result', 2);
  finishing.resolve();
  expect(text(await called)).toBe('Hello');
  expect(legacy.methods().filter((method) => method === 'tools/call')).toHaveLength(1);
});

// Rule tasks-3.
test('two calls of one client at once get each their own questions and results', async () => {
  const tools: LegacyServerOptions['tools'] = {
    greet: async (call) => `Hello ${await askName(call, `Who is ${String(call.args['n'])}?`)}`,
  };
  const { url } = await serving({ tools });
  const calls = ['1', '2', '3'].map(async (n) => {
    const asked = await callTool(url, 'greet', { arguments: { n } });
    const [request] = Object.values<{ params: { message: string } }>(
      asked.response.result.inputRequests,
    );
    expect(request?.params.message).toBe(`Who is ${n}?`);
    const [key = ''] = Object.keys(asked.response.result.inputRequests);
    const done = await callTool(url, 'greet', {
      arguments: { n },
      requestState: asked.response.result.requestState,
      inputResponses: { [key]: accept({ name: `N${n}` }) },
    });
    return text(done);
  });
  expect(await Promise.all(calls)).toEqual(['Hello N1', 'Hello N2', 'Hello N3']);
});
