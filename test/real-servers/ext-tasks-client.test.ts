/**
 * The client of the extension's own package, both generations of it, with two gateways that share Redis behind a proxy that
 * takes them in turn, in front of the reference server, and of a legacy server that knows no tasks.
 * @module-tag redis
 * @module-tag long
 */
import {
  createTaskSessionFromClient,
  resultFromTaskOutcome,
  withTasks,
} from '@modelcontextprotocol/ext-tasks/client';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { ElicitResultSchema } from '@modelcontextprotocol/sdk/types.js';
import { describe, expect, test } from 'vitest';
import { answering, portTo } from '../fixtures/clients/ext-tasks-client.ts';
import { TOOLS } from '../fixtures/dialects/proposal-tools.ts';
import type {
  GatewayProcess,
  GatewayProcessOptions,
} from '../fixtures/gateways/gateway-process.ts';
import {
  greeter,
  legacyServer,
  redisServer,
  replicas,
  roundRobin,
} from '../fixtures/gateways/replica-testbed.ts';
import { startEverything } from '../fixtures/processes.ts';
import type { Tool } from '../fixtures/servers/legacy/tools.ts';
import { stopAfterTest } from '../fixtures/stop-after-test.ts';

const TOOL = 'simulate-research-query';
const REPORT = /^# Research Report: bridges/;

type Upstream = Parameters<typeof replicas>[0];

/** Two gateways that share Redis, and a proxy that takes them in turn. */
async function pair(server: Pick<Upstream, 'url'>, options: Partial<GatewayProcessOptions> = {}) {
  const redis = await redisServer();
  const gateways = await replicas(server as Upstream, 2, { redis: redis.url, ...options });
  const front = await roundRobin(gateways);
  return { gateways, front };
}

type Front = Awaited<ReturnType<typeof pair>>['front'];

/** Sends everything to the first gateway, and has it killed by the returned function, once. */
function killable(front: Front, [one, other]: readonly [GatewayProcess, GatewayProcess]) {
  front.use([one.url]);
  let killed: Promise<void> | undefined;
  return () => {
    front.use([other.url]);
    return (killed ??= one.kill());
  };
}

async function everything() {
  const server = await startEverything('streamableHttp');
  stopAfterTest(() => server.stop());
  return { url: `${server.origin}/mcp` };
}

async function settled(session: ReturnType<typeof withTasks>, tool: string, args = {}, how = {}) {
  const execution = await session.callTool(tool, args, how);
  expect(execution.kind).toBe('task');
  const { outcome } = await execution.settle();
  await session.close();
  return resultFromTaskOutcome(outcome);
}

const saying = (text: unknown) => ({ content: [{ text }] });

describe('the client of the extension, over two replicas', () => {
  test.each([
    ['without input', { topic: 'bridges' }, REPORT],
    ['with input', { topic: 'python', ambiguous: true }, /python \(snake\)/],
  ])('completes a task of server-everything %s', async (_, args, report) => {
    const { front } = await pair(await everything());
    const session = withTasks(portTo(front.url), answering({ interpretation: 'snake' }));
    expect(await settled(session, TOOL, args)).toMatchObject(saying(expect.stringMatching(report)));
  });

  test('completes a task of server-everything whose owner is killed between two polls', async () => {
    const { front, gateways } = await pair(await everything());
    const kill = killable(front, gateways);
    const port = portTo(front.url, { onPoll: (polls) => (polls === 2 ? kill() : undefined) });
    // The server asks for roots in each new session.
    const session = withTasks(port, answering({}));
    const result = await settled(session, TOOL, { topic: 'bridges' });
    expect(result).toMatchObject(saying(expect.stringMatching(REPORT)));
    expect(gateways[1].named('task.taken_over')).toHaveLength(1);
  });

  test('completes a task of server-everything that asks, and whose owner is killed then', async () => {
    const { front, gateways } = await pair(await everything());
    const answers = answering({ interpretation: 'snake' }, killable(front, gateways));
    const session = withTasks(portTo(front.url), answers);
    const result = await settled(session, TOOL, { topic: 'python', ambiguous: true });
    expect(result).toMatchObject(saying(expect.stringMatching(/python \(snake\)/)));
  });

  test('completes a call of server-everything that became a task, and whose owner is killed', async () => {
    const route = { tasks: { promote: 'interactive' } };
    const { front, gateways } = await pair(await everything(), { route });
    const answers = answering({ name: 'Ada' }, killable(front, gateways));
    const session = withTasks(portTo(front.url), answers);
    const result = await settled(session, 'trigger-elicitation-request');
    expect(result).toMatchObject({
      content: [{ text: '✅ User provided the requested information!' }, {}, {}],
    });
  });

  test('completes a task of a server without tasks, whose owner is killed between two polls', async () => {
    const { tools, effects } = greeter();
    const legacy = await legacyServer({ tools, keepsEvents: true });
    const { front, gateways } = await pair(legacy, {
      route: { tasks: { promote: 'interactive' } },
    });
    const answers = answering({ name: 'Ada' }, killable(front, gateways));
    const session = withTasks(portTo(front.url), answers);
    expect(await settled(session, 'greet')).toMatchObject(saying('Hello Ada'));
    expect(effects).toEqual(['Ada']);
  });
});

/** A client of the older generation, with the requests that it has sent. */
async function olderClient(url: URL, onPoll: (polls: number) => Promise<void> | void = () => {}) {
  const client = new Client(
    { name: 'legacy', version: '1.0.0' },
    { capabilities: { elicitation: { form: {} } } },
  );
  let polls = 0;
  const transport = new StreamableHTTPClientTransport(url, {
    fetch: async (to, init) => {
      const response = await fetch(to, init);
      if (String(init?.body).includes('"tasks/get"')) await onPoll((polls += 1));
      return response;
    },
  });
  await client.connect(transport);
  stopAfterTest(() => client.close());
  return client;
}

const REQUIRED = { task: { preference: 'require' } };

describe('its older generation, over two replicas', () => {
  test('completes a task of server-everything, although a replica is killed between two polls', async () => {
    const { front, gateways } = await pair(await everything());
    const [one, other] = gateways;
    const client = await olderClient(new URL(front.url), async (polls) => {
      if (polls !== 2) return;
      front.use([other.url]);
      await one.kill();
    });
    const session = createTaskSessionFromClient(client, { endpointId: 'gateway' });
    const result = await settled(session, TOOL, { topic: 'bridges' }, REQUIRED);
    expect(result).toMatchObject(saying(expect.stringMatching(REPORT)));
  });

  test('completes a task that asks', async () => {
    // This client hears questions on the stream of the session only, where the SDK of the server sends none of a task.
    const greet: Tool = async ({ server, extra: { taskId } }) => {
      const _meta = { 'io.modelcontextprotocol/related-task': { taskId } };
      const requestedSchema = { type: 'object', properties: { name: { type: 'string' } } };
      const params = { message: 'Who?', requestedSchema, _meta };
      const asked = { method: 'elicitation/create', params } as never;
      const { content } = await server.request(asked, ElicitResultSchema);
      return `Hello ${String(content?.['name'])}`;
    };
    const legacy = await legacyServer({
      tools: { greet },
      tasks: { greet: { taskSupport: 'required' } },
    });
    const { front } = await pair(legacy);
    const client = await olderClient(new URL(front.url));
    const session = createTaskSessionFromClient(client, {
      endpointId: 'gateway',
      ...answering({ name: 'Ada' }),
    });
    expect(await settled(session, 'greet', {}, REQUIRED)).toMatchObject(saying('Hello Ada'));
  });

  test('completes a call of a server without tasks, on the path of a dialect', async () => {
    const legacy = await legacyServer({ tools: { ...TOOLS, work: async () => 'done' } });
    const { front } = await pair(legacy, { route: { path: '/', dialects: { rewritten: '/mcp' } } });
    const client = await olderClient(new URL(front.url));
    const session = createTaskSessionFromClient(client, { endpointId: 'gateway' });
    expect(await settled(session, 'work', {}, REQUIRED)).toMatchObject(saying('done'));
  });
});
