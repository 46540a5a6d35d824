import { expect, test } from 'vitest';
import { SingleSession } from '../../../src/sessions/single-session.ts';
import type { Session } from '../../../src/upstream/session/session.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';

const MAX_WAITING = 2;

/** A queue for one session, and how often a session was opened. */
function queue() {
  let opened = 0;
  const single = new SingleSession(
    { idleTimeoutMs: 60_000, maxWaiting: MAX_WAITING },
    new ManualClock(),
  );
  const session = { dead: false, ready: async () => true, close: async () => {} };
  const take = (key: string, isWanted = () => true) => {
    const open = async () => {
      opened += 1;
      return session as unknown as Session;
    };
    return single.lease({ key, headers: {}, open }, async () => {}, isWanted);
  };
  return { take, opened: () => opened };
}

test('a call that waits for a server that broadcasts leaves its place to others when its client left', async () => {
  const { take } = queue();
  const running = await take('ada');
  let isThere = true;
  const left = take('bob', () => isThere);
  const waiting = take('ada');
  await expect(take('ada')).rejects.toMatchObject({ code: 'upstream_busy' });
  isThere = false;
  const next = take('ada');
  await expect(left).rejects.toMatchObject({ code: 'upstream_busy' });
  running.end(true);
  (await waiting).end(true);
  await expect(next).resolves.toBeDefined();
});

test('no session is opened for a call whose client left before its turn', async () => {
  const { take, opened } = queue();
  const running = await take('ada');
  let isThere = true;
  const left = take('bob', () => isThere);
  const waiting = take('ada');
  isThere = false;
  running.end(true);
  await expect(left).rejects.toMatchObject({ code: 'upstream_busy' });
  await waiting;
  expect(opened()).toBe(1);
});
