/** Legacy clients in front of a server that speaks 2026-07-28: the official client of 2025-11-25, and the official server. */
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  LoggingMessageNotificationSchema,
  ResourceUpdatedNotificationSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { expect, test, vi } from 'vitest';
import { EventReader, initializeOf, LegacyHttpClient } from '../../fixtures/clients/legacy-http.ts';
import {
  startModernServer,
  type ModernServerOptions,
} from '../../fixtures/servers/modern-server.ts';
import { testGateway } from '../../fixtures/gateways/test-gateway.ts';
import type { GatewayOverrides } from '../../fixtures/gateways/gateway.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

const WITH_ALL = {
  elicitation: { form: {}, url: {} },
  sampling: {},
  roots: { listChanged: true },
};

/** A legacy client whose user answers everything, in front of a modern server. */
async function clientOf(
  options: ModernServerOptions = {},
  capabilities: object = WITH_ALL,
  overrides: GatewayOverrides = {},
) {
  const server = await startModernServer(options);
  const gateway = await testGateway(server.url, overrides);
  const client = new Client({ name: 'old', version: '1' }, { capabilities });
  const asked: unknown[] = [];
  if ('elicitation' in capabilities) {
    client.setRequestHandler(ElicitRequestSchema, async ({ params }) => {
      asked.push(params);
      return params.mode === 'url'
        ? { action: 'accept' }
        : { action: 'accept', content: { name: `Ada ${asked.length}` } };
    });
  }
  if ('sampling' in capabilities) {
    client.setRequestHandler(CreateMessageRequestSchema, async ({ params }) => {
      asked.push(params);
      return { role: 'assistant', content: { type: 'text', text: 'Paris' }, model: 'm' };
    });
  }
  if ('roots' in capabilities) {
    client.setRequestHandler(ListRootsRequestSchema, async () => ({
      roots: [{ uri: 'file:///work' }],
    }));
  }
  const transport = new StreamableHTTPClientTransport(new URL(gateway.url));
  // The types of the official client are looser than `exactOptionalPropertyTypes`.
  await client.connect(transport as Parameters<Client['connect']>[0]);
  stopAfterTest(() => client.close());
  const say = async (name: string, args: Record<string, unknown> = {}) => {
    const { content, isError } = await client.callTool({ name, arguments: args });
    const [first] = content as { text: string }[];
    return isError === true ? `error: ${first?.text}` : first?.text;
  };
  return { server, gateway, client, asked, say };
}

// Rule back-1: A legacy client gets the description of a modern server as the result of `initialize`, and lists
// without members of 2026-07-28.
test.each(['reject', 'stateless'] as const)(
  'a legacy client lists and calls at a modern server whose answer to initialize is %s',
  async (legacy) => {
    const { client, say } = await clientOf({ legacy });
    expect(client.getServerVersion()).toMatchObject({ name: 'modern', title: 'A modern server' });
    expect(client.getInstructions()).toBe('Ask before you act.');
    expect(client.getServerCapabilities()).toEqual({
      tools: { listChanged: true },
      prompts: {},
      resources: { subscribe: true, listChanged: true },
      logging: {},
      completions: {},
    });
    const { tools, ...rest } = await client.listTools();
    expect(rest).toEqual({});
    expect(tools.map(({ name }) => name)).toContain('echo');
    expect(await say('echo', { text: 'hello' })).toBe('{"text":"hello"}');
    expect((await client.listPrompts()).prompts).toEqual([{ name: 'greet' }]);
    const { resourceTemplates } = await client.listResourceTemplates();
    expect(resourceTemplates).toEqual([{ uriTemplate: 'memo://{name}', name: 'memo' }]);
    const ref = { type: 'ref/prompt' as const, name: 'greet' };
    const { completion } = await client.complete({ ref, argument: { name: 'a', value: 'b' } });
    expect(completion).toEqual({ values: ['b!'] });
    expect(await client.readResource({ uri: 'memo://one' })).toEqual({
      contents: [{ uri: 'memo://one', text: 'Buy milk' }],
    });
    await client.ping();
  },
);

// Rule back-2: A question in a result of a modern server reaches the client as a request during its call, at most 16
// at a time.
test('a form, a prompt with a form, a sampling and roots are asked in the request that needs them', async () => {
  const { client, asked, say } = await clientOf();
  expect(await say('ask')).toContain('"name":"Ada 1"');
  expect(asked).toMatchObject([{ message: 'Your name?' }]);
  expect((await client.getPrompt({ name: 'greet' })).messages[0]?.content).toMatchObject({
    text: expect.stringContaining('Ada 2'),
  });
  expect(await say('sample')).toContain('Paris');
  expect(await say('folders')).toContain('file:///work');
});

// Rule back-3: A call asks in at most ten rounds, and then fails. A round without a question is retried after a
// pause.
test('ten rounds of questions are asked, and an eleventh ends the call', async () => {
  const { asked, say } = await clientOf();
  expect(await say('ask-often', { times: 10 })).toBe('asked 10 times');
  expect(asked).toHaveLength(10);
  expect(await say('ask-often', { times: 11 })).toMatch(/error: .*more than 10 times/);
});

// Rule back-2.
test('twenty questions of one round are all asked', async () => {
  const { asked, say } = await clientOf();
  expect(await say('ask-many', { times: 20 })).toBe('20');
  expect(asked).toHaveLength(20);
});

// Rule back-3.
test('rounds without a question are not seen by the client', async () => {
  const { asked, say } = await clientOf();
  expect(await say('wait', { times: 3 })).toBe('came 3 times');
  expect(asked).toEqual([]);
});

// Rule back-6: A URL that comes again in the next round is shown once.
test('a URL is shown once, however often the server returns it', async () => {
  const { asked, say } = await clientOf();
  expect(await say('visit')).toBe('visited');
  expect(asked).toMatchObject([{ mode: 'url', url: 'https://example.com/login' }]);
});

// Rule back-7: A client gets only questions of its revision that it has declared. Others fail the call, which says
// what is needed.
test('a client without elicitation reads what the tool needs', async () => {
  const { client } = await clientOf({}, { sampling: {} });
  await expect(client.callTool({ name: 'ask' })).rejects.toThrow(
    /This needs a client that supports elicitation.form, which this one does not declare/,
  );
  await expect(client.callTool({ name: 'fail' })).rejects.toMatchObject({
    code: -32021,
    message: expect.stringContaining('supports sampling.tools'),
    data: { requiredCapabilities: { sampling: { tools: {} } } },
  });
});

// Rule back-8: Progress and log messages come during their call. Log messages come only after the client has set a
// level.
test('progress and log messages come before the result of their call', async () => {
  const { client, say } = await clientOf();
  const logged: unknown[] = [];
  client.setNotificationHandler(LoggingMessageNotificationSchema, async ({ params }) => {
    logged.push(params.data);
  });
  const steps: number[] = [];
  await client.callTool({ name: 'steps' }, undefined, {
    onprogress: ({ progress }) => steps.push(progress),
  });
  expect([steps, logged]).toEqual([[1, 2], []]);
  await client.setLoggingLevel('info');
  await say('steps');
  await vi.waitFor(() => expect(logged).toEqual(['almost done']));
});

test('a connection whose response was a stream of events carries the next request', async () => {
  const { server, client } = await clientOf();
  const withProgress = async () => {
    const steps: number[] = [];
    await client.callTool({ name: 'steps' }, undefined, {
      onprogress: ({ progress }) => steps.push(progress),
    });
    expect(steps).toEqual([1, 2]);
  };
  await withProgress();
  const before = server.connections;
  for (let times = 0; times < 5; times += 1) await withProgress();
  expect(server.connections).toBe(before);
});

// Rule back-9: Changes and subscriptions are served by one listen request. If it ends, it is sent again, after a
// pause that grows.
test('changes of lists and of subscribed resources reach the client', async () => {
  const { server, client } = await clientOf();
  const heard: unknown[] = [];
  client.setNotificationHandler(ToolListChangedNotificationSchema, async () => {
    heard.push('tools');
  });
  client.setNotificationHandler(ResourceUpdatedNotificationSchema, async ({ params }) => {
    heard.push(params);
  });
  await client.subscribeResource({ uri: 'memo://one' });
  server.updated('memo://two');
  server.updated('memo://one');
  server.toolsChanged();
  await vi.waitFor(() => expect(heard).toEqual([{ uri: 'memo://one' }, 'tools']));
  await client.unsubscribeResource({ uri: 'memo://one' });
  server.updated('memo://one');
  server.toolsChanged();
  await vi.waitFor(() => expect(heard).toEqual([{ uri: 'memo://one' }, 'tools', 'tools']));
});

// Rule back-10: A cancellation of the client closes the request at the server.
test('a call that its client cancels is stopped at the server', async () => {
  const { client, say } = await clientOf();
  const leaving = new AbortController();
  const call = client.callTool({ name: 'hang' }, undefined, { signal: leaving.signal });
  setTimeout(() => leaving.abort('enough'), 100);
  await expect(call).rejects.toThrow();
  expect(await say('echo')).toBe('{}');
});

// Rule back-11 (streamable-http, "Custom Headers from Tool Parameters"): Tool parameters are repeated in headers as
// the server asks. A tool with a broken header annotation is not listed.
test('a parameter is sent in its header, whether or not the client has listed the tools', async () => {
  const { client, say } = await clientOf();
  expect(await say('region', { region: 'Zürich' })).toBe(
    `=?base64?${Buffer.from('Zürich').toString('base64')}?=`,
  );
  const { tools } = await client.listTools();
  expect(tools.map(({ name }) => name)).not.toContain('wrong-header');
});

// Rule back-12: An output schema that is not of an object, and its values, are wrapped in a member `result`.
test('a result that is a list is wrapped, and so is its schema', async () => {
  const { client } = await clientOf();
  const { tools } = await client.listTools();
  expect(tools.find(({ name }) => name === 'numbers')?.outputSchema).toMatchObject({
    type: 'object',
    properties: { result: { $ref: '#/properties/result/$defs/list' } },
  });
  // The official client validates it.
  expect(await client.callTool({ name: 'numbers' })).toMatchObject({
    structuredContent: { result: [1, 2] },
    content: [{ type: 'text', text: '[1,2]' }],
  });
});

// Rule back-13: The credentials of each request go to the server, and its refusal reaches the client with status and
// challenge.
test('the credentials of each request reach the server, and a refusal has its status and challenge', async () => {
  const server = await startModernServer({
    refusalOf: ({ authorization }) =>
      authorization === 'Bearer good'
        ? null
        : { status: 401, challenge: 'Bearer error="invalid_token"' },
  });
  const { url } = await testGateway(server.url, { upstream: { era: 'modern' } });
  const refused = await new LegacyHttpClient(url).post(initializeOf());
  expect(refused.status).toBe(401);
  expect(refused.headers.get('www-authenticate')).toBe('Bearer error="invalid_token"');
  const client = await LegacyHttpClient.open(url, { authorization: 'Bearer good' });
  expect(await client.text('echo')).toBe('{}');
  const bad = await client.post(client.callOf('echo'), { authorization: 'Bearer bad' });
  expect([bad.status, bad.headers.get('www-authenticate')]).toEqual([
    401,
    'Bearer error="invalid_token"',
  ]);
  expect(await client.text('echo')).toBe('{}');
});

// Rule back-14: A call whose response breaks off is not retried. Its result says that the tool might have acted.
test('a call whose response breaks fails, and is not sent again', async () => {
  const { server, client } = await clientOf();
  const call = client.callTool({ name: 'hang' });
  await vi.waitFor(() => expect(server.headers.at(-1)?.['mcp-name']).toBe('hang'));
  server.cut();
  expect(await call).toMatchObject({
    isError: true,
    content: [{ text: expect.stringContaining('interrupted') }],
  });
  expect(server.headers.filter((each) => each['mcp-name'] === 'hang')).toHaveLength(1);
});

const KEY = { kid: 'kid-1', key: Buffer.alloc(32, 7).toString('base64url') };
const SEALED: GatewayOverrides = { seal: { keys: [KEY], audience: 'test' } };

// Rule back-26: Without a relay, the session of a client survives the process that opened it.
test('a session goes on at the gateway that is started in place of another one', async () => {
  const server = await startModernServer();
  const first = await testGateway(server.url, SEALED);
  const { headers } = await LegacyHttpClient.open(first.url);
  const others = await LegacyHttpClient.open(first.url);
  await others.delete();
  await first.close();
  const second = await testGateway(server.url, SEALED);
  const client = new LegacyHttpClient(second.url, headers);
  const stream = await client.listen();
  const call = new EventReader(await client.send(client.callOf('ask')));
  const asked = await call.next();
  expect(asked?.message.method).toBe('elicitation/create');
  const answer = { action: 'accept', content: { name: 'Ada' } };
  await client.send({ jsonrpc: '2.0', id: asked?.message.id, result: answer });
  expect((await call.next())?.message.result.content[0].text).toContain('Ada');
  server.toolsChanged();
  expect((await stream.next())?.message.method).toBe('notifications/tools/list_changed');
});
