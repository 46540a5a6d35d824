/** One listener: order, tags, and silence after the end. */
import { expect, test } from 'vitest';
import { clientRequestId } from '../../../src/protocol/ids.ts';
import type { JsonObject } from '../../../src/protocol/json.ts';
import { readFilter, Listener } from '../../../src/subscriptions/filter.ts';

const TOOLS = 'notifications/tools/list_changed';
const UPDATED = 'notifications/resources/updated';
const ID = 'io.modelcontextprotocol/subscriptionId';

function listenerFor(notifications: JsonObject, id: string | number = 1) {
  const sent: [string, JsonObject][] = [];
  const closed = new AbortController();
  const waiter = {
    notify: (method: string, params: JsonObject) => void sent.push([method, params]),
    closed: closed.signal,
  };
  const asked = readFilter({ notifications }, 10);
  return { listener: new Listener(clientRequestId(id), asked, waiter), asked, sent, closed };
}

// Rule subscriptions-2.
test('nothing is sent before the acknowledgement, and what came meanwhile follows it once', () => {
  const { listener, asked, sent } = listenerFor({
    toolsListChanged: true,
    resourceSubscriptions: ['a:1', 'a:2'],
  });
  listener.hear(UPDATED, { uri: 'a:1' });
  listener.hear(TOOLS, {});
  listener.hear(UPDATED, { uri: 'a:1' });
  listener.hear(UPDATED, { uri: 'a:2' });
  expect(sent).toEqual([]);
  listener.acknowledge({ ...asked, resourceSubscriptions: ['a:1'] });
  expect(sent.map(([method, { uri }]) => [method, uri])).toEqual([
    ['notifications/subscriptions/acknowledged', undefined],
    [UPDATED, 'a:1'],
    [TOOLS, undefined],
  ]);
});

test('what waits for the acknowledgement is bounded', () => {
  const { listener, asked, sent } = listenerFor({ resourceSubscriptions: ['a:1'] });
  for (let part = 0; part < 1_000; part += 1) listener.hear(UPDATED, { uri: `a:1/${part}` });
  listener.acknowledge(asked);
  expect(sent).toHaveLength(101);
  expect(sent.at(-1)?.[1]['uri']).toBe('a:1/999');
});

// Rule changes-1.
test('every message carries the id of the request, of its own type; what the server said beside stays', () => {
  for (const id of [0, '0']) {
    const { listener, asked, sent } = listenerFor({ toolsListChanged: true }, id);
    listener.acknowledge(asked);
    listener.hear(TOOLS, {
      extra: 1,
      _meta: { 'example.com/x': 2, [ID]: 'forged', 'io.modelcontextprotocol/related-task': {} },
    });
    expect(sent).toEqual([
      [
        'notifications/subscriptions/acknowledged',
        { notifications: { toolsListChanged: true }, _meta: { [ID]: id } },
      ],
      [TOOLS, { extra: 1, _meta: { 'example.com/x': 2, [ID]: id } }],
    ]);
  }
});

test('a listener is acknowledged once', () => {
  const { listener, asked, sent } = listenerFor({ toolsListChanged: true });
  listener.acknowledge(asked);
  listener.acknowledge(asked);
  expect(sent).toHaveLength(1);
});

test('a hint at what was missed names all that was acknowledged, and only after that', () => {
  const { listener, asked, sent } = listenerFor({
    toolsListChanged: true,
    promptsListChanged: true,
    resourceSubscriptions: ['a:1'],
  });
  listener.catchUp();
  listener.acknowledge({ ...asked, promptsListChanged: false });
  listener.catchUp();
  expect(sent.slice(1).map(([method]) => method)).toEqual([TOOLS, UPDATED]);
});

test('a listener ends when its client leaves, and says nothing afterwards', async () => {
  const { listener, asked, sent, closed } = listenerFor({ toolsListChanged: true });
  listener.acknowledge(asked);
  closed.abort();
  await listener.ended;
  expect(listener.over).toBe(true);
  listener.hear(TOOLS, {});
  listener.catchUp();
  expect(sent).toHaveLength(1);
});

test('a listener whose client left before it began is over at once, and is not acknowledged', async () => {
  const closed = AbortSignal.abort();
  const sent: string[] = [];
  const waiter = { notify: (method: string) => void sent.push(method), closed };
  const asked = readFilter({ notifications: {} }, 10);
  const listener = new Listener(clientRequestId(1), asked, waiter);
  await listener.ended;
  listener.acknowledge(asked);
  expect(sent).toEqual([]);
});
