/** Filters of listeners: what is promised, and what is let through. */
import fc from 'fast-check';
import { describe, expect, test, vi } from 'vitest';
import { changesIn } from '../../../src/protocol/changes.ts';
import {
  admits,
  filterObject,
  honoured,
  isEmpty,
  isHonoured,
  offerOf,
  readFilter,
  type NotificationFilter,
} from '../../../src/subscriptions/filter.ts';

const NOTHING: NotificationFilter = {
  toolsListChanged: false,
  promptsListChanged: false,
  resourcesListChanged: false,
  resourceSubscriptions: [],
};

const filters = fc.record({
  toolsListChanged: fc.boolean(),
  promptsListChanged: fc.boolean(),
  resourcesListChanged: fc.boolean(),
  resourceSubscriptions: fc.uniqueArray(fc.webUrl(), { maxLength: 4 }),
});
const offers = fc.record({
  toolsListChanged: fc.boolean(),
  promptsListChanged: fc.boolean(),
  resourcesListChanged: fc.boolean(),
  resourceSubscriptions: fc.boolean(),
});

describe('a filter', () => {
  test('that names nothing asks for nothing', () => {
    expect(readFilter({ notifications: {} }, 10)).toEqual(NOTHING);
    expect(isEmpty(NOTHING)).toBe(true);
    expect(filterObject(NOTHING)).toEqual({});
  });

  // Rule subscriptions-2.
  test('is read member by member; false is as good as absent, and unknown members are not honoured', () => {
    const notifications = {
      toolsListChanged: true,
      promptsListChanged: false,
      resourceSubscriptions: ['a:1'],
      taskIds: ['t'],
    };
    const filter = readFilter({ notifications }, 10);
    expect(filterObject(filter)).toEqual({
      toolsListChanged: true,
      resourceSubscriptions: ['a:1'],
    });
  });

  // Rule subscriptions-3.
  test('counts each resource once, and no more of them than allowed', () => {
    const notifications = { resourceSubscriptions: ['a:1', 'a:1', 'a:2', 'a:3'] };
    expect(readFilter({ notifications }, 2).resourceSubscriptions).toEqual(['a:1', 'a:2']);
  });
});

describe('what is honoured', () => {
  test('was asked for and is offered', () => {
    fc.assert(
      fc.property(filters, offers, (asked, offer) => {
        const kept = honoured(asked, offer);
        for (const list of ['tools', 'prompts', 'resources'] as const) {
          const flag = `${list}ListChanged` as const;
          expect(kept[flag]).toBe(asked[flag] && offer[flag]);
        }
        expect(kept.resourceSubscriptions).toEqual(
          offer.resourceSubscriptions ? asked.resourceSubscriptions : [],
        );
        expect(isHonoured(kept, offer)).toBe(true);
      }),
    );
  });

  test('is all of it only when nothing had to be left out', () => {
    const asked = { ...NOTHING, toolsListChanged: true, resourceSubscriptions: ['a:1'] };
    const tools = offerOf({ tools: { listChanged: true }, resources: {} }, true);
    expect(isHonoured(asked, tools)).toBe(false);
    expect(isHonoured({ ...asked, resourceSubscriptions: [] }, tools)).toBe(true);
  });

  test('is nothing without a stream of the server, whatever it declares', () => {
    const declared = {
      tools: { listChanged: true },
      resources: { listChanged: true, subscribe: true },
    };
    const asked = { ...NOTHING, toolsListChanged: true, resourceSubscriptions: ['a:1'] };
    expect(isEmpty(honoured(asked, offerOf(declared, false)))).toBe(true);
    expect(isEmpty(honoured(asked, offerOf(declared, true)))).toBe(false);
  });
});

describe('what is let through', () => {
  test('is what the filter names and nothing else', () => {
    const filter = { ...NOTHING, promptsListChanged: true, resourceSubscriptions: ['a:1'] };
    expect(admits(filter, 'notifications/prompts/list_changed', {})).toBe(true);
    expect(admits(filter, 'notifications/tools/list_changed', {})).toBe(false);
    expect(admits(filter, 'notifications/resources/list_changed', {})).toBe(false);
    expect(admits(filter, 'notifications/resources/updated', { uri: 'a:1' })).toBe(true);
    expect(admits(filter, 'notifications/resources/updated', { uri: 'a:2' })).toBe(false);
    expect(admits(filter, 'notifications/resources/updated', {})).toBe(false);
    expect(admits(filter, 'notifications/message', { level: 'info' })).toBe(false);
  });

  test('includes everything that is sent when it is not known what was missed', () => {
    fc.assert(
      fc.property(filters, (filter) => {
        const all = changesIn(filterObject(filter));
        expect(all.every(({ method, params }) => admits(filter, method, params))).toBe(true);
        expect(all.length === 0).toBe(isEmpty(filter));
      }),
    );
  });
});

function isHeard(subscribed: string, uri: string): boolean {
  const filter = { ...NOTHING, resourceSubscriptions: [subscribed] };
  return admits(filter, 'notifications/resources/updated', { uri });
}

test('the URIs of a filter are read once, however many updates are compared with them', () => {
  const parse = vi.spyOn(URL, 'parse');
  const uris = Array.from({ length: 100 }, (_, number) => `file:///${number}`);
  const filter = { ...NOTHING, resourceSubscriptions: uris };
  const updated = { uri: 'file:///none' };
  for (let count = 0; count < 10; count += 1) {
    expect(admits(filter, 'notifications/resources/updated', updated)).toBe(false);
  }
  expect(parse).toHaveBeenCalledTimes(100 + 10);
  parse.mockRestore();
});

// Rule changes-2.
describe('an update concerns a subscription', () => {
  test.each([
    ['file:///a', 'file:///a'],
    ['file:///a', 'file:///a/b'],
    ['file:///a/', 'file:///a/b'],
    ['file:///a', 'file:///a?rev=2'],
    ['file:///a', 'file:///a#part'],
    ['http://example.com', 'http://example.com/'],
    ['HTTP://EXAMPLE.com/x', 'http://example.com/x'],
    ['no uri at all', 'no uri at all'],
  ])('to %s when it is of %s', (subscribed, updated) => {
    expect(isHeard(subscribed, updated)).toBe(true);
  });

  test.each([
    ['file:///a', 'file:///ab'],
    ['file:///a/b', 'file:///a'],
    ['file:///a', 'file:///b'],
    ['file:///a', 'http:///a'],
    ['', 'file:///a'],
  ])('to %s not when it is of %s', (subscribed, updated) => {
    expect(isHeard(subscribed, updated)).toBe(false);
  });
});
