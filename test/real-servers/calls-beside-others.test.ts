/**
 * Published servers that ask beside the streams of their calls, and two windows of one client: what the one calls does not
 * wait for what the other calls.
 */
import { describe, expect, test } from 'vitest';
import { accept, callTool, type SendOptions } from '../fixtures/clients/modern-client.ts';
import { startTestGateway, type StdioServer } from '../fixtures/gateways/gateway.ts';
import { advanceUntil, ManualClock, turnsUntil } from '../fixtures/manual-clock.ts';
import { EVERYTHING_STDIO, startEverything } from '../fixtures/processes.ts';
import { startKnowledgeApi } from '../fixtures/real-servers/knowledge-api.ts';
import { startMongodb } from '../fixtures/real-servers/node-server.ts';
import { stopAfterTest } from '../fixtures/stop-after-test.ts';

interface Tool {
  readonly call: { readonly name: string; readonly arguments: object };
  readonly says: string;
}

interface PublishedServer {
  readonly upstream: string | StdioServer;
  readonly slow: Tool;
  /** Whether the server runs the slow tool, if progress of it has come or not. */
  readonly runs: (hasProgress: boolean) => boolean;
  /** Lets the slow tool end, if it does not by itself. */
  readonly letEnd: () => void;
  readonly silent: Tool;
  /** A silent tool that is not called before. */
  readonly unseen: Tool;
  readonly asking: Tool & { readonly answer: object };
}

function everything(upstream: string | StdioServer, slowForSeconds: number): PublishedServer {
  return {
    upstream,
    slow: {
      call: {
        name: 'trigger-long-running-operation',
        arguments: { duration: slowForSeconds, steps: slowForSeconds * 10 },
      },
      says: 'completed',
    },
    runs: (hasProgress) => hasProgress,
    letEnd: () => {},
    silent: { call: { name: 'echo', arguments: { message: 'hello' } }, says: 'Echo: hello' },
    unseen: { call: { name: 'get-sum', arguments: { a: 1, b: 2 } }, says: 'is 3' },
    asking: {
      call: { name: 'trigger-elicitation-request', arguments: {} },
      says: 'Ada',
      answer: { name: 'Ada' },
    },
  };
}

async function everythingOverSse(slowForSeconds: number): Promise<PublishedServer> {
  const server = await startEverything('sse');
  stopAfterTest(() => server.stop());
  return everything(`${server.origin}/sse`, slowForSeconds);
}

/** It asks on its standalone stream, and works without a database as long as its API for searches takes. */
async function mongodb(): Promise<PublishedServer> {
  const api = await startKnowledgeApi([{ id: 'manual', type: 'documentation', versions: [] }]);
  stopAfterTest(() => api.stop());
  const letEnd = api.holdSearches();
  const server = await startMongodb(api.url);
  stopAfterTest(() => server.stop());
  return {
    upstream: `${server.origin}/mcp`,
    slow: { call: { name: 'search-knowledge', arguments: { query: 'indexes' } }, says: 'Found 0' },
    runs: () => api.requests.some((path) => path.endsWith('/search')),
    letEnd,
    silent: { call: { name: 'list-databases', arguments: {} }, says: 'You need to connect' },
    unseen: { call: { name: 'mongodb-logs', arguments: {} }, says: 'You need to connect' },
    asking: {
      call: { name: 'list-knowledge-sources', arguments: {} },
      says: 'id: manual',
      answer: { confirmation: 'Yes' },
    },
  };
}

const SERVERS = [
  {
    title: 'server-everything over stdio',
    start: async (slowForSeconds: number) => everything(EVERYTHING_STDIO, slowForSeconds),
  },
  { title: 'server-everything over HTTP+SSE', start: everythingOverSse },
  { title: 'mongodb-mcp-server over Streamable HTTP', start: mongodb },
];

/** A gateway whose clock stands still, and a caller who has called the tool that asks and the silent one before. */
async function stage(server: PublishedServer) {
  const { upstream, asking, silent, slow, runs } = server;
  const clock = new ManualClock();
  const { url, close } = await startTestGateway(upstream, { clock });
  // A process that does not end by itself is killed after a while.
  stopAfterTest(() => advanceUntil(clock, close(), 10_000));
  // server-everything asks for roots when it likes.
  const capabilities = { elicitation: { form: {} } };
  const call = async (tool: Tool, more: object = {}, options: SendOptions = {}) => {
    const params = { ...tool.call, ...more };
    const { response } = await callTool(url, tool.call.name, params, { capabilities, ...options });
    return response.result;
  };
  const text = async (result: Promise<{ content: { text: string }[] }>) =>
    (await result).content.map((block) => block.text).join('\n');
  /** Calls the tool that asks, and returns how to answer it. */
  const ask = async () => {
    const { requestState, inputRequests } = await call(asking);
    expect(Object.keys(inputRequests)).toHaveLength(1);
    const inputResponses = { [String(Object.keys(inputRequests)[0])]: accept(asking.answer) };
    return () => text(call(asking, { requestState, inputResponses }));
  };
  /** Calls the slow tool, and waits until it runs. */
  const begin = async () => {
    let hasProgress = false;
    const meta = { progressToken: 'slow' };
    const result = text(call(slow, {}, { meta, onMessage: () => (hasProgress = true) }));
    result.catch(() => {});
    await turnsUntil(() => runs(hasProgress));
    return { result };
  };
  const answer = await advanceUntil(clock, ask());
  expect(await advanceUntil(clock, answer())).toContain(asking.says);
  expect(await advanceUntil(clock, text(call(silent)))).toContain(silent.says);
  return { clock, ask, begin, say: (tool: Tool) => text(call(tool)) };
}

describe.each(SERVERS)('$title', { timeout: 30_000 }, ({ start }) => {
  // Rule sessions-26.
  test('serves a tool that asks nothing at once while another call of the caller runs for 40 s', async () => {
    const server = await start(40);
    const { clock, begin, say } = await stage(server);
    const slow = await begin();
    // No time of the gateway passes.
    const beside = await Promise.all(Array.from({ length: 5 }, () => say(server.silent)));
    for (const said of beside) expect(said).toContain(server.silent.says);
    expect(await advanceUntil(clock, say(server.unseen), 2_000)).toContain(server.unseen.says);
    await expect(Promise.race([slow.result, Promise.resolve('runs')])).resolves.toBe('runs');
  });

  // Rules sessions-26, concurrent-1.
  test('asks in the call that asks, and keeps none waiting meanwhile that asks nothing', async () => {
    const server = await start(1);
    const { clock, ask, begin, say } = await stage(server);
    const slow = await begin();
    const asked = ask();
    // No time of the gateway passes.
    expect(await say(server.silent)).toContain(server.silent.says);
    server.letEnd();
    expect(await advanceUntil(clock, slow.result)).toContain(server.slow.says);
    const answer = await advanceUntil(clock, asked);
    expect(await say(server.silent)).toContain(server.silent.says);
    expect(await advanceUntil(clock, answer())).toContain(server.asking.says);
  });
});
