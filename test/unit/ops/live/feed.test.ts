import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { LiveFeed, type Viewer } from '../../../../src/ops/live/feed.ts';
import { sumParts, type LiveSnapshot } from '../../../../src/ops/live/snapshot.ts';
import { ManualClock } from '../../../fixtures/manual-clock.ts';

function feed(take?: () => Promise<LiveSnapshot>) {
  const clock = new ManualClock();
  let taken = 0;
  const snapshot = async () => {
    taken += 1;
    return sumParts([], [], { version: '1', atMs: clock.now(), actions: [] });
  };
  return { clock, feed: new LiveFeed(take ?? snapshot, clock), taken: () => taken };
}

/** Lets seconds pass, with time for what each tick does. */
async function pass(clock: ManualClock, seconds: number): Promise<void> {
  await nextTurn();
  for (let second = 0; second < seconds; second += 1) {
    clock.advance(1_000);
    await nextTurn();
  }
}

class Seen implements Viewer {
  readonly shown: string[] = [];
  isEnded = false;
  show(json: string): void {
    this.shown.push(json);
  }
  end(): void {
    this.isEnded = true;
  }
}

test('the feed takes one snapshot in each second for all viewers, and none without one', async () => {
  const { clock, feed: live, taken } = feed();
  await pass(clock, 10);
  expect(taken()).toBe(0);
  const [first, second] = [new Seen(), new Seen()];
  const stops = [live.watch(first), live.watch(second)];
  await pass(clock, 3);
  expect(taken()).toBe(4);
  expect(first.shown).toHaveLength(4);
  expect(second.shown).toEqual(first.shown);
  for (const stop of stops) stop?.();
  await pass(clock, 10);
  expect([taken(), clock.pending]).toEqual([4, 0]);
});

test('requests at the same time share a snapshot', async () => {
  const { clock, feed: live, taken } = feed();
  const [one, other] = await Promise.all([live.current(), live.current()]);
  expect(one).toBe(other);
  await pass(clock, 1);
  await live.current();
  expect(taken()).toBe(2);
});

test('20 viewers are the most, and all end when it closes', async () => {
  const { clock, feed: live } = feed();
  const viewers = Array.from({ length: 20 }, () => new Seen());
  for (const viewer of viewers) expect(live.watch(viewer)).not.toBeNull();
  expect(live.watch(new Seen())).toBeNull();
  live.close();
  expect(viewers.every(({ isEnded }) => isEnded)).toBe(true);
  expect(live.watch(new Seen())).toBeNull();
  await pass(clock, 5);
  expect(clock.pending).toBe(0);
});

test('the feed goes on after a snapshot that failed', async () => {
  let fails = true;
  const { clock, feed: live } = feed(async () => {
    if (fails) throw new Error('no');
    return sumParts([], [], { version: '1', atMs: 0, actions: [] });
  });
  const viewer = new Seen();
  live.watch(viewer);
  await pass(clock, 1);
  expect(viewer.shown).toEqual([]);
  fails = false;
  await pass(clock, 1);
  expect(viewer.shown).toHaveLength(1);
});
