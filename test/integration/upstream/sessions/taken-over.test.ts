/** Calls that are continued at the same time in a session that the process before had opened for their caller. */
import { expect, test, vi } from 'vitest';
import { sessionId } from '../../../../src/protocol/ids.ts';
import { SessionPool } from '../../../../src/sessions/session-pool.ts';
import type { HomePlacement } from '../../../../src/sessions/placement.ts';
import { UpstreamFailure } from '../../../../src/upstream/failure.ts';
import { turnsUntil } from '../../../fixtures/manual-clock.ts';
import {
  ADA,
  ANY,
  IDLE_MS,
  poolStage,
  POOL_OPTIONS,
} from '../../../fixtures/servers/pool-testbed.ts';
import { closeAfterTest, upstreamOf } from '../../../fixtures/servers/upstream-testbed.ts';

const POINT = { sessionId: sessionId('session-before'), revision: '2025-11-25' } as const;

/** The pool of a process that has just started: it has yet to find out what the server speaks. */
async function freshPool() {
  const { server, clock, ended } = await poolStage();
  const upstream = upstreamOf(server, {}, clock);
  const pool = new SessionPool(upstream, { ...POOL_OPTIONS, concurrency: 'auto' }, clock);
  closeAfterTest(() => pool.close());
  return { pool, upstream, ended, adopt: () => pool.adopt(ADA, POINT, ANY) };
}

// Rule sessions-2.
test('they share it, and the first one that ends does not end it for the others', async () => {
  const { pool, ended, adopt } = await freshPool();
  const [first, second] = await Promise.all([adopt(), adopt()]);
  second.giveBack(true);
  expect(pool.size).toBe(1);
  first.giveBack(true);
  const next = await pool.lease(ADA, ANY);
  expect(next.session.id).toBe(POINT.sessionId);
  next.giveBack(true);
  await pool.close();
  await turnsUntil(() => ended().includes(POINT.sessionId));
});

test('one whose credentials are good gets it, although those of another one were refused', async () => {
  const { upstream, adopt } = await freshPool();
  const refused = new UpstreamFailure('unauthorized', 'expired', { mayHaveActed: false });
  vi.spyOn(upstream, 'adoptSession').mockRejectedValueOnce(refused);
  const [first, second] = await Promise.allSettled([adopt(), adopt()]);
  expect(first).toMatchObject({ status: 'rejected', reason: refused });
  expect(second).toMatchObject({ status: 'fulfilled' });
});

// Rule sessions-20.
test('the state of a session is still known when a call that was left in it has been cancelled', async () => {
  const replaced: string[] = [];
  const { pool } = await poolStage(
    {},
    { concurrency: 'auto', max: 1, onReplaced: (reason) => replaced.push(reason) },
  );
  const served = await pool.lease(ADA, ANY);
  served.giveBack(true);
  const left = await pool.lease(ADA, ANY);
  const point = { sessionId: left.session.id ?? sessionId(''), revision: '2025-11-25' } as const;
  left.leave();
  const resumed = await pool.adopt(ADA, point, ANY);
  resumed.giveBack(false);
  const other = await pool.lease({ ...ADA, principalKey: 'bob' }, ANY);
  expect(replaced).toEqual(['needed']);
  other.giveBack(true);
});

// Rule sessions-16.
test('a session that is ended is not left to the next process', async () => {
  const { server, clock, ended } = await poolStage();
  const left: boolean[] = [];
  let isHere = false;
  const placed: Partial<HomePlacement> = {
    claim: async () => {
      isHere = true;
      return { type: 'here', session: POINT };
    },
    isHere: () => isHere,
    giveUp: (_key, isSessionLeft) => void left.push(isSessionLeft),
    keep: () => {},
    onLost: () => {},
    close: () => {},
  };
  const options = { concurrency: 'auto', placement: placed as HomePlacement } as const;
  const pool = new SessionPool(
    upstreamOf(server, {}, clock),
    { ...POOL_OPTIONS, ...options },
    clock,
  );
  closeAfterTest(() => pool.close());
  const resumed = await pool.adopt(ADA, POINT, ANY);
  resumed.giveBack(true);
  clock.advance(IDLE_MS);
  await turnsUntil(() => left.length > 0);
  await turnsUntil(() => ended().includes(POINT.sessionId));
  expect(left).toEqual([false]);
});

test('what fails for another reason fails for all who wait for it', async () => {
  const { upstream, adopt } = await freshPool();
  const failed = new UpstreamFailure('upstream_timeout', 'late', { mayHaveActed: false });
  const adoption = vi.spyOn(upstream, 'adoptSession').mockRejectedValue(failed);
  const adopted = await Promise.allSettled([adopt(), adopt(), adopt()]);
  expect(adopted.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
  expect(adoption).toHaveBeenCalledTimes(1);
});
