/** `subscriptions/listen` over real sockets, in front of servers that know only subscriptions of their sessions. */
import { describe, expect, test } from 'vitest';
import { ListeningClient } from '../../fixtures/clients/listening-client.ts';
import { send } from '../../fixtures/clients/modern-client.ts';
import {
  ada,
  bob,
  EVERY_LIST,
  subscribingGateway,
  SUBSCRIPTION_ID,
} from '../../fixtures/gateways/subscribing-gateway.ts';

describe('a listener', () => {
  // Rule subscriptions-2 (subscriptions, "Acknowledgment"): The acknowledgement names what was asked for and the
  // server can give.
  test('is first told what the server can give', async () => {
    const { url } = await subscribingGateway();
    const asked = { ...EVERY_LIST, resourceSubscriptions: ['test://a', 'test://b'] };
    const client = await ListeningClient.open(url, asked, { id: 'listen:1' });
    expect(client.messages[0]).toEqual({
      jsonrpc: '2.0',
      method: 'notifications/subscriptions/acknowledged',
      params: { notifications: asked, _meta: { [SUBSCRIPTION_ID]: 'listen:1' } },
    });
    await client.leave();
  });

  // Rule changes-1 (subscriptions, "Receiving Notifications"; "Opening a Stream"): Each notification has the id of
  // the listen request as `io.modelcontextprotocol/subscriptionId`. Nothing else is sent.
  test('hears what changes under the id of its request, and nothing else', async () => {
    const { server, url } = await subscribingGateway();
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
    const { url } = await subscribingGateway({ capabilities: can });
    const asked = { ...EVERY_LIST, resourceSubscriptions: ['test://a'] };
    const client = await ListeningClient.open(url, asked);
    expect(client.acknowledged).toEqual(given);
    await client.leave();
  });

  // Rule subscriptions-3.
  test('is not promised a resource to which the server lets nobody subscribe', async () => {
    const { url } = await subscribingGateway({ refuses: ['test://secret'] });
    const client = await ListeningClient.open(url, {
      resourceSubscriptions: ['test://secret', 'test://a'],
    });
    expect(client.acknowledged).toEqual({ resourceSubscriptions: ['test://a'] });
    await client.leave();
  });

  // Rule subscriptions-2.
  test('is promised nothing by a server that has no stream of its own, and keeps no session of it', async () => {
    const { server, url } = await subscribingGateway({ get: '405' });
    const client = await ListeningClient.open(url, {
      ...EVERY_LIST,
      resourceSubscriptions: ['test://a'],
    });
    expect(client.acknowledged).toEqual({});
    await server.until(() => server.sessions.size === 0);
    expect(server.asked).toEqual([]);
    await client.leave();
  });

  // Rule subscriptions-5.
  test('gets an error while the server has a stream of its own and does not open it', async () => {
    const { server, url } = await subscribingGateway();
    server.become({ get: '409' });
    const { response } = await send(url, 'subscriptions/listen', { notifications: EVERY_LIST });
    expect(response.error).toMatchObject({
      code: -32603,
      data: { reason: 'upstream_unavailable' },
    });
    server.become({ get: 'served' });
    const client = await ListeningClient.open(url, EVERY_LIST);
    expect(client.acknowledged).toEqual(EVERY_LIST);
    await client.leave();
  });

  // Rule changes-5.
  test('gets another session when the server does not know its session once its stream is opened', async () => {
    const { server, url } = await subscribingGateway();
    server.become({ get: 'restarted' });
    const client = await ListeningClient.open(url, EVERY_LIST);
    expect(client.acknowledged).toEqual(EVERY_LIST);
    await server.changed('tools');
    await client.until(2);
    expect(client.heard).toContain('tools/list_changed');
    await client.leave();
  });

  // Rule changes-2 (schema, `ResourceUpdatedNotificationParams`): An update goes to subscribers of that resource or
  // of one that contains it.
  test('hears of a part of what it subscribed to', async () => {
    const { server, url } = await subscribingGateway();
    const client = await ListeningClient.open(url, { resourceSubscriptions: ['test://dir'] });
    await server.updated('test://dir/file', 'test://dir');
    await client.until(2);
    expect(client.heard).toEqual(['resources/updated test://dir/file']);
    await client.leave();
  });

  // Rule changes-4.
  test('that leaves is unsubscribed, and with it goes the session', async () => {
    const { server, gateway, url } = await subscribingGateway();
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

  test('gets the same notifications from a server of the oldest transport', async () => {
    const { server, url } = await subscribingGateway({ transport: 'http-sse' });
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

  // Rule questions-3.
  test('is asked nothing: a question of the server in its session is refused', async () => {
    const { server, url } = await subscribingGateway();
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

  // Rule subscriptions-5: If the server cannot be reached, or does not open a stream, the request gets -32603.
  test('gets an error while the server cannot be reached', async () => {
    const { server, url } = await subscribingGateway();
    server.down = true;
    const { status, response } = await send(url, 'subscriptions/listen', { notifications: {} });
    expect(status).toBe(200);
    expect(response.error).toMatchObject({ code: -32603, data: { reason: 'upstream_busy' } });
  });
});

describe('a request to listen', () => {
  // Rule subscriptions-1 (subscriptions, "Opening a Stream"): A malformed `notifications` object gets -32602, and a
  // client that accepts no event stream 406.
  test.each([
    ['without a filter', {}],
    ['with a filter that is none', { notifications: [] }],
    ['with a flag that is none', { notifications: { toolsListChanged: 'yes' } }],
    ['with resources that are no URIs', { notifications: { resourceSubscriptions: [1] } }],
    ['with resources that are no list', { notifications: { resourceSubscriptions: null } }],
  ])('%s is refused', async (_how, params) => {
    const { url } = await subscribingGateway();
    const { response } = await send(url, 'subscriptions/listen', params);
    expect(response.error.code).toBe(-32602);
  });

  // Rules validation-4, subscriptions-1.
  test('is refused to a client that takes no stream', async () => {
    const { url } = await subscribingGateway();
    const params = { notifications: EVERY_LIST };
    const headers = { accept: 'application/json' };
    const { status } = await send(url, 'subscriptions/listen', params, { headers });
    expect(status).toBe(406);
  });

  // Rule subscriptions-4: A principal has at most 100 listeners, anonymous callers 500, and all 1000. One more gets
  // -32603 with `data.reason` `too_many_listeners`.
  test('is refused beyond so many of one principal, and not to another', async () => {
    const { url } = await subscribingGateway();
    const many = await Promise.all(
      Array.from({ length: 100 }, () => ListeningClient.open(url, {}, ada)),
    );
    const refused = await send(url, 'subscriptions/listen', { notifications: {} }, ada);
    expect(refused.response.error).toMatchObject({ data: { reason: 'too_many_listeners' } });
    const other = await ListeningClient.open(url, {}, bob);
    await other.leave();
    await Promise.all(many.map((client) => client.leave()));
  });

  // Rule subscriptions-4.
  test('is taken from each of 130 anonymous clients', async () => {
    // Nobody here is the user of this machine.
    const { url } = await subscribingGateway({}, { edge: { trustedProxies: ['10.0.0.1'] } });
    const many = await Promise.all(
      Array.from({ length: 130 }, () => ListeningClient.open(url, {})),
    );
    const messages = many.map(({ messages: [first] }) => first.method);
    expect(new Set(messages)).toEqual(new Set(['notifications/subscriptions/acknowledged']));
    await Promise.all(many.map((client) => client.leave()));
  });
});
