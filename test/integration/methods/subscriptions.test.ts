/** `subscriptions/listen` over real sockets, in front of servers that know only subscriptions of their sessions. */
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { describe, expect, test } from 'vitest';
import {
  startTestGateway,
  type GatewayOverrides,
  type TestGateway,
} from '../../fixtures/gateways/gateway.ts';
import { ListeningClient } from '../../fixtures/clients/listening-client.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';
import { callTool, modernBody, modernHeaders, send } from '../../fixtures/clients/modern-client.ts';
import { rawRequest, sendRaw } from '../../fixtures/clients/raw-http.ts';
import {
  SESSION_RESOURCE,
  SubscribingServer,
  type SubscribingOptions,
} from '../../fixtures/servers/subscribing-server.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

async function start(
  options: SubscribingOptions = {},
  overrides: GatewayOverrides = {},
): Promise<{ server: SubscribingServer; gateway: TestGateway; url: string }> {
  const server = await SubscribingServer.start(options);
  stopAfterTest(() => server.stop());
  const gateway = await startTestGateway(server.url, overrides);
  stopAfterTest(() => gateway.close());
  return { server, gateway, url: gateway.url };
}

const EVERY_LIST = {
  toolsListChanged: true,
  promptsListChanged: true,
  resourcesListChanged: true,
};
const SUBSCRIPTION_ID = 'io.modelcontextprotocol/subscriptionId';
const SERVER_INFO = { name: 'subscribing', version: '1.0.0' };
const ada = { headers: { authorization: 'Bearer ada' } };
const bob = { headers: { authorization: 'Bearer bob' } };

describe('a listener', () => {
  // Rule subscriptions-2 (subscriptions, "Acknowledgment"): The first message is the acknowledgement. It
  // names what was asked for and the server can give, by the capabilities that it declares and if it opens a
  // stream of its own; unknown members are left out.
  test('is first told what the server can give', async () => {
    const { url } = await start();
    const asked = { ...EVERY_LIST, resourceSubscriptions: ['test://a', 'test://b'] };
    const client = await ListeningClient.open(url, asked, { id: 'listen:1' });
    expect(client.messages[0]).toEqual({
      jsonrpc: '2.0',
      method: 'notifications/subscriptions/acknowledged',
      params: { notifications: asked, _meta: { [SUBSCRIPTION_ID]: 'listen:1' } },
    });
    await client.leave();
  });

  // Rule changes-1 (subscriptions, "Receiving Notifications"; "Opening a Stream"): Each notification carries
  // the id of the request that listens, with its type, as `io.modelcontextprotocol/subscriptionId`. Nothing
  // is sent that was not asked for: no other list, no other resource, no log message, no progress.
  test('hears what changes under the id of its request, and nothing else', async () => {
    const { server, url } = await start();
    const asked = { toolsListChanged: true, resourceSubscriptions: ['test://a'] };
    const client = await ListeningClient.open(url, asked, { id: 7 });
    await server.changed('prompts');
    await server.changed('resources');
    await server.changed('tools');
    await server.updated('test://other', 'test://a');
    await server.updated('test://a');
    await client.until(3);
    expect(client.messages.slice(1)).toEqual([
      {
        jsonrpc: '2.0',
        method: 'notifications/tools/list_changed',
        params: { _meta: { [SUBSCRIPTION_ID]: 7 } },
      },
      {
        jsonrpc: '2.0',
        method: 'notifications/resources/updated',
        params: { uri: 'test://a', _meta: { [SUBSCRIPTION_ID]: 7 } },
      },
    ]);
    await client.leave();
  });

  // Rule subscriptions-2.
  test.each([
    ['tools', { tools: { listChanged: true } }, { toolsListChanged: true }],
    ['prompts', { prompts: { listChanged: true }, tools: {} }, { promptsListChanged: true }],
    [
      'subscriptions but no list of resources',
      { resources: { subscribe: true } },
      { resourceSubscriptions: ['test://a'] },
    ],
    [
      'a list of resources but no subscriptions',
      { resources: { listChanged: true } },
      { resourcesListChanged: true },
    ],
    ['nothing', { tools: {}, resources: {} }, {}],
  ])('is not promised more than a server gives that tells of %s', async (_of, can, given) => {
    const { url } = await start({ capabilities: can });
    const asked = { ...EVERY_LIST, resourceSubscriptions: ['test://a'] };
    const client = await ListeningClient.open(url, asked);
    expect(client.acknowledged).toEqual(given);
    await client.leave();
  });

  // Rule subscriptions-3.
  test('is not promised a resource to which the server lets nobody subscribe', async () => {
    const { url } = await start({ refuses: ['test://secret'] });
    const client = await ListeningClient.open(url, {
      resourceSubscriptions: ['test://secret', 'test://a'],
    });
    expect(client.acknowledged).toEqual({ resourceSubscriptions: ['test://a'] });
    await client.leave();
  });

  // Rule subscriptions-2.
  test('is promised nothing by a server that has no stream of its own, and keeps no session of it', async () => {
    const { server, url } = await start({ get: '405' });
    const client = await ListeningClient.open(url, {
      ...EVERY_LIST,
      resourceSubscriptions: ['test://a'],
    });
    expect(client.acknowledged).toEqual({});
    await server.until(() => server.sessions.size === 0);
    expect(server.asked).toEqual([]);
    await client.leave();
  });

  // Rule changes-2 (schema, `ResourceUpdatedNotificationParams`): An update goes to those who subscribed to
  // that resource or to one that it is a part of; one that concerns nobody is dropped.
  test('hears of a part of what it subscribed to', async () => {
    const { server, url } = await start();
    const client = await ListeningClient.open(url, { resourceSubscriptions: ['test://dir'] });
    await server.updated('test://dir/file', 'test://dir');
    await client.until(2);
    expect(client.heard).toEqual(['resources/updated test://dir/file']);
    await client.leave();
  });

  // Rule changes-4.
  test('that leaves is unsubscribed, and with it goes the session', async () => {
    const { server, gateway, url } = await start();
    const client = await ListeningClient.open(url, { resourceSubscriptions: ['test://a'] });
    expect(server.subscribed).toEqual(['test://a']);
    await client.leave();
    await server.until(() => server.sessions.size === 0);
    expect(server.asked).toEqual([
      ['subscribe', 'test://a'],
      ['unsubscribe', 'test://a'],
    ]);
    expect(gateway.log.named('upstream.failed')).toEqual([]);
  });

  // Rule changes-8.
  test('gets the same notifications from a server of the oldest transport', async () => {
    const { server, url } = await start({ transport: 'http-sse' });
    const asked = { toolsListChanged: true, resourceSubscriptions: ['test://a'] };
    const client = await ListeningClient.open(url, asked);
    expect(client.acknowledged).toEqual(asked);
    await server.changed('tools');
    await server.updated('test://a');
    await client.until(3);
    expect(client.heard).toEqual(['tools/list_changed', 'resources/updated test://a']);
    await client.leave();
    await server.until(() => server.sessions.size === 0);
  });

  // Rule changes-3 (MRTR, "Supported Requests"): A listener is never asked anything: questions of the server
  // in its session are answered as those of a session without a call.
  test('is asked nothing: a question of the server in its session is refused', async () => {
    const { server, url } = await start();
    const client = await ListeningClient.open(url, EVERY_LIST);
    const [session] = [...server.sessions.values()].slice(-1);
    const requestedSchema = { type: 'object', properties: {} } as const;
    const asked = session?.server.elicitInput({ message: 'Name?', requestedSchema });
    await expect(asked).rejects.toMatchObject({ code: -32602 });
    await expect(session?.server.listRoots()).resolves.toEqual({ roots: [] });
    await server.changed('tools');
    await client.until(2);
    expect(client.heard).toEqual(['tools/list_changed']);
    await client.leave();
  });

  // Rule subscriptions-5: While the server cannot be reached, the request gets error -32603 and no stream.
  test('gets an error while the server cannot be reached', async () => {
    const { server, url } = await start();
    server.down = true;
    const { status, response } = await send(url, 'subscriptions/listen', { notifications: {} });
    expect(status).toBe(200);
    expect(response.error).toMatchObject({ code: -32603, data: { reason: 'upstream_busy' } });
  });
});

describe.each(['streamable-http', 'http-sse'] as const)(
  'a caller with a home over %s',
  (transport) => {
    const asked = { toolsListChanged: true, resourceSubscriptions: [SESSION_RESOURCE] };
    const inSession = ['tools/list_changed', `resources/updated ${SESSION_RESOURCE}`];

    // Rule changes-9: A listener hears what changes in the session of its caller's calls alone, whether it came before them or
    // after. A home that has served calls outlives its listeners. Over replicas that holds where the listener reaches the
    // replica of the home.
    test('listens in it, before its first call and after', async () => {
      const { server, url } = await start({ transport });
      const early = await ListeningClient.open(url, asked, ada);
      await callTool(url, 'change', {}, ada);
      await early.until(3);
      expect(early.heard).toEqual(inSession);
      await early.leave();
      await server.until(() => server.subscribed.length === 0);
      const greeted = server.initialized;
      const late = await ListeningClient.open(url, asked, ada);
      expect(server.initialized).toBe(greeted);
      const other = await ListeningClient.open(url, asked, bob);
      await callTool(url, 'change', {}, ada);
      await late.until(3);
      expect(late.heard).toEqual(inSession);
      expect(other.heard).toEqual([]);
      await Promise.all([late.leave(), other.leave()]);
    });

    // Rules changes-5, changes-9.
    test('listens on in the next one when the server has forgotten it', async () => {
      const { server, url } = await start({ transport });
      await callTool(url, 'change', {}, ada);
      const client = await ListeningClient.open(url, asked, ada);
      await server.forget();
      await server.until(() => server.subscribed.length === 1);
      await callTool(url, 'change', {}, ada);
      // The hint that it may have missed something is the same.
      await client.until(5);
      expect([...client.heard].sort()).toEqual([...inSession, ...inSession].sort());
      await client.leave();
    });
  },
);

describe('a request to listen', () => {
  // Rule subscriptions-1 (subscriptions, "Opening a Stream"): A request without a `notifications` object, or
  // with a member in it that is neither a flag nor a list of texts, gets error -32602; from a client that accepts no
  // event stream, HTTP status 406.
  test.each([
    ['without a filter', {}],
    ['with a filter that is none', { notifications: [] }],
    ['with a flag that is none', { notifications: { toolsListChanged: 'yes' } }],
    ['with resources that are no URIs', { notifications: { resourceSubscriptions: [1] } }],
    ['with resources that are no list', { notifications: { resourceSubscriptions: null } }],
  ])('%s is refused', async (_how, params) => {
    const { url } = await start();
    const { response } = await send(url, 'subscriptions/listen', params);
    expect(response.error.code).toBe(-32602);
  });

  // Rules validation-4, subscriptions-1.
  test('is refused to a client that takes no stream', async () => {
    const { url } = await start();
    const params = { notifications: EVERY_LIST };
    const headers = { accept: 'application/json' };
    const { status } = await send(url, 'subscriptions/listen', params, { headers });
    expect(status).toBe(406);
  });

  // Rule subscriptions-4: At most 100 requests of one principal listen at a time, and 1000 of all; one more
  // gets error -32603 with `data.reason` `too_many_listeners`.
  test('is refused beyond so many of one principal, and not to another', async () => {
    const { url } = await start();
    const many = await Promise.all(
      Array.from({ length: 100 }, () => ListeningClient.open(url, {}, ada)),
    );
    const refused = await send(url, 'subscriptions/listen', { notifications: {} }, ada);
    expect(refused.response.error).toMatchObject({ data: { reason: 'too_many_listeners' } });
    const other = await ListeningClient.open(url, {}, bob);
    await other.leave();
    await Promise.all(many.map((client) => client.leave()));
  });
});

describe('several listeners', () => {
  // Rule changes-4 (subscriptions, "Multiple Concurrent Subscriptions"): Listeners of one principal, with the
  // same credentials and capabilities, share one session with the server, and each of them has its own
  // filter. Resources are counted: the first listener subscribes, the last one unsubscribes, and with the
  // last listener the session ends, unless it has served calls. Different principals never share one; callers without a name only with
  // `sessions.scope` `shared`.
  test('of one principal share one stream, each with its own filter and id', async () => {
    const { server, url } = await start();
    const one = await ListeningClient.open(url, { toolsListChanged: true }, { ...ada, id: 1 });
    const streams = server.streams;
    const two = await ListeningClient.open(url, EVERY_LIST, { ...ada, id: 'two' });
    expect(server.streams).toBe(streams);
    await server.changed('prompts');
    await server.changed('tools');
    await Promise.all([one.until(2), two.until(3)]);
    expect(one.heard).toEqual(['tools/list_changed']);
    expect(two.heard).toEqual(['prompts/list_changed', 'tools/list_changed']);
    const ids = [one, two].map(({ messages }) => messages.at(-1).params._meta[SUBSCRIPTION_ID]);
    expect(ids).toEqual([1, 'two']);
    await Promise.all([one.leave(), two.leave()]);
  });

  // Rule changes-4.
  test('of one principal subscribe once, and the last one unsubscribes', async () => {
    const { server, url } = await start();
    const filter = { resourceSubscriptions: ['test://a'] };
    const one = await ListeningClient.open(url, filter, ada);
    const two = await ListeningClient.open(
      url,
      { resourceSubscriptions: ['test://a', 'test://b'] },
      ada,
    );
    await server.updated('test://a');
    await Promise.all([one.until(2), two.until(2)]);
    await two.leave();
    await server.until(() => server.asked.length === 3);
    await server.updated('test://a');
    await one.until(3);
    expect(server.asked).toEqual([
      ['subscribe', 'test://a'],
      ['subscribe', 'test://b'],
      ['unsubscribe', 'test://b'],
    ]);
    await one.leave();
    await server.until(() => server.sessions.size === 0);
    expect(server.asked.at(-1)).toEqual(['unsubscribe', 'test://a']);
  });

  // Rule changes-4.
  test('of different principals never share a session', async () => {
    const { server, url } = await start();
    const one = await ListeningClient.open(url, { resourceSubscriptions: ['test://a'] }, ada);
    const two = await ListeningClient.open(url, { resourceSubscriptions: ['test://b'] }, bob);
    expect(server.asked).toEqual([
      ['subscribe', 'test://a'],
      ['subscribe', 'test://b'],
    ]);
    const sessions = [...server.sessions.values()].filter(({ subscribed }) => subscribed.size > 0);
    expect(sessions.map(({ subscribed }) => [...subscribed])).toEqual([['test://a'], ['test://b']]);
    expect(server.authorization.slice(-2)).toEqual(['Bearer ada', 'Bearer bob']);
    const [ofAda] = sessions;
    await ofAda?.server.notification({ method: 'notifications/tools/list_changed' });
    await server.updated('test://b');
    await server.updated('test://a');
    await Promise.all([one.until(2), two.until(2)]);
    expect(one.heard).toEqual(['resources/updated test://a']);
    expect(two.heard).toEqual(['resources/updated test://b']);
    await Promise.all([one.leave(), two.leave()]);
  });

  // Rule changes-4.
  test('without a name have a session each, unless the operator lets them share', async () => {
    const filter = { resourceSubscriptions: ['test://a'] };
    for (const [scope, subscriptions] of [
      ['call', 2],
      // Without a scope they are the local user here.
      [null, 1],
      ['shared', 1],
    ] as const) {
      const { server, url } = await start({}, { sessions: { scope } });
      const one = await ListeningClient.open(url, filter);
      const two = await ListeningClient.open(url, filter);
      expect(server.asked).toHaveLength(subscriptions);
      await Promise.all([one.leave(), two.leave()]);
    }
  });
});

describe('when the server loses something', () => {
  const asked = { toolsListChanged: true, resourceSubscriptions: ['test://a'] };

  // Rule changes-5.
  test('a session that it forgot is replaced, with its subscriptions and a hint at what was missed', async () => {
    const { server, url } = await start();
    const client = await ListeningClient.open(url, asked);
    await server.forget();
    await client.until(3);
    expect(client.heard).toEqual(['tools/list_changed', 'resources/updated test://a']);
    expect(server.subscribed).toEqual(['test://a']);
    await server.updated('test://a');
    await client.until(4);
    await client.leave();
    await server.until(() => server.subscribed.length === 0);
  });

  test('a session of the oldest transport that broke off is replaced', async () => {
    const { server, url } = await start({ transport: 'http-sse' });
    const client = await ListeningClient.open(url, asked);
    await server.forget();
    await client.until(3);
    expect(server.subscribed).toEqual(['test://a']);
    await client.leave();
  });

  // Rule changes-5: A stream that breaks is opened again, and a session that is lost is replaced with all its
  // subscriptions; the gateway tries that for 30 s. Since changes may have been missed, each listener then gets one
  // hint for everything that it listens to, at most every 30 s.
  // Rule resumption-6.
  test('a stream that it cut is opened again in the same session', async () => {
    const { server, url } = await start();
    const client = await ListeningClient.open(url, asked);
    const { initialized, streams } = server;
    server.cutStreams();
    await server.until(() => server.streams > streams);
    await client.until(3);
    await server.updated('test://a');
    await client.until(4);
    expect(server.initialized).toBe(initialized);
    expect(server.asked).toEqual([['subscribe', 'test://a']]);
    await client.leave();
  });

  // Rule changes-6.
  test('listeners end with their result when the server came back and offers less', async () => {
    const { server, url } = await start();
    const all = await ListeningClient.open(url, asked, { ...ada, id: 'all' });
    const some = await ListeningClient.open(url, { toolsListChanged: true }, { ...ada, id: 2 });
    server.become({ capabilities: { tools: { listChanged: true } } });
    await server.forget();
    const answered = await all.answered;
    expect(answered?.response.result).toEqual({
      resultType: 'complete',
      _meta: {
        [SUBSCRIPTION_ID]: 'all',
        'io.modelcontextprotocol/serverInfo': SERVER_INFO,
      },
    });
    await some.until(2);
    expect(some.heard).toEqual(['tools/list_changed']);
    await some.leave();
  });
});

describe('the gateway', () => {
  // Rule changes-6 (subscriptions, "Graceful Closure"): The gateway ends a listener with a result that carries the
  // subscription id, and then closes the stream: when it stops, when the server cannot be reached again, when the
  // server offers less than the acknowledgement promised, or when the server refuses the credentials.
  test('ends every listener with its result when it drains', async () => {
    const { server, gateway, url } = await start();
    const one = await ListeningClient.open(url, EVERY_LIST, { id: 'a' });
    const two = await ListeningClient.open(url, { resourceSubscriptions: ['test://a'] }, { id: 2 });
    const drained = gateway.drain();
    for (const [client, id] of [
      [one, 'a'],
      [two, 2],
    ] as const) {
      const answered = await client.answered;
      expect(answered?.response).toEqual({
        jsonrpc: '2.0',
        id,
        result: {
          resultType: 'complete',
          _meta: { [SUBSCRIPTION_ID]: id, 'io.modelcontextprotocol/serverInfo': SERVER_INFO },
        },
      });
    }
    await drained;
    await server.until(() => server.sessions.size === 0);
    expect(server.asked.at(-1)).toEqual(['unsubscribe', 'test://a']);
  });

  // Rule changes-7 (streamable-http, "Receiving Messages"): A silent stream carries a comment every 15 s
  // (`edge.keepAlive`). A client that does not read is cut off, and what it held is freed.
  // Rule responses-3.
  test('keeps a silent stream alive with comments', async () => {
    const clock = new ManualClock();
    const { gateway, url } = await start({}, { clock });
    const client = await ListeningClient.open(url, EVERY_LIST);
    clock.advance(15_000);
    clock.advance(15_000);
    void gateway.drain();
    clock.advance(1);
    const answered = await client.answered;
    expect(answered?.comments).toBe(2);
  });

  // Rules http-10, changes-7.
  test('cuts off a listener that does not read, and frees what it held', async () => {
    const { server, url } = await start();
    const body = JSON.stringify(
      modernBody('subscriptions/listen', {
        notifications: { resourceSubscriptions: ['test://a'] },
      }),
    );
    const { hostname, port } = new URL(url);
    const { connect } = await import('node:net');
    const socket = connect({ host: hostname, port: Number(port) });
    socket.on('error', () => {});
    socket.pause();
    const headers = Object.entries(modernHeaders('subscriptions/listen', {}));
    const length = ['content-length', String(Buffer.byteLength(body))] as const;
    socket.write(rawRequest('POST', '/mcp', [['host', '127.0.0.1'], ...headers, length], body));
    await server.until(() => server.subscribed.length === 1);
    const long = `test://a/${'x'.repeat(60_000)}`;
    let rounds = 0;
    for (; server.subscribed.length > 0 && rounds < 1_000; rounds += 1) {
      await server.updated(long, 'test://a');
    }
    await server.until(() => server.sessions.size === 0);
    expect(rounds).toBeGreaterThan(1);
    socket.destroy();
  });

  test('says in `server/discover` what can be listened to, whatever the client can do', async () => {
    const { url } = await start();
    for (const capabilities of [{}, { elicitation: {} }]) {
      const { response } = await send(url, 'server/discover', {}, { capabilities });
      expect(response.result.capabilities).toEqual({
        tools: { listChanged: true },
        prompts: { listChanged: true },
        resources: { subscribe: true, listChanged: true },
        extensions: { 'io.modelcontextprotocol/tasks': {} },
      });
    }
  });

  // Rule discover-5.
  test('says there nothing of it for a server that has no stream of its own', async () => {
    const { url } = await start({ get: '405' });
    const { response } = await send(url, 'server/discover', {});
    const { extensions: _own, ...capabilities } = response.result.capabilities;
    expect(capabilities).toEqual({ tools: {}, prompts: {}, resources: {} });
  });

  test('responds with an event stream that no proxy buffers', async () => {
    const { url } = await start();
    const body = JSON.stringify(modernBody('subscriptions/listen', { notifications: {} }));
    const headers = Object.entries(modernHeaders('subscriptions/listen', {}));
    const length = ['content-length', String(Buffer.byteLength(body))] as const;
    const lines = [['host', '127.0.0.1'] as const, ...headers, length];
    const cut = sendRaw(url, rawRequest('POST', '/mcp', lines, body), { maxBytes: 1 });
    await expect(cut).rejects.toThrow(/text\/event-stream.*x-accel-buffering: no/s);
  });
});

describe('the official client', () => {
  async function connect(url: string): Promise<Client> {
    const client = new Client(
      { name: 'official', version: '1.0.0' },
      { versionNegotiation: { mode: { pin: '2026-07-28' } } },
    );
    await client.connect(new StreamableHTTPClientTransport(new URL(url)));
    stopAfterTest(() => client.close());
    return client;
  }

  // Rule changes-8.
  test('listens, hears and leaves', async () => {
    const { server, url } = await start();
    const client = await connect(url);
    const heard = Promise.withResolvers<string>();
    client.setNotificationHandler('notifications/resources/updated', ({ params }) => {
      heard.resolve(params.uri);
    });
    const asked = { toolsListChanged: true, resourceSubscriptions: ['test://a'] };
    const subscription = await client.listen(asked);
    expect(subscription.honoredFilter).toEqual(asked);
    await server.updated('test://a');
    await expect(heard.promise).resolves.toBe('test://a');
    await subscription.close();
    await server.until(() => server.subscribed.length === 0);
    await expect(subscription.closed).resolves.toBe('local');
  });

  // Rule changes-6.
  test('takes the end at a drain for a graceful one', async () => {
    const { gateway, url } = await start();
    const client = await connect(url);
    const subscription = await client.listen(EVERY_LIST);
    await gateway.drain();
    await expect(subscription.closed).resolves.toBe('graceful');
  });
});
