/**
 * A server that gives a stream to the wrong reader when it is taken up by `Last-Event-ID`: what belongs to
 * another session ends the call, and never reaches its client.
 */
import { expect, test } from 'vitest';
import { callTool } from '../../fixtures/clients/modern-client.ts';
import {
  answersOf,
  legacyServer as startLegacyServer,
  reasonOf,
  replicas,
  text,
} from '../../fixtures/gateways/replica-testbed.ts';
import { startEverything } from '../../fixtures/processes.ts';
import { askName, type LegacyServerOptions } from '../../fixtures/servers/legacy-server.ts';
import { eventStream, legacyServer } from '../../fixtures/servers/scripted-server.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

const FORM = { type: 'object', properties: { name: { type: 'string' } } };
const question = (id: string) => ({
  jsonrpc: '2.0',
  id,
  method: 'elicitation/create',
  params: { message: `${id}?`, requestedSchema: FORM },
});
const done = (id: unknown, said: string) => ({
  jsonrpc: '2.0',
  id,
  result: { content: [{ type: 'text', text: said }] },
});

type Stream = ReturnType<typeof eventStream>;

/** An id that a gateway gave a request of another session than the one with this id. */
const elsewhere = (id: number) => id + (Math.floor(id / 2 ** 30) % 2 === 0 ? 2 ** 30 : -(2 ** 30));

/** Parks a call, kills its owner, and has the stream taken up by another replica, which is sent this. */
async function takenUp(sent: (stream: Stream, callId: number) => void) {
  const server = await legacyServer(
    (_received, response) => eventStream(response).send(question('mine'), 'e1'),
    {
      onGet: async ({ headers }, response) => {
        if (headers['last-event-id'] === undefined) return void response.writeHead(405).end();
        const call = await server.saw(({ body }) => body?.method === 'tools/call');
        sent(eventStream(response), call.body.id);
      },
    },
  );
  stopAfterTest(() => server.stop());
  const [one, other] = await replicas(server, 2);
  const asked = await callTool(one.url, 'ask');
  await one.kill();
  const { response } = await callTool(other.url, 'ask', answersOf(asked, 'Ada'));
  return { server, response, gateway: other };
}

// Rule mixed-sessions-1 (2025-11-25 transports, "Resumability and Redelivery"): A reply of another session on a
// resumed stream ends the call with -32603 `upstream_streams_mixed`.
test.each<[string, (stream: Stream, callId: number) => void]>([
  [
    'a reply to a request of another session',
    (stream, id) => stream.send(done(elsewhere(id), 'of alice'), 'e2'),
  ],
  [
    'progress of a request of another session',
    (stream, id) => {
      const params = { progressToken: elsewhere(id), progress: 1 };
      stream.send({ jsonrpc: '2.0', method: 'notifications/progress', params }, 'e2');
      stream.send(done(id, 'of whoever'), 'e3');
    },
  ],
  [
    'a reply to a request of another session, behind what named the call,',
    (stream, id) => {
      const params = { progressToken: id, progress: 1 };
      stream.send({ jsonrpc: '2.0', method: 'notifications/progress', params }, 'e2');
      stream.send(done(elsewhere(id), 'of alice'), 'e3');
      stream.send(question('of alice'), 'e4');
    },
  ],
])('%s ends the call with a clear error', async (_what, sent) => {
  const { server, response, gateway } = await takenUp(sent);
  expect(response.error.data.reason).toBe('upstream_streams_mixed');
  expect(JSON.stringify(response)).not.toContain('of alice');
  const [logged] = await gateway.saw('upstream.failed');
  expect(logged).toMatchObject({ code: 'streams_mixed', method: 'tools/call' });
  expect(logged?.['call']).toEqual(expect.any(String));
  const call = await server.saw(({ body }) => body?.method === 'tools/call');
  const cancelled = await server.saw(({ body }) => body?.method === 'notifications/cancelled');
  expect(cancelled.body.params.requestId).toBe(call.body.id);
});

// Rule mixed-sessions-1.
test('a tool that takes back all its questions does not end calls after it', async () => {
  const working = Promise.withResolvers<string>();
  stopAfterTest(async () => working.resolve(''));
  const tools: LegacyServerOptions['tools'] = {
    twice: async (call) => {
      const names = [await askName(call), await askName(call, 'And then?')];
      return names[0] === 'Ada' ? working.promise : names.join(' ');
    },
  };
  const legacy = await startLegacyServer({ tools, keepsEvents: true });
  const [one, other] = await replicas(legacy, 2);
  const first = await callTool(one.url, 'twice');
  const second = await callTool(one.url, 'twice', answersOf(first, 'Ada'));
  const bystander = await callTool(one.url, 'twice');
  await one.kill();
  const leaving = new AbortController();
  const { signal } = leaving;
  const left = callTool(other.url, 'twice', answersOf(second, 'Ada'), { signal }).catch(() => {});
  await legacy.saw('response', 2);
  leaving.abort();
  await Promise.all([left, other.saw('call.ended')]);
  const asked = await callTool(other.url, 'twice', answersOf(bystander, 'Bob'));
  const done = await callTool(other.url, 'twice', answersOf(asked, 'Carl'));
  expect(text(done)).toBe('Bob Carl');
  expect(other.named('upstream.failed')).toEqual([]);
});

// Rule mixed-sessions-1.
test('the withdrawal of a question that is not known to be of the call is ignored', async () => {
  const { response } = await takenUp((stream, id) => {
    const params = { requestId: 'of whoever' };
    stream.send({ jsonrpc: '2.0', method: 'notifications/cancelled', params }, 'e2');
    stream.send(done(id, 'done'), 'e3');
  });
  expect(response.result.content).toEqual([{ type: 'text', text: 'done' }]);
});

// Rule mixed-sessions-1.
test('what belongs to other requests of the session, of the process that had it before, does not end the call', async () => {
  const { response } = await takenUp((stream, id) => {
    const params = { progressToken: id + 1, progress: 1 };
    stream.send({ jsonrpc: '2.0', method: 'notifications/progress', params }, 'e2');
    stream.send(done(id + 2, 'of another call of the caller'), 'e3');
    stream.send(done(id, 'done'), 'e4');
  });
  expect(response.result.content).toEqual([{ type: 'text', text: 'done' }]);
});

// Rule mixed-sessions-1.
test('a call of server-everything goes on in another replica, though its caller made other calls meanwhile', async () => {
  const server = await startEverything('streamableHttp');
  stopAfterTest(() => server.stop());
  const identity = { source: 'header', header: 'x-user' };
  const config = { identity };
  const [one, other] = await replicas({ url: `${server.origin}/mcp` }, 2, { config });
  const as = { headers: { 'x-user': 'ada' }, capabilities: { elicitation: { form: {} } } };
  const asked = await callTool(one.url, 'trigger-elicitation-request', {}, as);
  for (const message of ['one', 'two']) {
    const { response } = await callTool(one.url, 'echo', { arguments: { message } }, as);
    expect(response.result.content).toEqual([{ type: 'text', text: `Echo: ${message}` }]);
  }
  await one.kill();
  const { response } = await callTool(
    other.url,
    'trigger-elicitation-request',
    answersOf(asked, 'Ada'),
    as,
  );
  expect(response.result.content[0].text).toBe('✅ User provided the requested information!');
});

// Rule mixed-sessions-2: From a server that was seen to mix streams, log messages without a call are dropped, and
// such a question ends the call.
test('what names the call lets it go on, with what comes after it', async () => {
  const { response } = await takenUp((stream, id) => {
    const params = { progressToken: id, progress: 1 };
    stream.send({ jsonrpc: '2.0', method: 'notifications/progress', params }, 'e2');
    stream.send(question('next'), 'e3');
  });
  const [asked] = Object.values<{ params: { message: string } }>(response.result.inputRequests);
  expect(asked?.params.message).toBe('next?');
});

// Rule mixed-sessions-2.
test('of a server that mixed streams once, a question counts only after a message that named the call', async () => {
  const taken = { times: 0 };
  const server = await legacyServer(
    (_received, response) => eventStream(response).send(question('mine'), 'e1'),
    {
      onGet: ({ headers }, response) => {
        if (headers['last-event-id'] === undefined) return void response.writeHead(405).end();
        taken.times += 1;
        const stream = eventStream(response);
        if (taken.times === 1) stream.send(done(1, 'of alice'), 'e2');
        else stream.send(question('of alice'), 'e2');
      },
    },
  );
  stopAfterTest(() => server.stop());
  const [one, other] = await replicas(server, 2);
  const [first, second] = [await callTool(one.url, 'ask'), await callTool(one.url, 'ask')];
  await one.kill();
  const mixed = await callTool(other.url, 'ask', answersOf(first, 'Ada'));
  expect(reasonOf(mixed)).toBe('upstream_streams_mixed');
  const doubted = await callTool(other.url, 'ask', answersOf(second, 'Ada'));
  expect(reasonOf(doubted)).toBe('upstream_streams_mixed');
  expect(JSON.stringify(doubted.response)).not.toContain('of alice');
});
