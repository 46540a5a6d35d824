/** Whom a session may serve: what must be the same of two callers, and what ends a session with its call. */
import { describe, expect, test } from 'vitest';
import { EMPTY_PROFILE } from '../../../../src/protocol/translate/client-profile.ts';
import { serverRequestId } from '../../../../src/protocol/ids.ts';
import type { SessionOwner } from '../../../../src/sessions/owner.ts';
import { ADA, poolStage, usedByACall, type Stage } from '../../../fixtures/servers/pool-testbed.ts';
import { eventStream } from '../../../fixtures/servers/scripted-server.ts';
import { call } from '../../../fixtures/servers/upstream-testbed.ts';

/** Everything by which a caller may differ from Ada, one thing at a time. */
const OTHERS: [string, Partial<SessionOwner>][] = [
  ['is somebody else', { principalKey: 'bob' }],
  ['has other credentials', { credentialsKey: 'other' }],
  ['declares other capabilities', { profile: EMPTY_PROFILE }],
  ['is another client', { clientInfo: { name: 'other', version: '1' } }],
];

/** The id of the session in which a call of this owner was served. */
async function served({ pool }: Stage, owner: SessionOwner): Promise<string> {
  const lease = await pool.lease(owner);
  const { heard } = call(lease.session);
  await heard.until('replied');
  const id = ['session-1', 'session-2', 'session-3'].find((name) => lease.session.reveals(name));
  lease.release(true);
  return String(id);
}

describe('the session of one call', () => {
  // Rule sessions-3: A call takes the session that was used last by the same caller, so that what the server
  // keeps in it stays warm. An idle session is kept for `sessions.idleTimeout` (5 minutes by default), and
  // `sessions.maxIdle` (8) of them for each caller; then it is ended.
  test('serves the next one of the same caller', async () => {
    const ground = await poolStage();
    expect([await served(ground, ADA), await served(ground, ADA)]).toEqual([
      'session-1',
      'session-1',
    ]);
    expect(ground.ended()).toEqual([]);
  });

  // Rule sessions-1 (basic, "Statelessness"): A session serves one principal, one set of declared
  // capabilities, one client (its `clientInfo`) and one set of credentials. Whoever differs in any of these
  // gets another one, for calls and for every other request.
  // Rule handshake-9.
  test.each(OTHERS)('does not serve a caller who %s', async (_title, other) => {
    const ground = await poolStage();
    expect(await served(ground, ADA)).toBe('session-1');
    expect(await served(ground, { ...ADA, ...other })).toBe('session-2');
    expect(await served(ground, ADA), 'and is kept for whose it is').toBe('session-1');
  });

  // Rule sessions-1.
  test.each(OTHERS)('nor a request without questions of a caller who %s', async (_title, other) => {
    const ground = await poolStage();
    await usedByACall(ground);
    const own = await ground.pool.borrow(ADA);
    const theirs = await ground.pool.borrow({ ...ADA, ...other });
    expect(own.session.reveals('session-1')).toBe(true);
    expect(theirs.session).not.toBe(own.session);
  });

  // Rule sessions-4 (2025-11-25 security best practices, "Session Hijacking"): Callers without a name all
  // look alike. Unless `sessions.scope` says otherwise each of their calls has a session of its own, which
  // ends with the call.
  test('ends with the call where callers have no name, since all of them look alike', async () => {
    const ground = await poolStage();
    const nobody = { ...ADA, principalKey: '', anonymous: true };
    expect([await served(ground, nobody), await served(ground, nobody)]).toEqual([
      'session-1',
      'session-2',
    ]);
    await ground.server.saw(
      ({ method, headers }) => method === 'DELETE' && headers['mcp-session-id'] === 'session-1',
    );
  });

  // Rule sessions-6: A session in which the server may still be at work (its call was cancelled, lost, or ran
  // out of time) is ended and not used again.
  test('ends with it when the server may still be at work', async () => {
    const { pool, server, opened } = await poolStage();
    const lease = await pool.lease(ADA);
    lease.release(false);
    await server.saw(({ method }) => method === 'DELETE');
    expect((await pool.lease(ADA)).session).not.toBe(lease.session);
    expect(opened()).toHaveLength(2);
  });

  // Rule sessions-3.
  test('ends with it when enough are kept', async () => {
    const { pool, server, ended } = await poolStage({}, { maxIdle: 1 });
    const [one, other] = [await pool.lease(ADA), await pool.lease(ADA)];
    one.release(true);
    other.release(true);
    await server.saw(({ method }) => method === 'DELETE');
    expect(ended()).toEqual(['session-2']);
    expect(pool.size).toBe(1);
  });

  // Rule sessions-5: `sessions.scope: shared` lets everybody use the sessions of everybody, as long as
  // credentials, capabilities and `clientInfo` are the same.
  test('where it is shared serves everybody with the same credentials and capabilities', async () => {
    const ground = await poolStage({}, { scope: 'shared' });
    expect(await served(ground, ADA)).toBe('session-1');
    const nobody = { ...ADA, principalKey: '', anonymous: true };
    expect(await served(ground, nobody)).toBe('session-1');
    expect(await served(ground, { ...ADA, credentialsKey: 'other' })).toBe('session-2');
    expect(await served(ground, { ...ADA, profile: EMPTY_PROFILE })).toBe('session-3');
  });
});

describe('calls of one caller', () => {
  // Rule sessions-2: One call at a time is carried by a session, from its first leg to its last, the time
  // that it waits for its client included. More calls of the same caller get more sessions; only
  // `limits.maxRunningCalls` and `limits.maxParkedCalls` bound their number.
  test('that run at the same time have a session each', async () => {
    const { pool, opened } = await poolStage();
    const leases = await Promise.all([pool.lease(ADA), pool.lease(ADA), pool.lease(ADA)]);
    expect(new Set(leases.map(({ session }) => session)).size).toBe(3);
    expect(opened()).toHaveLength(3);
  });

  // Rule sessions-3.
  test('find the session that was used last, so that it stays warm', async () => {
    const { pool } = await poolStage();
    const [one, other] = [await pool.lease(ADA), await pool.lease(ADA)];
    other.release(true);
    one.release(true);
    expect((await pool.lease(ADA)).session).toBe(one.session);
    expect((await pool.lease(ADA)).session).toBe(other.session);
  });

  // Rule sessions-2.
  test('do not get the session of one that waits for its client', async () => {
    const ground = await poolStage({
      request: (_received, response) =>
        eventStream(response).send({ jsonrpc: '2.0', id: 'q', method: 'roots/list' }),
    });
    const parked = await ground.pool.lease(ADA);
    const { heard, exchange } = call(parked.session);
    await heard.until('asked');
    const next = await ground.pool.lease(ADA);
    expect(next.session).not.toBe(parked.session);
    await exchange.respond(serverRequestId('q'), { result: { roots: [] } }, {});
    const answer = await ground.server.saw(({ body }) => body?.id === 'q');
    expect(answer.headers['mcp-session-id']).toBe('session-1');
  });
});
