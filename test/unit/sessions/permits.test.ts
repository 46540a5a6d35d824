import { beforeEach, expect, test } from 'vitest';
import { LocalCounts } from '../../../src/lib/counts.ts';
import { Permits, type Permit } from '../../../src/sessions/permits.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';

const WAIT_MS = 10_000;

let clock: ManualClock;
let permits: Permits;
let ended: string[];

beforeEach(() => {
  clock = new ManualClock();
  ended = [];
  const queue = { length: 2, waitMs: WAIT_MS };
  permits = new Permits(
    { max: 3, maxPerPrincipal: 2, queue, name: 'mcp' },
    new LocalCounts(),
    clock,
  );
});

/** Marks the session as idle. Its end takes until `free`. */
function idle(permit: Permit, name: string): void {
  permit.idle(() => ended.push(name));
}

const settle = () => new Promise<void>((resolve) => setImmediate(resolve));

/** Takes a permit, and tells whether it was given. */
function taking(principal: string | null) {
  const state: { permit: Permit | null; failure: unknown } = { permit: null, failure: null };
  permits.take(principal).then(
    (permit) => (state.permit = permit),
    (failure: unknown) => (state.failure = failure),
  );
  return state;
}

// Rule sessions-13: Beyond `sessions.max` or `sessions.maxPerPrincipal` the longest idle session ends. If none is
// idle, the call waits as in `sessions.queue`.
test('the session that was idle for the longest time makes room', async () => {
  const [a, b, c] = [
    await permits.take('ada'),
    await permits.take('bob'),
    await permits.take('eve'),
  ];
  idle(b, 'b');
  idle(a, 'a');
  idle(c, 'c');
  b.used();
  idle(b, 'b');
  const next = taking('dan');
  await settle();
  expect(ended).toEqual(['a']);
  expect(next.permit).toBeNull();
  a.free();
  await settle();
  expect(next.permit).not.toBeNull();
  expect(ended).toEqual(['a']);
  expect(permits.size).toBe(3);
});

test('no queue is too short for those for whom an idle session makes room', async () => {
  for (const name of ['a', 'b', 'c']) idle(await permits.take(null), name);
  const next = [1, 2, 3, 4, 5, 6].map(() => taking(null));
  await settle();
  expect(ended).toEqual(['a', 'b', 'c']);
  const busy = expect.objectContaining({ code: 'upstream_busy' });
  expect(next.map(({ failure }) => failure)).toEqual([null, null, null, null, null, busy]);
});

test('a principal at its limit ends one of its own', async () => {
  const [a, b] = [await permits.take('ada'), await permits.take('ada')];
  idle(await permits.take('bob'), 'bob');
  idle(b, 'b');
  const next = taking('ada');
  expect(ended).toEqual(['b']);
  b.free();
  await settle();
  expect(next.permit).not.toBeNull();
  a.free();
});

test('who finds none idle waits for a while, or for the first that becomes idle', async () => {
  const [a] = [await permits.take(null), await permits.take(null), await permits.take(null)];
  const [one, other, refused] = [taking(null), taking(null), taking(null)];
  await settle();
  expect(refused.failure).toMatchObject({ code: 'upstream_busy' });
  idle(a, 'a');
  expect(ended).toEqual(['a']);
  a.free();
  await settle();
  expect(one.permit).not.toBeNull();
  clock.advance(WAIT_MS);
  await settle();
  expect(other.failure).toMatchObject({ code: 'upstream_busy', details: { mayHaveActed: false } });
  expect(clock.pending).toBe(0);
});

test('who waits for room of its own holds up nobody else', async () => {
  await permits.take('ada');
  await permits.take('ada');
  const waiting = taking('ada');
  const bob = taking('bob');
  await settle();
  expect(bob.permit).not.toBeNull();
  expect(waiting.permit).toBeNull();
});
