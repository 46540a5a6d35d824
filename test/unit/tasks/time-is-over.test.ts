/** Tasks in a store: of one whose time is over nothing is left, and one that ends meanwhile is not taken over. */
import { describe, expect, test } from 'vitest';
import type { CallsOptions } from '../../../src/calls/calls.ts';
import { Ownership } from '../../../src/fleet/ownership.ts';
import { LocalCounts, Quota } from '../../../src/lib/counts.ts';
import { randomId } from '../../../src/lib/crypto.ts';
import { onDefect } from '../../../src/lib/background.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';
import { DirectoryUnavailable, type Store } from '../../../src/model/store.ts';
import type { Relay } from '../../../src/model/relay.ts';
import type { EdgeRequest, Promotion } from '../../../src/model/request.ts';
import { serverRequestId, type HomeId } from '../../../src/protocol/ids.ts';
import type { JsonObject } from '../../../src/protocol/json.ts';
import { createKeyRing, generateKey } from '../../../src/seal/key-ring.ts';
import { SessionSeal } from '../../../src/seal/session-seal.ts';
import { TaskStore } from '../../../src/tasks/store.ts';
import { TaskIds } from '../../../src/tasks/task-ids.ts';
import { Tasks } from '../../../src/tasks/tasks.ts';
import {
  callsTestbed,
  FIRST,
  LIMITS,
  settled,
  waitingClient,
} from '../../fixtures/calls-testbed.ts';

const TTL_MS = 12 * 3_600_000;
const PROMOTION: Promotion = { afterMs: 1_000, onQuestion: true, ttlMs: TTL_MS };

/** A store of this test, and what is in it. */
function memoryStore() {
  const kept = new Map<string, Uint8Array>();
  const claims = new Set<HomeId>();
  const last = { fencingToken: 1 };
  const keep: Store['end'] = async (id, part, sealed) => {
    kept.set(`${id}:${part}`, sealed);
    return 'kept';
  };
  const store: Store = {
    ...{ up: true, term: 1 },
    claim: async (id) => {
      claims.add(id);
      return { type: 'claimed', ...last };
    },
    claimAndRead: async (id, part, ttlMs) => ({
      claim: await store.claim(id, ttlMs),
      kept: await store.read(id, part),
    }),
    release: async (id) => void claims.delete(id),
    state: async (id, part, sealed, ttlMs, fencingToken) =>
      fencingToken === last.fencingToken ? keep(id, part, sealed, ttlMs) : 'lost',
    end: keep,
    read: async (id, part) => kept.get(`${id}:${part}`) ?? null,
    forget: async (id, part) => void kept.delete(`${id}:${part}`),
    holderOf: async () => null,
    isAlive: async () => true,
    requireComplete: async () => {},
  };
  return { store, kept, claims, last };
}

/** @param most how many tasks a caller can have */
function tasksTestbed(options: Partial<CallsOptions> = {}, most = 1) {
  const promotion = () => PROMOTION;
  const testbed = callsTestbed({ promotion, longestCallMs: 2 * TTL_MS, ...options });
  const { calls, clock } = testbed;
  const keys = [generateKey()];
  const shared = memoryStore();
  const counts = new LocalCounts();
  const ownershipOf = (instance: string, store: Store) => new Ownership(store, clock, instance);
  const replica = (
    instance: string,
    store: Store,
    relay: Relay | null = null,
    ownership: Ownership = ownershipOf(instance, store),
  ) =>
    new Tasks({
      ...{ route: 'route', instance, calls, promotion, clock },
      ...{
        pollIntervalMs: 1_000,
        relay,
        randomHome: randomId,
        log: { event: () => {}, takes: () => true },
      },
      store: new TaskStore(ownership, createKeyRing(keys, 'task'), 'fleet'),
      ids: new TaskIds(
        new SessionSeal({ keys: { all: keys }, audience: 'fleet', route: 'route' }),
        null,
      ),
      quota: new Quota('tasks', () => ({ max: most, maxPerPrincipal: most }), counts),
    });
  const ownership = ownershipOf('here', shared.store);
  const tasks = replica('here', shared.store, null, ownership);
  /** The lease of the replica is there again after it was gone. */
  const leaseRestored = () => {
    tasks.keepAgain();
    return ownership.claimAgain();
  };
  /** Lets time pass, and what it sets off happen. */
  const pass = async (ms: number) => {
    const untilMs = clock.now() + ms;
    for (;;) {
      await settled();
      const { nextInMs } = clock;
      if (nextInMs === null || clock.now() + nextInMs > untilMs) break;
      clock.advance(nextInMs);
    }
    clock.advance(untilMs - clock.now());
    await settled();
  };
  const serve = () => tasks.serve(FIRST, waitingClient().waiter);
  return { ...testbed, ...shared, tasks, replica, leaseRestored, counts, pass, serve };
}

type Testbed = ReturnType<typeof tasksTestbed>;

const STAGES: readonly (readonly [string, Partial<CallsOptions>, (testbed: Testbed) => void])[] = [
  ['the server works', {}, () => {}],
  ['the server asks', {}, ({ server }) => server.asks(7)],
  [
    'the server keeps the call, which was left to it',
    { leaveWhenParked: () => true },
    ({ server }) => {
      server.keepsEvents();
      server.asks(7);
    },
  ],
];

// Rule promoted-6.
test.each(STAGES)('the end of a task frees everything where %s', async (_, options, happens) => {
  const testbed = tasksTestbed(options);
  const { server, clock, tasks, kept, claims, pass, serve, calls, capacity } = testbed;
  const reply = serve();
  await settled();
  happens(testbed);
  await pass(PROMOTION.afterMs ?? 0);
  expect(await reply).toMatchObject({ result: { resultType: 'task', ttlMs: TTL_MS } });
  await pass(1_000);
  if (server.did.includes('leave')) {
    // Each time that the task takes the call up again, its server keeps it.
    server.says.resumed();
    await pass(1);
  }
  expect([kept.size, claims.size]).toEqual([2, 1]);

  await pass(TTL_MS);
  if (server.did.includes('leave')) server.says.resumed();
  await pass(LIMITS.cancelGraceMs + LIMITS.redeliverMs);
  expect(server.did).toContain('cancel');
  expect(server.did.at(-1)).toMatch(/end|release/);
  expect([...tasks.byStatus.values()]).toEqual([0, 0, 0, 0, 0]);
  expect([kept.size, claims.size]).toEqual([0, 0]);
  expect([calls.parked, capacity.running, calls.callsOnlyHere]).toEqual([0, 0, 0]);
  expect(clock.pending).toBe(0);
});

describe('while a task waits for its server', () => {
  async function waitingTask(server: (testbed: Testbed) => void) {
    const testbed = tasksTestbed();
    const { kept, pass, logged, store } = testbed;
    server(testbed);
    const taskId = await taskOf(testbed);
    await pass(61_000);
    const { state } = store;
    let writes = 0;
    store.state = (...record) => {
      writes += 1;
      return state(...record);
    };
    logged.length = 0;
    /** What happens in ten minutes. */
    const inTenMinutes = async () => {
      const before = { writes, lines: logged.length, sealed: [...kept.values()] };
      await pass(10 * 60_000);
      const sealed = [...kept.values()];
      return {
        writes: writes - before.writes,
        lines: logged.slice(before.lines).filter((name) => name !== 'call.moved'),
        isNew: sealed.some((one, at) => one !== before.sealed[at]),
      };
    };
    return { ...testbed, taskId, inTenMinutes };
  }

  test.each<[string, (testbed: Testbed) => void]>([
    ['sends no events', () => {}],
    ['sends events', ({ server }) => server.keepsEvents()],
  ])('nothing is written if it %s, and nothing changes', async (_, server) => {
    const { inTenMinutes } = await waitingTask(server);
    expect(await inTenMinutes()).toEqual({ writes: 0, lines: [], isNew: false });
  });

  test('the pointer is renewed if the stream can be resumed at a later event', async () => {
    const { inTenMinutes, server } = await waitingTask((testbed) => testbed.server.keepsEvents());
    if (server.point === null) throw new Error('the server keeps no events');
    server.point = { ...server.point, lastEventId: 'later' };
    expect(await inTenMinutes()).toMatchObject({ writes: 1, isNew: true });
    expect(await inTenMinutes()).toMatchObject({ writes: 0, isNew: false });
  });

  test('its call takes the credentials of the last request about the task', async () => {
    const { inTenMinutes, tasks, taskId } = await waitingTask(() => {});
    const caller = { ...FIRST.caller, credentialsKey: 'newer' };
    await tasks.get({ ...FIRST, caller }, taskId, waitingClient().waiter);
    expect((await inTenMinutes()).lines).toContain('call.resumed');
    expect((await inTenMinutes()).lines).toEqual([]);
  });
});

// Rule promoted-3.
test('a question that the server takes back is not shown any more', async () => {
  const { server, tasks, pass, ...testbed } = tasksTestbed();
  const taskId = await taskOf({ server, tasks, pass, ...testbed });
  const status = async () => {
    const reply = await tasks.get(FIRST, taskId, waitingClient().waiter);
    return reply.type === 'task' && reply.task.state.status;
  };
  server.asks(7);
  await pass(2_000);
  expect(await status()).toBe('input_required');
  server.says.withdrawn(serverRequestId(7));
  await pass(1);
  expect(await status()).toBe('working');
});

// Rule promoted-7.
test('a task that has ended gives its place to another one', async () => {
  const { pass, serve } = tasksTestbed();
  const begin = async () => {
    const reply = serve();
    await pass(PROMOTION.afterMs ?? 0);
    return reply;
  };
  expect(await begin()).toMatchObject({ result: { resultType: 'task' } });
  expect(await begin()).toMatchObject({ result: { resultType: 'input_required' } });
  await pass(TTL_MS);
  expect(await begin()).toMatchObject({ result: { resultType: 'task' } });
});

function aboutTask(method: string, taskId: string, more: JsonObject = {}): EdgeRequest {
  return { ...FIRST, method, params: { taskId, ...more } };
}

async function taskOf({ pass, serve }: Testbed): Promise<string> {
  const reply = serve();
  await pass(PROMOTION.afterMs ?? 0);
  const created = await reply;
  return created.kind === 'result' ? String(created.result['taskId']) : '';
}

// Rule promoted-5.
test('a task that ends while another replica is about to take it over is over there as well', async () => {
  const testbed = tasksTestbed();
  const { tasks, replica, store, claims } = testbed;
  const taskId = await taskOf(testbed);
  const { waiter } = waitingClient();
  const there = replica('there', {
    ...store,
    claim: async (id, ttlMs) => {
      await tasks.serveWhereItIs(aboutTask('tasks/cancel', taskId), taskId, waiter);
      await settled();
      return store.claim(id, ttlMs);
    },
  });
  const cancelled = { type: 'task', task: { state: { status: 'cancelled' } } };
  expect(await there.get(FIRST, taskId, waiter)).toMatchObject(cancelled);
  await settled();
  expect(await there.get(FIRST, taskId, waiter)).toMatchObject(cancelled);
  expect(claims.size).toBe(0);
});

// Rule shared-13.
test('a task that another replica had meanwhile is left as that one kept it, also if the store fails in between', async () => {
  const testbed = tasksTestbed();
  const { tasks, store, kept, last, leaseRestored, pass } = testbed;
  await taskOf(testbed);
  const key = [...kept.keys()].find((id) => id.endsWith(':task'));
  if (key === undefined) throw new Error('the task was not kept');
  const theirs = Uint8Array.of(1);
  kept.set(key, theirs);
  last.fencingToken = 2;
  const { state } = store;
  let writes = 0;
  store.state = async (...record) => {
    writes += 1;
    if (writes === 1) throw new DirectoryUnavailable('timeout', 'away');
    return state(...record);
  };
  const claimed = leaseRestored();
  await pass(1_000);
  await claimed;
  expect([...tasks.byStatus.values()]).toEqual([0, 0, 0, 0, 0]);
  expect(kept.get(key)).toBe(theirs);
});

// Rule shared-8.
test('a task that cannot be claimed again keeps no other one waiting', async () => {
  const testbed = tasksTestbed({}, 2);
  const { store, claims, leaseRestored, pass } = testbed;
  for (let task = 0; task < 2; task += 1) await taskOf(testbed);
  const [unreadable] = claims;
  const { claim } = store;
  const state = { isReadable: false };
  store.claim = async (id, ttlMs) => {
    if (id !== unreadable || state.isReadable) return claim(id, ttlMs);
    throw new DirectoryUnavailable('store', 'unreadable');
  };
  claims.clear();
  const again = leaseRestored();
  await pass(100);
  expect(claims.size).toBe(1);
  state.isReadable = true;
  await pass(250);
  await again;
  expect(claims.size).toBe(2);
});

// Rule shared-8.
test('a task that cannot be claimed again is not tried more often if that is asked for more often', async () => {
  const testbed = tasksTestbed();
  const { store, leaseRestored, pass } = testbed;
  await taskOf(testbed);
  let tries = 0;
  const { claim } = store;
  store.claim = async () => {
    tries += 1;
    throw new DirectoryUnavailable('store', 'unreadable');
  };
  const again = Array.from({ length: 5 }, () => leaseRestored());
  await pass(100);
  tries = 0;
  await pass(500);
  expect(tries).toBe(1);
  store.claim = claim;
  await pass(500);
  await Promise.all(again);
});

// Rule shared-8.
test('a task that ends while it is claimed again keeps no claim', async () => {
  const testbed = tasksTestbed();
  const { tasks, store, claims, leaseRestored } = testbed;
  const taskId = await taskOf(testbed);
  const { claim } = store;
  const replies = Promise.withResolvers<void>();
  // The store has lost the claim, and takes the new one when the task has given the old one back.
  store.claim = async (id, ttlMs) => {
    await replies.promise;
    await claim(id, ttlMs);
    return { type: 'claimed', fencingToken: 2 };
  };
  const again = leaseRestored();
  await tasks.serveWhereItIs(aboutTask('tasks/cancel', taskId), taskId, waitingClient().waiter);
  await settled();
  replies.resolve();
  await again;
  await settled();
  expect(claims.size).toBe(0);
});

const HOLDERS: readonly (readonly [string, Partial<Store>])[] = [
  [
    'another replica has',
    { claim: async () => ({ type: 'held', by: { id: 'a', instance: 'here' } }) },
  ],
  ['nobody has', {}],
];

// Rule promoted-5.
test.each(HOLDERS)(
  'a task that %s is not acknowledged as cancelled by a replica that stops',
  async (_, held) => {
    const testbed = tasksTestbed();
    const { tasks, replica, store, claims } = testbed;
    const taskId = await taskOf(testbed);
    await tasks.close();
    const there = replica('there', { ...store, ...held });
    there.stop();
    const { waiter } = waitingClient();
    expect(
      await there.serveWhereItIs(aboutTask('tasks/cancel', taskId), taskId, waiter),
    ).toMatchObject({ type: 'failed' });
    const working = { type: 'task', task: { state: { status: 'working' } } };
    expect(await there.get(FIRST, taskId, waiter)).toMatchObject(working);
    await settled();
    expect(claims.size).toBe(0);
  },
);

test('a change of a task is kept without the request of its call', async () => {
  const { tasks, server, store, kept, pass, leaseRestored } = tasksTestbed();
  const writes: [part: string, bytes: number][] = [];
  const { state } = store;
  store.state = (id, part, sealed, ...rest) => {
    writes.push([part, sealed.byteLength]);
    return state(id, part, sealed, ...rest);
  };
  const params = { ...FIRST.params, arguments: { text: 'x'.repeat(100_000) } };
  const reply = tasks.serve({ ...FIRST, params }, waitingClient().waiter);
  await pass(PROMOTION.afterMs ?? 0);
  const created = await reply;
  expect(writes.map(([part]) => part)).toEqual(['request', 'task']);
  server.asks(7);
  await pass(2_000);
  const changes = writes.slice(2);
  expect(new Set(changes.map(([part]) => part))).toEqual(new Set(['task']));
  expect(Math.max(...changes.map(([, bytes]) => bytes))).toBeLessThan(10_000);
  // The store has lost all.
  kept.clear();
  await leaseRestored();
  await pass(1);
  expect(kept.size).toBe(2);
  const taskId = created.kind === 'result' ? String(created.result['taskId']) : '';
  await tasks.serveWhereItIs(aboutTask('tasks/cancel', taskId), taskId, waitingClient().waiter);
  await pass(1);
  expect([...kept.keys()]).toEqual([expect.stringMatching(/:task$/)]);
});

test('a request that changes a task of another replica asks the store nothing, once its holder is known', async () => {
  const testbed = tasksTestbed();
  const { tasks, replica, store, pass } = testbed;
  const taskId = await taskOf(testbed);
  const asked: string[] = [];
  const there = replica(
    'there',
    {
      ...store,
      claim: async () => {
        asked.push('claim');
        return { type: 'held', by: { id: 'here', instance: 'here' } };
      },
      read: async (...of) => {
        asked.push('read');
        return store.read(...of);
      },
    },
    {
      relay: async (_holder, request, waiter) => {
        const handle = await tasks.serveRelayed(request, waiter);
        const reply = await handle?.begin();
        return reply ? { type: 'replied', reply } : { type: 'unknown', problem: 'not here' };
      },
      sendClientsBack: () => {},
    },
  );
  const { waiter } = waitingClient();
  const answered = there.serveWhereItIs(aboutTask('tasks/update', taskId), taskId, waiter);
  await pass(250);
  expect(await answered).toMatchObject({ type: 'task' });
  expect(asked).toEqual(['read', 'claim']);
  expect(
    await there.serveWhereItIs(aboutTask('tasks/cancel', taskId), taskId, waiter),
  ).toMatchObject({
    task: { state: { status: 'cancelled' } },
  });
  expect(asked).toEqual(['read', 'claim']);
  // It has ended there, and is known there no more.
  await settled();
  expect(
    await there.serveWhereItIs(aboutTask('tasks/cancel', taskId), taskId, waiter),
  ).toMatchObject({ type: 'task' });
  expect(asked).toEqual(['read', 'claim', 'read']);
});

// Rule start-4.
test('a defect in a call ends its task with an error, and is reported', async () => {
  const defects: unknown[] = [];
  const end = onDefect(({ error }) => defects.push(error));
  stopAfterTest(async () => end());
  const testbed = tasksTestbed();
  const taskId = await taskOf(testbed);
  testbed.server.asks(7);
  await testbed.pass(2_000);
  const defect = new TypeError('a defect');
  testbed.calls.serve = () => Promise.reject(defect);
  const { waiter } = waitingClient();
  const inputResponses = { 'elicitation-1': { action: 'decline' } };
  await testbed.tasks.serveWhereItIs(
    aboutTask('tasks/update', taskId, { inputResponses }),
    taskId,
    waiter,
  );
  expect(await testbed.tasks.get(FIRST, taskId, waiter)).toMatchObject({
    type: 'task',
    task: { state: { status: 'failed', error: { code: -32603 } } },
  });
  await testbed.pass(100);
  expect(testbed.server.did).toContain('cancel');
  expect(defects).toEqual([defect]);
});
