/** Sessions that are kept: who gets them, when they go, and that nobody who uses one is cut off. */
import { describe, expect, test } from 'vitest';
import {
  ADA,
  ANY,
  NOBODY,
  IDLE_MS,
  POOL_OPTIONS,
  poolStage,
  usedByACall,
} from '../../../fixtures/servers/pool-testbed.ts';
import {
  eventStream,
  json,
  type Answer,
  type ScriptedServer,
} from '../../../fixtures/servers/scripted-server.ts';
import { call, reply } from '../../../fixtures/servers/upstream-testbed.ts';
import { turnsUntil, type ManualClock } from '../../../fixtures/manual-clock.ts';

const isDelete = ({ method }: { readonly method: string }) => method === 'DELETE';

const getsAt = ({ received }: ScriptedServer) =>
  received.filter(({ method }) => method === 'GET').length;

/** Demands that the next GET comes after this pause. */
async function nextGetAfter(pauseMs: number, clock: ManualClock, server: ScriptedServer) {
  const before = getsAt(server);
  await turnsUntil(() => clock.nextInMs === pauseMs);
  clock.advance(pauseMs);
  await turnsUntil(() => getsAt(server) > before);
}

describe('a session that requests use', () => {
  test('of its caller leaves no timer when the server has forgotten it, and no call has used it', async () => {
    const { clock, pool, server } = await poolStage(
      { request: (_received, response) => void response.writeHead(404).end() },
      { concurrency: 'auto' },
    );
    const first = await pool.borrow(ADA);
    first.giveBack();
    expect(clock.pending).toBeGreaterThan(0);
    const second = await pool.borrow(ADA);
    await expect(second.session.request('tools/list', {}, {})).rejects.toMatchObject({
      code: 'session_gone',
    });
    second.giveBack();
    await server.saw(isDelete);
    // The request that ends the session has a timeout until it has its response.
    await turnsUntil(() => clock.nextInMs === null || clock.nextInMs === IDLE_MS);
    expect(clock.pending).toBe(0);
  });

  // Rule sessions-2.
  test('of its caller is over once when another caller needed its place at once: the next one does not end in its time', async () => {
    const { clock, pool, opened } = await poolStage({}, { concurrency: 'auto', max: 1 });
    const bob = { ...ADA, principalKey: 'bob' };
    const loan = await pool.borrow(ADA);
    const waiting = pool.lease(bob, ANY);
    await turnsUntil(() => clock.nextInMs === POOL_OPTIONS.queue.waitMs);
    loan.giveBack();
    (await waiting).giveBack(true);
    clock.advance(IDLE_MS / 2);
    const called = await pool.lease(ADA, ANY);
    clock.advance(IDLE_MS / 2);
    called.giveBack(true);
    (await pool.lease(ADA, ANY)).giveBack(true);
    expect(opened()).toHaveLength(3);
  });

  // Rules sessions-9, sessions-13.
  test.each([
    ['of calls', usedByACall],
    ['of its own', async () => {}],
  ])(
    '%s stays for as long as they take, and is closed when it was idle for long',
    async (_name, before) => {
      const ground = await poolStage();
      await before(ground);
      const { clock, pool, server, ended } = ground;
      const loan = await pool.borrow(ADA);
      clock.advance(IDLE_MS * 2);
      expect(await loan.session.request('tools/list', {}, {})).toHaveProperty('result');
      expect(ended()).toEqual([]);
      loan.giveBack();
      clock.advance(IDLE_MS);
      await server.saw(isDelete);
      await turnsUntil(() => pool.size === 0);
      expect(pool.size).toBe(0);
    },
  );

  // Rule sessions-7: Requests that cannot ask use the home of their caller, or one of at most 256 shared sessions of
  // the route.
  test('is not given to a call, which may end it at any time', async () => {
    const ground = await poolStage();
    await usedByACall(ground);
    const { pool, ended } = ground;
    const loan = await pool.borrow(ADA);
    const lease = await pool.lease(ADA, ANY);
    expect(lease.session).not.toBe(loan.session);
    lease.giveBack(false);
    expect(await loan.session.request('tools/list', {}, {})).toHaveProperty('result');
    expect(ended()).not.toContain('session-1');
    loan.giveBack();
    expect((await pool.lease(ADA, ANY)).session, 'and is, when they are done').toBe(loan.session);
  });

  test('ends their waiting with a failure when it is closed', async () => {
    const { pool, server } = await poolStage({ request: () => {} });
    const { session } = await pool.borrow(ADA);
    const waiting = expect(session.request('tools/list', {}, {})).rejects.toMatchObject({
      code: 'session_gone',
    });
    await server.saw(({ body }) => body?.method === 'tools/list');
    await session.close();
    await waiting;
  });
});

describe('sessions that requests share', () => {
  test('are opened once for all who find the one before dead', async () => {
    const { clock, pool, opened } = await poolStage();
    const first = await pool.borrow(ADA);
    first.giveBack();
    await first.session.close();
    const loans = await Promise.all([pool.borrow(ADA), pool.borrow(ADA), pool.borrow(ADA)]);
    expect(new Set(loans.map(({ session }) => session)).size).toBe(1);
    expect(opened()).toHaveLength(2);
    for (const { giveBack } of loans) giveBack();
    clock.advance(IDLE_MS);
    // The request that ends the session has a timeout until it has its response.
    await turnsUntil(() => pool.size === 0);
    expect({ size: pool.size, timers: clock.pending }).toEqual({ size: 0, timers: 0 });
  });

  // Rule sessions-13.
  test('count like those of calls: one that nobody uses makes room for a call', async () => {
    const { pool, opened, ended } = await poolStage({}, { max: 1 });
    (await pool.borrow(NOBODY)).giveBack();
    (await pool.lease(ADA, ANY)).giveBack(true);
    expect({ opened: opened(), ended: ended(), size: pool.size }).toEqual({
      opened: ['session-1', 'session-2'],
      ended: ['session-1'],
      size: 1,
    });
  });

  // Rule sessions-7.
  test('are as many as are kept, and those go first that were used longest ago and by nobody now', async () => {
    const { pool, server, ended } = await poolStage();
    const borrowAs = (credentialsKey: number) =>
      pool.borrow({ ...ADA, credentialsKey: String(credentialsKey) });
    const held = await borrowAs(1);
    for (let caller = 2; caller <= 257; caller += 1) (await borrowAs(caller)).giveBack();
    await server.saw(isDelete);
    expect(pool.size).toBe(256);
    expect(ended()).toEqual(['session-2']);
    expect(held.session.dead).toBe(false);
  });

  // Rule handshake-7.
  test('are one for all callers without a name, whatever their clients are called', async () => {
    const { pool, server, opened } = await poolStage();
    const one = await pool.borrow({ ...NOBODY, clientInfo: { name: 'one', version: '1' } });
    const other = await pool.borrow({ ...NOBODY, clientInfo: { name: 'other', version: '1' } });
    expect(other.session).toBe(one.session);
    expect(opened()).toHaveLength(1);
    expect(JSON.stringify(server.received.map(({ body }) => body ?? null))).not.toContain('"one"');
  });
});

describe('a session of a listener whose caller has no home', () => {
  // Rule sessions-13.
  test('does not count, since it would keep calls from having theirs for as long as somebody listens', async () => {
    const { pool, opened } = await poolStage({}, { max: 1 });
    const listening = await pool.leaseToListen(NOBODY, () => {});
    (await pool.lease(ADA, ANY)).giveBack(true);
    expect({ opened: opened(), size: pool.size }).toEqual({
      opened: ['session-1', 'session-2'],
      size: 2,
    });
    listening.giveBack();
    await turnsUntil(() => pool.size === 1);
    expect(listening.session.dead).toBe(true);
  });
});

describe('a session whose standalone stream was lost', () => {
  /** A server that gives the stream, ends it, and then refuses it for as long as the test says. */
  async function lost(refusal: number, request?: Answer) {
    let stream: ReturnType<typeof eventStream> | undefined;
    let refuse = false;
    const ground = await poolStage({
      ...(request === undefined ? {} : { request }),
      get: (_received, response) => {
        if (refuse) json(response, refusal, {});
        else stream = eventStream(response);
      },
    });
    const { clock, pool, server } = ground;
    const lease = await pool.lease(ADA, ANY);
    await call(lease.session).heard.until('replied');
    refuse = true;
    stream?.end();
    await turnsUntil(() => clock.pending > 0);
    clock.advance(750);
    await turnsUntil(() => !lease.session.standaloneStreamOpen || lease.session.dead);
    lease.giveBack(true);
    return { ...ground, lease, gets: () => getsAt(server), relent: () => (refuse = false) };
  }

  // Rule sessions-8 (2025-11-25 transports, "Session Management" and "Listening for Messages from the Server"): A
  // standalone stream that breaks is opened again, after pauses from 1 to 60 s. Calls wait for it for at most 2 s.
  test('gets it back', async () => {
    const { clock, pool, lease, relent } = await lost(400);
    relent();
    clock.advance(2_000);
    await turnsUntil(() => lease.session.standaloneStreamOpen);
    expect((await pool.lease(ADA, ANY)).session).toBe(lease.session);
  });

  // Rule sessions-8.
  test.each([400, 405])('stays while it is refused with %i, and no call waits', async (status) => {
    const { pool, lease, opened, ended, gets } = await lost(status);
    const next = await pool.lease(ADA, ANY);
    await call(next.session).heard.until('replied');
    next.giveBack(true);
    expect(next.session).toBe(lease.session);
    expect((await pool.lease(ADA, ANY)).session).toBe(lease.session);
    expect({ opened: opened().length, ended: ended(), gets: gets() }).toEqual({
      ...{ opened: 1, ended: [], gets: 2 },
    });
  });

  // Rule sessions-8.
  test('stays where the GET gets 404, and the server replies to a ping', async () => {
    const { pool, lease, server, ended } = await lost(404);
    await server.saw(({ body }) => body?.method === 'ping');
    expect(lease.session.dead).toBe(false);
    expect((await pool.lease(ADA, ANY)).session).toBe(lease.session);
    expect(ended()).toEqual([]);
  });

  // Rule sessions-8.
  test('is dead where the GET and a ping get 404', async () => {
    const { pool, lease } = await lost(404, ({ body }, response) =>
      json(response, body.method === 'ping' ? 404 : 200, reply(body.id)),
    );
    await turnsUntil(() => lease.session.dead);
    expect((await pool.lease(ADA, ANY)).session).not.toBe(lease.session);
  });

  // Rule sessions-8.
  test('is asked for with growing pauses while it is refused', async () => {
    const { clock, server } = await lost(405);
    for (const pauseMs of [1_500, 3_000, 6_000, 12_000, 24_000]) {
      await nextGetAfter(pauseMs, clock, server);
    }
  });
});

// Rule sessions-8.
describe('a standalone stream that the server opens and ends at once', () => {
  async function ending(write: (stream: ReturnType<typeof eventStream>) => void) {
    const ground = await poolStage({
      get: (_received, response) => {
        const stream = eventStream(response);
        write(stream);
        stream.end();
      },
    });
    const { clock, pool, server } = ground;
    await pool.lease(ADA, ANY);
    return (pauseMs: number) => nextGetAfter(pauseMs, clock, server);
  }

  test.each([
    ['does not say when', ''],
    ['wants it at once', 'retry: 1\n\n'],
  ])('is asked for with growing pauses, where the server %s', async (_what, retry) => {
    const getsAfter = await ending((stream) => retry !== '' && stream.raw(retry));
    for (const pauseMs of [750, 1_500, 3_000, 6_000, 12_000]) await getsAfter(pauseMs);
  });

  test('is asked for soon where an event came', async () => {
    const getsAfter = await ending((stream) => stream.raw('id: e1\ndata:\n\n'));
    for (let time = 0; time < 4; time += 1) await getsAfter(750);
  });

  test('is not asked for sooner than the server says', async () => {
    const getsAfter = await ending((stream) => stream.raw('retry: 5000\nid: e1\ndata:\n\n'));
    for (let time = 0; time < 3; time += 1) await getsAfter(5_000);
  });
});

describe('a standalone stream that is long in coming', () => {
  // Rule handshake-10 (2025-11-25 transports, "Listening for Messages from the Server"): The standalone stream is
  // opened before the first call, which waits for it for at most 2 s. A server without that stream is used without
  // it.
  test('is asked for once, and counts when it comes', async () => {
    const waiting: Parameters<Answer>[1][] = [];
    const { clock, pool, server } = await poolStage({
      get: (_received, response) => void waiting.push(response),
    });
    const leasing = pool.lease(ADA, ANY);
    await server.saw(({ method }) => method === 'GET');
    clock.advance(2_000);
    const { session } = await leasing;
    expect(session.standaloneStreamOpen).toBe(false);
    const again = session.openStandaloneStream({});
    for (const response of waiting) eventStream(response);
    await again;
    expect(session.standaloneStreamOpen).toBe(true);
    expect(server.received.filter(({ method }) => method === 'GET')).toHaveLength(1);
  });

  test('is no longer waited for when the session is closed', async () => {
    const closed = Promise.withResolvers<void>();
    const { clock, pool, server } = await poolStage({
      get: (_received, response) => void response.once('close', () => closed.resolve()),
    });
    const leasing = pool.lease(ADA, ANY);
    await server.saw(({ method }) => method === 'GET');
    clock.advance(2_000);
    const { session } = await leasing;
    const again = session.openStandaloneStream({});
    await session.close();
    await Promise.all([again, closed.promise]);
    expect(session.standaloneStreamOpen).toBe(false);
  });
});
