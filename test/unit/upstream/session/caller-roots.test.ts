/** When a server is told of roots, and for how long it can look at them before it gets the call. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { CallerRoots, type RootsHabit } from '../../../../src/upstream/session/caller-roots.ts';
import { UpstreamFailure } from '../../../../src/model/upstream-failure.ts';
import { ManualClock } from '../../../fixtures/manual-clock.ts';

const ROOTS = { result: { roots: [{ uri: 'file:///home/ada' }] } };
const NONE = { result: { roots: [] } };
const ERROR = { error: { code: -32603, message: 'no' } };

function stage({ notify = async () => {}, habit = { isIndifferent: false } as RootsHabit } = {}) {
  const clock = new ManualClock();
  const notices: string[] = [];
  const transport = {
    hasSession: true,
    notify: (method: string) => {
      notices.push(method);
      return notify();
    },
  };
  const host = { clock, transport, headers: {}, noted: (failure: UpstreamFailure) => failure };
  const roots = new CallerRoots(host, habit);
  /** Moves the clock from timer to timer until the server has had its time. @returns how long that took, in ms */
  const told = async (answer: Parameters<CallerRoots['tell']>[0], onNotice = () => {}) => {
    const sinceMs = clock.elapsed();
    let isOver = false;
    const telling = roots.tell(answer).finally(() => (isOver = true));
    await nextTurn();
    onNotice();
    while (!isOver) {
      clock.advance(10);
      await nextTurn();
    }
    await telling;
    return clock.elapsed() - sinceMs;
  };
  return { clock, roots, habit, notices, told };
}

// Rule roots-4.
test('a server that asks when it is told gets the answer, and then a moment for it', async () => {
  const { roots, notices, told } = stage();
  expect(roots.areWanted).toBe(true);
  const tookMs = await told(ROOTS, () => expect(roots.reply()).toBe(ROOTS));
  expect(notices).toEqual(['notifications/roots/list_changed']);
  expect(tookMs).toBeLessThan(1_000);
  expect(roots.areWanted).toBe(false);
});

// Rule roots-9: A server that does not ask for its roots within 1 s gets its call.
test('a server that does not ask gets its call, and no other client is asked for it', async () => {
  const { roots, habit, told } = stage();
  expect(await told(ROOTS)).toBeGreaterThanOrEqual(1_000);
  const later = stage({ habit });
  expect(later.roots.areWanted).toBe(false);
  roots.reply();
  expect(later.roots.areWanted).toBe(true);
});

// Rule roots-2.
test.each([NONE, ERROR])(
  'a server is not told of %j, and hears of it if it asks',
  async (answer) => {
    const { roots, notices, habit, told } = stage();
    expect(roots.reply()).toBeNull();
    expect(await told(answer)).toBeLessThan(100);
    expect(notices).toEqual([]);
    expect(roots.reply()).toBe(answer);
    expect(habit.isIndifferent).toBe(false);
  },
);

test('the first answer counts, and who brings another one waits for the first to be told', async () => {
  const { roots, told } = stage();
  const first = told(ROOTS);
  await Promise.all([first, roots.tell(NONE), roots.tell(null)]);
  expect(roots.reply()).toBe(ROOTS);
});

test('a notice that the server does not take fails the call before it is sent, and the next one tells it again', async () => {
  const gone = new UpstreamFailure('session_gone', 'gone', { mayHaveActed: false });
  const { roots } = stage({ notify: () => Promise.reject(gone) });
  await expect(roots.tell(ROOTS)).rejects.toBe(gone);
  expect(roots.areWanted).toBe(true);
});
