/** Whom a session may serve: what must be the same of two callers, and what ends a session with its call. */
import { describe, expect, test } from 'vitest';
import { EMPTY_PROFILE } from '../../../../src/protocol/translate/client-profile.ts';
import { serverRequestId } from '../../../../src/protocol/ids.ts';
import type { SessionOwner } from '../../../../src/sessions/session-owner.ts';
import {
  ADA,
  ANY,
  NOBODY,
  poolStage,
  usedByACall,
  type Stage,
} from '../../../fixtures/servers/pool-testbed.ts';
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
  const lease = await pool.lease(owner, ANY);
  const { heard } = call(lease.session);
  await heard.until('replied');
  const id = ['session-1', 'session-2', 'session-3'].find((name) => lease.session.reveals(name));
  lease.giveBack(true);
  return String(id);
}

describe('the session of one call', () => {
  // Rule sessions-3: With `sessions.concurrency: separate` a session carries one call at a time, a parked one
  // included.
  test('serves the next one of the same caller', async () => {
    const ground = await poolStage();
    expect([await served(ground, ADA), await served(ground, ADA)]).toEqual([
      'session-1',
      'session-1',
    ]);
    expect(ground.ended()).toEqual([]);
  });

  // Rule sessions-1 (basic, "Statelessness"): A session serves one principal, set of capabilities, `clientInfo` and
  // `sessions.key` and, without `identity`, one set of credentials.
  // Rule handshake-8.
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

  // Rule sessions-4 (2025-11-25 security best practices, "Session Hijacking"): Each call of a caller without a name
  // has a session of its own, unless `sessions.scope` says otherwise.
  test('ends with the call where callers have no name, since all of them look alike', async () => {
    const ground = await poolStage();
    expect([await served(ground, NOBODY), await served(ground, NOBODY)]).toEqual([
      'session-1',
      'session-2',
    ]);
    await ground.server.saw(
      ({ method, headers }) => method === 'DELETE' && headers['mcp-session-id'] === 'session-1',
    );
  });

  // Rule sessions-6: The session of a single call is not used again if the server can still be at work. A home goes
  // on.
  test('ends with it when the server may still be at work', async () => {
    const { pool, server, opened } = await poolStage();
    const lease = await pool.lease(ADA, ANY);
    lease.giveBack(false);
    await server.saw(({ method }) => method === 'DELETE');
    expect((await pool.lease(ADA, ANY)).session).not.toBe(lease.session);
    expect(opened()).toHaveLength(2);
  });

  // Rule sessions-5: `sessions.scope: shared` lets callers with the same credentials, capabilities, `clientInfo` and
  // conversation share sessions.
  test('where it is shared serves everybody with the same credentials and capabilities', async () => {
    const ground = await poolStage({}, { scope: 'shared' });
    expect(await served(ground, ADA)).toBe('session-1');
    expect(await served(ground, NOBODY)).toBe('session-1');
    expect(await served(ground, { ...ADA, credentialsKey: 'other' })).toBe('session-2');
    expect(await served(ground, { ...ADA, profile: EMPTY_PROFILE })).toBe('session-3');
  });
});

describe('calls of one caller', () => {
  // Rule sessions-3.
  test('that run at the same time have a session each', async () => {
    const { pool, opened } = await poolStage();
    const leases = await Promise.all([
      pool.lease(ADA, ANY),
      pool.lease(ADA, ANY),
      pool.lease(ADA, ANY),
    ]);
    expect(new Set(leases.map(({ session }) => session)).size).toBe(3);
    expect(opened()).toHaveLength(3);
  });

  // Rule sessions-3.
  test('find the session that was used last, so that it stays warm', async () => {
    const { pool } = await poolStage();
    const [one, other] = [await pool.lease(ADA, ANY), await pool.lease(ADA, ANY)];
    other.giveBack(true);
    one.giveBack(true);
    expect((await pool.lease(ADA, ANY)).session).toBe(one.session);
    expect((await pool.lease(ADA, ANY)).session).toBe(other.session);
  });

  // Rule sessions-3.
  test('do not get the session of one that waits for its client', async () => {
    const ground = await poolStage({
      request: (_received, response) =>
        eventStream(response).send({ jsonrpc: '2.0', id: 'q', method: 'roots/list' }),
    });
    const parked = await ground.pool.lease(ADA, ANY);
    const { heard, exchange } = call(parked.session);
    await heard.until('asked');
    const next = await ground.pool.lease(ADA, ANY);
    expect(next.session).not.toBe(parked.session);
    await exchange.respond(serverRequestId('q'), { result: { roots: [] } }, {});
    const answer = await ground.server.saw(({ body }) => body?.id === 'q');
    expect(answer.headers['mcp-session-id']).toBe('session-1');
  });
});
