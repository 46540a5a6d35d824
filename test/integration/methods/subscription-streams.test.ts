/** The stream of a listener: how it is kept alive, cut and ended, and what the official client makes of it. */
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { describe, expect, test } from 'vitest';
import { ListeningClient } from '../../fixtures/clients/listening-client.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';
import { modernBody, modernHeaders, send } from '../../fixtures/clients/modern-client.ts';
import { rawRequest, sendRaw } from '../../fixtures/clients/raw-http.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';
import {
  ada,
  EVERY_LIST,
  SERVER_INFO,
  subscribingGateway,
  SUBSCRIPTION_ID,
} from '../../fixtures/gateways/subscribing-gateway.ts';

describe('the gateway', () => {
  // Rule changes-6 (subscriptions, "Graceful Closure"): The gateway ends a listener with a result when it stops,
  // cannot reach the server, cannot keep the acknowledgement, or credentials are refused.
  test('ends every listener with its result when it drains', async () => {
    const { server, gateway, url } = await subscribingGateway();
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

  // Rule responses-3.
  test('keeps a silent stream alive with comments', async () => {
    const clock = new ManualClock();
    const { gateway, url } = await subscribingGateway({}, { clock });
    const client = await ListeningClient.open(url, EVERY_LIST);
    clock.advance(15_000);
    clock.advance(15_000);
    void gateway.drain();
    clock.advance(1);
    const answered = await client.answered;
    expect(answered?.comments).toBe(2);
  });

  // Rules http-10, responses-3.
  test('cuts off a listener that does not read, and frees what it held', async () => {
    const { server, url } = await subscribingGateway();
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
    const { url } = await subscribingGateway();
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
    const { url } = await subscribingGateway({ get: '405' });
    const { response } = await send(url, 'server/discover', {});
    const { extensions: _own, ...capabilities } = response.result.capabilities;
    expect(capabilities).toEqual({ tools: {}, prompts: {}, resources: {} });
  });

  // Rule discover-5.
  test('says it there as well while the server does not open its stream', async () => {
    const { server, url } = await subscribingGateway();
    server.become({ get: '409' });
    const discover = async () => (await send(url, 'server/discover', {}, ada)).response.result;
    let found = await discover();
    // Until the server was asked on behalf of this caller, it is told what the gateway was.
    while (found.ttlMs === 0) found = await discover();
    expect(found.capabilities.tools).toEqual({ listChanged: true });
  });

  test('responds with an event stream that no proxy buffers', async () => {
    const { url } = await subscribingGateway();
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

  test('listens, hears and leaves', async () => {
    const { server, url } = await subscribingGateway();
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
    const { gateway, url } = await subscribingGateway();
    const client = await connect(url);
    const subscription = await client.listen(EVERY_LIST);
    await gateway.drain();
    await expect(subscription.closed).resolves.toBe('graceful');
  });
});
