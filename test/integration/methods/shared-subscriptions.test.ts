/** Listeners that share a session of their server, and callers who listen in their home. */
import { describe, expect, test } from 'vitest';
import { ListeningClient } from '../../fixtures/clients/listening-client.ts';
import { callTool } from '../../fixtures/clients/modern-client.ts';
import { SESSION_RESOURCE } from '../../fixtures/servers/subscribing-server.ts';
import {
  ada,
  bob,
  EVERY_LIST,
  subscribingGateway,
  SUBSCRIPTION_ID,
} from '../../fixtures/gateways/subscribing-gateway.ts';

describe.each(['streamable-http', 'http-sse'] as const)(
  'a caller with a home over %s',
  (transport) => {
    const asked = { toolsListChanged: true, resourceSubscriptions: [SESSION_RESOURCE] };
    const inSession = ['tools/list_changed', `resources/updated ${SESSION_RESOURCE}`];

    // Rule changes-9: A listener hears the changes of the session that its caller's calls use. If its replica loses
    // that, it listens in a session of its own.
    test('listens in it, before its first call and after', async () => {
      const { server, url } = await subscribingGateway({ transport });
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
      const { server, url } = await subscribingGateway({ transport });
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

describe('several listeners', () => {
  // Rule changes-4 (subscriptions, "Multiple Concurrent Subscriptions"): Listeners of one principal share a session,
  // each with its own filter. The first subscribes, and the last unsubscribes.
  test('of one principal share one stream, each with its own filter and id', async () => {
    const { server, url } = await subscribingGateway();
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
    const { server, url } = await subscribingGateway();
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
    const { server, url } = await subscribingGateway();
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
      const { server, url } = await subscribingGateway({}, { sessions: { scope } });
      const one = await ListeningClient.open(url, filter);
      const two = await ListeningClient.open(url, filter);
      expect(server.asked).toHaveLength(subscriptions);
      await Promise.all([one.leave(), two.leave()]);
    }
  });
});
