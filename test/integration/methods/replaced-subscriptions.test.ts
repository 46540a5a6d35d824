/** Listeners whose server has lost their session or their stream. */
import { describe, expect, test } from 'vitest';
import { ListeningClient } from '../../fixtures/clients/listening-client.ts';
import {
  ada,
  SERVER_INFO,
  subscribingGateway,
  SUBSCRIPTION_ID,
} from '../../fixtures/gateways/subscribing-gateway.ts';

describe('when the server loses something', () => {
  const asked = { toolsListChanged: true, resourceSubscriptions: ['test://a'] };

  // Rule changes-5.
  test('a session that it forgot is replaced, with its subscriptions and a hint at what was missed', async () => {
    const { server, url } = await subscribingGateway();
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
    const { server, url } = await subscribingGateway({ transport: 'http-sse' });
    const client = await ListeningClient.open(url, asked);
    await server.forget();
    await client.until(3);
    expect(server.subscribed).toEqual(['test://a']);
    await client.leave();
  });

  // Rule changes-5: A broken stream or lost session is replaced within 30 s. Each listener gets one hint to read
  // again, at most every 30 s.
  // Rule resumption-6.
  test('a stream that it cut is opened again in the same session', async () => {
    const { server, url } = await subscribingGateway();
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
    const { server, url } = await subscribingGateway();
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
