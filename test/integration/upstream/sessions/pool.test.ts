/** Sessions that are kept: who gets them, when they go, and that nobody who uses one is cut off. */
import { describe, expect, test } from 'vitest';
import {
  ADA,
  ANY,
  NOBODY,
  IDLE_MS,
  poolStage,
  usedByACall,
} from '../../../fixtures/servers/pool-testbed.ts';
import { eventStream, json, type Answer } from '../../../fixtures/servers/scripted-server.ts';
import { call } from '../../../fixtures/servers/upstream-testbed.ts';
import { turnsUntil } from '../../../fixtures/manual-clock.ts';

const isDelete = ({ method }: { readonly method: string }) => method === 'DELETE';

describe('a session that requests use', () => {
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

  // Rule sessions-7: Requests that may not ask anything use the home of the caller. Callers without one share a
  // session for them, or use an idle one of calls, which is not ended, and not given to a call, while they use it. 256
  // such sessions are kept for a route; beyond that the one used longest ago goes, unless it is in use.
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
    expect({ size: pool.size, timers: clock.pending }).toEqual({ size: 0, timers: 0 });
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

describe('a session whose standalone stream was lost', () => {
  /** A server that gives the stream, ends it, and then refuses it for as long as the test says. */
  async function lost(refusal: number) {
    let stream: ReturnType<typeof eventStream> | undefined;
    let refuse = false;
    const ground = await poolStage({
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
    clock.advance(500);
    await turnsUntil(() => !lease.session.standaloneStreamOpen);
    lease.giveBack(true);
    return { ...ground, lease, server, relent: () => (refuse = false) };
  }

  // Rule sessions-8 (2025-11-25 transports, "Listening for Messages from the Server"): A session whose
  // standalone stream was lost gets it back before the next call; where that cannot be, the call gets another
  // session.
  test('gets it back before the next call', async () => {
    const { pool, lease, relent } = await lost(400);
    relent();
    const next = await pool.lease(ADA, ANY);
    expect(next.session).toBe(lease.session);
    expect(next.session.standaloneStreamOpen).toBe(true);
  });

  // Rule sessions-8.
  test('is replaced where that cannot be', async () => {
    const { pool, lease, opened } = await lost(400);
    const next = await pool.lease(ADA, ANY);
    expect(next.session).not.toBe(lease.session);
    expect(opened()).toHaveLength(2);
  });

  test('is dead where the server says that it does not know it', async () => {
    const { pool, lease } = await lost(404);
    expect(lease.session.dead).toBe(true);
    expect((await pool.lease(ADA, ANY)).session).not.toBe(lease.session);
  });
});

describe('a standalone stream that is long in coming', () => {
  // Rule handshake-10 (2025-11-25 transports, "Listening for Messages from the Server"): After
  // `notifications/initialized` the standalone GET stream is opened, and its head is awaited for 2 seconds at most,
  // before the first call is sent: many servers drop a question for which there is no stream. A server that refuses
  // the stream is used without it, and so is one that is silent until it responds (handshake-16). A client that
  // declares nothing has the stream, too, so that a server that asks there nevertheless gets a refusal.
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
