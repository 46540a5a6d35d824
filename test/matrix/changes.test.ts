/** `subscriptions/listen` in front of servers of every revision, which know subscriptions one by one. */
import { afterEach, describe, expect, test } from 'vitest';
import { ListeningClient } from '../fixtures/clients/listening-client.ts';
import { revisionStage } from '../fixtures/revisions/testbed.ts';
import { SERVERS, TITLE } from '../fixtures/revisions/table.ts';

const EVERYTHING = {
  toolsListChanged: true,
  promptsListChanged: true,
  resourcesListChanged: true,
  resourceSubscriptions: ['test://one', 'test://two'],
};

describe.each(SERVERS)(TITLE, (shape) => {
  const stage = revisionStage(shape);
  const clients: ListeningClient[] = [];
  afterEach(async () => {
    for (const client of clients.splice(0)) await client.leave();
  });
  async function listen(notifications: object): Promise<ListeningClient> {
    const client = await ListeningClient.open(stage.url, notifications);
    clients.push(client);
    return client;
  }

  // Rule subscriptions-3 (subscriptions, "Acknowledgment"): A resource that the server refuses, or does not confirm
  // within 2 s, and those beyond 100 are left out of the acknowledgement.
  test('a client is promised what it asks for, and each resource is subscribed to', async () => {
    const client = await listen(EVERYTHING);
    expect(client.acknowledged).toEqual(EVERYTHING);
    const subscribed = stage.server.all('resources/subscribe').map(({ body }) => body.params);
    expect(subscribed).toEqual([{ uri: 'test://one' }, { uri: 'test://two' }]);
  });

  // Rule changes-1.
  test('a client hears of every change', async () => {
    const client = await listen(EVERYTHING);
    for (const list of ['tools', 'prompts', 'resources']) {
      await stage.server.announce({ method: `notifications/${list}/list_changed` });
    }
    const method = 'notifications/resources/updated';
    await stage.server.announce({ method, params: { uri: 'test://two' } });
    await client.until(5);
    expect(client.heard).toEqual([
      'tools/list_changed',
      'prompts/list_changed',
      'resources/list_changed',
      'resources/updated test://two',
    ]);
  });

  // Rule changes-1.
  test('a client hears nothing that it did not ask for, of changes or of anything else', async () => {
    const client = await listen({ resourceSubscriptions: ['test://one'] });
    await stage.server.announce({ method: 'notifications/tools/list_changed' });
    const log = { level: 'emergency', data: 'fire' };
    await stage.server.announce({ method: 'notifications/message', params: log });
    const method = 'notifications/resources/updated';
    await stage.server.announce({ method, params: { uri: 'test://one' } });
    await client.until(2);
    expect(client.heard).toEqual(['resources/updated test://one']);
  });

  test('a client that leaves is unsubscribed', async () => {
    const client = await listen({ resourceSubscriptions: ['test://one'] });
    await client.leave();
    await stage.server.until(() => stage.server.all('resources/unsubscribe').length === 1);
    const [unsubscribed] = stage.server.all('resources/unsubscribe');
    expect(unsubscribed?.body.params).toEqual({ uri: 'test://one' });
  });
});
