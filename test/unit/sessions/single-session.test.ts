import { expect, test } from 'vitest';
import { SingleSession } from '../../../src/sessions/single-session.ts';
import type { Permit } from '../../../src/sessions/permits.ts';
import type { Session } from '../../../src/upstream/session/session.ts';
import { settled } from '../../fixtures/calls-testbed.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';

const MAX_WAITING = 2;
const WAIT_MS = 60_000;

/** A queue for one session, and how often a session was opened. */
function queue() {
  let opened = 0;
  const clock = new ManualClock();
  const single = new SingleSession(
    { idleTimeoutMs: 60_000, queue: { length: MAX_WAITING, waitMs: WAIT_MS } },
    clock,
  );
  const session = { dead: false, ready: async () => true, close: async () => {} };
  let makeRoom: (() => void) | null = null;
  const permit: Permit = {
    idle: (end) => void (makeRoom = end),
    used: () => void (makeRoom = null),
    free: () => {},
  };
  const take = (key: string, isWanted = () => true, before = async () => {}) => {
    const open = async () => {
      opened += 1;
      return { session: session as unknown as Session, permit };
    };
    return single.lease({ key, headers: {}, open }, before, isWanted);
  };
  return { take, clock, opened: () => opened, makeRoom: () => makeRoom };
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

test('a call waits for a server that broadcasts as long as for any queue, and the next one has its place', async () => {
  const { take, clock } = queue();
  const running = await take('ada');
  const late = take('bob');
  clock.advance(WAIT_MS - 1);
  const next = take('ada');
  clock.advance(1);
  await expect(late).rejects.toMatchObject({
    code: 'upstream_busy',
    message: expect.stringContaining(`did not end within ${WAIT_MS} ms`),
    details: { mayHaveActed: false },
  });
  running.end(true);
  // It has its turn, so its wait is over.
  clock.advance(WAIT_MS);
  (await next).end(true);
});

// Rule mixed-sessions-4.
test('a call waits for the calls of before a server was seen to broadcast as long as for any queue', async () => {
  const { take, clock, opened } = queue();
  const parked = Promise.withResolvers<void>();
  const before = () => parked.promise;
  const first = take('ada', undefined, before);
  await settled();
  clock.advance(WAIT_MS - 1);
  const second = take('bob', undefined, before);
  clock.advance(1);
  await expect(first).rejects.toMatchObject({ code: 'upstream_busy' });
  parked.resolve();
  (await second).end(true);
  expect(opened()).toBe(1);
});

// Rule mixed-sessions-4.
test('a call whose client leaves while it waits for the calls of before gets no session', async () => {
  const { take, opened } = queue();
  const parked = Promise.withResolvers<void>();
  let isThere = true;
  const left = take(
    'ada',
    () => isThere,
    () => parked.promise,
  );
  isThere = false;
  parked.resolve();
  await expect(left).rejects.toMatchObject({ code: 'upstream_busy' });
  expect(opened()).toBe(0);
});

// Rule sessions-13.
test('the session of a server that broadcasts makes room while nobody uses it', async () => {
  const { take, opened, makeRoom } = queue();
  const running = await take('ada');
  expect(makeRoom()).toBeNull();
  running.end(true);
  makeRoom()?.();
  await take('ada');
  expect([opened(), makeRoom()]).toEqual([2, null]);
});
