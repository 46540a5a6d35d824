/**
 * The client of the extension's own package, with two gateways that share Redis behind a proxy that takes them in turn, in
 * front of the reference server, and of a legacy server that knows no tasks.
 * @module-tag redis
 * @module-tag long
 */
import {
  createTaskSessionFromClient,
  resultFromTaskOutcome,
  withTasks,
  type ConnectedMcpSessionPort,
} from '@modelcontextprotocol/ext-tasks/client';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { describe, expect, test } from 'vitest';
import { TASK_CLIENT } from '../fixtures/clients/task-client.ts';
import { send } from '../fixtures/clients/modern-client.ts';
import {
  greeter,
  legacyServer,
  redisServer,
  replicas,
  roundRobin,
} from '../fixtures/gateways/replica-testbed.ts';
import { startEverything } from '../fixtures/processes.ts';
import { stopAfterTest } from '../fixtures/stop-after-test.ts';

const TOOL = 'simulate-research-query';

/** A connection of that client which sends each request with the headers of the transport. */
function portTo(url: () => string): ConnectedMcpSessionPort {
  return {
    endpointId: 'gateway',
    taskCapabilities: { generation: 'v2', capabilities: {} },
    invalidated: false,
    dispatch: async (request) => {
      const { method, params = {} } = request as {
        method: string;
        params?: Record<string, unknown>;
      };
      const name = params['taskId'] ?? params['name'];
      const headers = typeof name === 'string' ? { 'mcp-name': name } : {};
      const options = { capabilities: TASK_CLIENT, headers };
      const { response } = await send(url(), method, params, options);
      return 'result' in response
        ? { kind: 'result', result: response.result }
        : { kind: 'error', error: response.error };
    },
    onServerRequest: () => () => {},
    onNotification: () => () => {},
    onInvalidated: () => () => {},
  };
}

const answering = (content: Record<string, string>, onAsked = async () => {}) => ({
  // The type of a result depends on its request, which no check of `kind` narrows.
  onInputRequest: async ({ kind }: { kind: string }): Promise<never> => {
    // The reference server asks for them in each new session.
    if (kind === 'roots') return { roots: [] } as never;
    await onAsked();
    return { action: 'accept', content } as never;
  },
});

async function everything() {
  const server = await startEverything('streamableHttp');
  stopAfterTest(() => server.stop());
  return { url: `${server.origin}/mcp` };
}

// Rule shared-5: The client of `@modelcontextprotocol/ext-tasks` completes tasks with and without input, over two replicas in
// turn and after the owner was killed, in front of server-everything and of a server that knows no tasks.
describe('the client of the extension, over two replicas', () => {
  test.each([
    ['without input', { topic: 'bridges' }, /^# Research Report: bridges/],
    ['with input', { topic: 'python', ambiguous: true }, /python \(snake\)/],
  ])('completes a task of server-everything %s', async (_, args, report) => {
    const [server, redis] = await Promise.all([everything(), redisServer()]);
    const gateways = await replicas(server as never, 2, { redis: redis.url });
    const front = await roundRobin(gateways);
    const session = withTasks(
      portTo(() => front.url),
      answering({ interpretation: 'snake' }),
    );
    const execution = await session.callTool(TOOL, args);
    expect(execution.kind).toBe('task');
    const { outcome } = await execution.settle();
    expect(resultFromTaskOutcome(outcome)).toMatchObject({
      content: [{ text: expect.stringMatching(report) }],
    });
    await session.close();
  });

  test('completes a task of a server without tasks, whose owner is killed between two polls', async () => {
    const { tools, effects } = greeter();
    const [legacy, redis] = await Promise.all([
      legacyServer({ tools, keepsEvents: true }),
      redisServer(),
    ]);
    const shared = { redis: redis.url, route: { tasks: { promote: 'interactive' } } };
    const [one, other] = await replicas(legacy, 2, shared);
    let url = one.url;
    const kill = async () => {
      url = other.url;
      await one.kill();
    };
    const session = withTasks(
      portTo(() => url),
      answering({ name: 'Ada' }, kill),
    );
    const execution = await session.callTool('greet', {});
    expect(execution.kind).toBe('task');
    const { outcome } = await execution.settle();
    expect(resultFromTaskOutcome(outcome)).toMatchObject({ content: [{ text: 'Hello Ada' }] });
    expect(effects).toEqual(['Ada']);
    await session.close();
  });
});

// Rule shared-5.
test('its other generation, for legacy tasks, passes through to the server', async () => {
  const server = await everything();
  const [gateway] = await replicas(server as never, 1);
  const client = new Client({ name: 'legacy', version: '1.0.0' }, { capabilities: {} });
  await client.connect(new StreamableHTTPClientTransport(new URL(gateway.url)));
  stopAfterTest(() => client.close());
  const session = createTaskSessionFromClient(client, { endpointId: 'gateway' });
  const execution = await session.callTool(
    TOOL,
    { topic: 'bridges' },
    { task: { preference: 'require' } },
  );
  expect(execution.kind).toBe('task');
  const { outcome } = await execution.settle();
  expect(outcome.status).toBe('completed');
  await session.close();
});
