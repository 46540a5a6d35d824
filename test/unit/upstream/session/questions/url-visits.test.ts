import { describe, expect, test } from 'vitest';
import { UrlVisits } from '../../../../../src/upstream/session/questions/url-visits.ts';
import { ManualClock } from '../../../../fixtures/manual-clock.ts';

const WAIT_MS = 10_000;

function ground() {
  const clock = new ManualClock();
  const visits = new UrlVisits();
  const never = new AbortController().signal;
  /** Whether the wait is over without its time being over. */
  const isOver = async (...ids: string[]) => {
    const waiting = visits.all(ids, clock, WAIT_MS, never).then(() => true);
    return Promise.race([waiting, new Promise<boolean>((over) => setImmediate(over, false))]);
  };
  const completeOthers = (count: number) => {
    for (let number = 0; number < count; number += 1) visits.completed(`other-${number}`);
  };
  return { clock, visits, never, isOver, completeOthers };
}

describe('the wait for visits is over', () => {
  test('at once when the server had said so before', async () => {
    const { clock, visits, isOver } = ground();
    visits.completed('a');
    visits.completed('b');
    expect(await isOver('a', 'b')).toBe(true);
    expect(clock.pending).toBe(0);
    expect(await isOver('a', 'c')).toBe(false);
  });

  test('when the server says so of the last one, whatever else it says meanwhile', async () => {
    const { clock, visits, never, completeOthers } = ground();
    visits.completed('a');
    let isOver = false;
    const waiting = visits.all(['a', 'b', 'c', 'b'], clock, WAIT_MS, never);
    void waiting.then(() => (isOver = true));
    visits.completed('b');
    completeOthers(10_000);
    await new Promise(setImmediate);
    expect(isOver).toBe(false);
    visits.completed('c');
    await waiting;
    expect(clock.pending).toBe(0);
  });

  test('when its time is over', async () => {
    const { clock, visits, never } = ground();
    const waiting = visits.all(['a'], clock, WAIT_MS, never);
    clock.advance(WAIT_MS);
    await expect(waiting).resolves.toBeUndefined();
  });

  test('when the session ends', async () => {
    const { clock, visits } = ground();
    const ending = new AbortController();
    const waiting = visits.all(['a'], clock, WAIT_MS, ending.signal);
    ending.abort();
    await expect(waiting).resolves.toBeUndefined();
    expect(clock.pending).toBe(0);
  });
});

test('visits that nobody waited for are forgotten when enough others were told of', async () => {
  const { visits, isOver, completeOthers } = ground();
  visits.completed('a');
  completeOthers(50);
  expect(await isOver('a')).toBe(true);
  completeOthers(10_000);
  expect(await isOver('a')).toBe(false);
});
