import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Notifications, type ListeningWaiter } from '../../../src/calls/notifications.ts';
import type { JsonObject } from '../../../src/protocol/json.ts';
import { unknownMembers } from '../../fixtures/arbitrary/json.ts';
import { schemaProblems } from '../../fixtures/wire/official-schema.ts';

type Heard = { method: string; params: JsonObject };

function listener(wants: Partial<ListeningWaiter['request']> = {}): {
  heard: Heard[];
  who: ListeningWaiter;
} {
  const heard: Heard[] = [];
  const waiter = {
    notify: (method: string, params: JsonObject) => heard.push({ method, params }),
    closed: new AbortController().signal,
  };
  return { heard, who: { waiter, request: { progressToken: null, logLevel: null, ...wants } } };
}

const progress = 'notifications/progress';
const message = 'notifications/message';
const LEVELS = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency'];

describe('progress', () => {
  // Rule progress-2 (progress, "Progress Flow" and "Behavior Requirements"): Progress goes to each waiting request
  // under its own token, always increasing. The next request gets the latest progress.
  test('carries the token of the request that waits, with its type, and not ours', () => {
    const { heard, who } = listener({ progressToken: 'theirs' });
    const params = { progressToken: 99, progress: 1, total: 2, message: 'm' };
    new Notifications().deliver(progress, params, [who]);
    expect(heard).toEqual([{ method: progress, params: { ...params, progressToken: 'theirs' } }]);
  });

  test('goes to nobody who gave no token (progress: it belongs to an active request)', () => {
    const { heard, who } = listener();
    const notifications = new Notifications();
    notifications.deliver(progress, { progressToken: 1, progress: 1 }, [who]);
    notifications.catchUp(who);
    expect(heard).toEqual([]);
  });

  test('may have the token 0 or an empty one', () => {
    for (const progressToken of [0, '']) {
      const { heard, who } = listener({ progressToken });
      new Notifications().deliver(progress, { progress: 1 }, [who]);
      expect(heard).toEqual([{ method: progress, params: { progress: 1, progressToken } }]);
    }
  });

  // Rule progress-2.
  test('goes to each of several that wait for the same call, under its own token', () => {
    const one = listener({ progressToken: 1 });
    const other = listener({ progressToken: 'b' });
    new Notifications().deliver(progress, { progress: 1 }, [one.who, other.who]);
    expect(one.heard[0]?.params['progressToken']).toBe(1);
    expect(other.heard[0]?.params['progressToken']).toBe('b');
  });

  // Rule progress-2.
  test('always increases for the client, whatever the server says (progress, "Behavior Requirements")', () => {
    const values = fc.array(fc.oneof(fc.integer({ min: -3, max: 9 }), fc.constantFrom('5', null)));
    fc.assert(
      fc.property(values, (list) => {
        const { heard, who } = listener({ progressToken: 1 });
        const notifications = new Notifications();
        for (const value of list) notifications.deliver(progress, { progress: value }, [who]);
        const seen = heard.map(({ params }) => Number(params['progress']));
        expect(seen).toEqual([...new Set(seen)].sort((a, b) => a - b));
        const numbers = list.filter((value) => typeof value === 'number');
        expect(seen.at(-1)).toBe(numbers.length === 0 ? undefined : Math.max(...numbers));
      }),
    );
  });

  // Rule progress-2.
  test('that was made while nobody waited is told to the next who does, the latest only', () => {
    const notifications = new Notifications();
    notifications.deliver(progress, { progress: 1 }, []);
    notifications.deliver(progress, { progress: 2, message: 'half' }, []);
    const { heard, who } = listener({ progressToken: 't' });
    notifications.catchUp(who);
    expect(heard).toEqual([
      { method: progress, params: { progress: 2, message: 'half', progressToken: 't' } },
    ]);
  });

  test('of nothing yet is not made up', () => {
    const { heard, who } = listener({ progressToken: 't' });
    new Notifications().catchUp(who);
    expect(heard).toEqual([]);
  });
});

describe('log messages (logging, "Per-request log level")', () => {
  const log = { level: 'error', data: 'd', logger: 'l' };

  // Rule logs-1.
  test('go to nobody who named no level', () => {
    const { heard, who } = listener();
    new Notifications().deliver(message, log, [who]);
    expect(heard).toEqual([]);
  });

  test('go to whoever named their level or a lesser one, and to nobody else', () => {
    fc.assert(
      fc.property(fc.constantFrom(...LEVELS), fc.constantFrom(...LEVELS), (level, logLevel) => {
        const { heard, who } = listener({ logLevel });
        new Notifications().deliver(message, { ...log, level }, [who]);
        const wanted = LEVELS.indexOf(level) >= LEVELS.indexOf(logLevel);
        expect(heard).toEqual(wanted ? [{ method: message, params: { ...log, level } }] : []);
      }),
    );
  });

  test.each([{ data: 'd' }, { level: 'loud', data: 'd' }, { level: 5, data: 'd' }])(
    'of no known level go to nobody: %j',
    (params) => {
      const { heard, who } = listener({ logLevel: 'debug' });
      new Notifications().deliver(message, params, [who]);
      expect(heard).toEqual([]);
    },
  );
});

// Rules url-errors-2, notifications-6.
test.each([
  'notifications/cancelled',
  'notifications/tools/list_changed',
  'notifications/resources/updated',
  'notifications/elicitation/complete',
  'notifications/tasks/status',
  'notifications/initialized',
  'x/unknown',
])('%s has no place in the response to a request', (method) => {
  const { heard, who } = listener({ progressToken: 1, logLevel: 'debug' });
  new Notifications().deliver(method, { progress: 1, level: 'error', data: 1 }, [who]);
  expect(heard).toEqual([]);
});

test.each([
  [progress, { progress: 1, progressToken: 't' }],
  [message, { level: 'error', data: 'd' }],
])(
  '%s loses the legacy task that it belongs to, and keeps the rest of its _meta',
  (method, params) => {
    const { heard, who } = listener({ progressToken: 't', logLevel: 'debug' });
    const task = { 'io.modelcontextprotocol/related-task': { taskId: 't' } };
    const sent = { ...params, _meta: { ...task, 'com.example/a': 1 } };
    new Notifications().deliver(method, sent, [who]);
    expect(heard).toEqual([{ method, params: { ...params, _meta: { 'com.example/a': 1 } } }]);
  },
);

test('what reaches a client is valid by the modern schema and loses nothing', () => {
  const sent = fc.oneof(
    fc.record({ progressToken: fc.nat(), progress: fc.integer(), total: fc.integer() }),
    fc.record({ level: fc.constantFrom(...LEVELS), data: fc.string() }),
  );
  fc.assert(
    fc.property(sent, unknownMembers, (known, unknown) => {
      const params = { ...unknown, ...known } as JsonObject;
      const method = 'level' in known ? message : progress;
      const { heard, who } = listener({ progressToken: 't', logLevel: 'debug' });
      new Notifications().deliver(method, params, [who]);
      const expected = 'level' in known ? params : { ...params, progressToken: 't' };
      expect(heard).toEqual([{ method, params: expected }]);
      expect(schemaProblems('2026-07-28', 'to-client', { jsonrpc: '2.0', ...heard[0] })).toEqual(
        [],
      );
    }),
  );
});
