/** The record of a task on its way to a store that is unreachable for a while. */
import { describe, expect, test } from 'vitest';
import { DirectoryUnavailable } from '../../../src/model/directory.ts';
import { taskKey } from '../../../src/protocol/ids.ts';
import type { TaskRecord } from '../../../src/tasks/record.ts';
import type { TaskStore } from '../../../src/tasks/store.ts';
import { TaskSaver } from '../../../src/tasks/task-saver.ts';
import { settled } from '../../fixtures/calls-testbed.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';

/** @param endElsewhere what another replica has kept meanwhile */
function testbed(endElsewhere: Partial<TaskRecord> | null) {
  const clock = new ManualClock();
  const gone = new AbortController();
  const kept: unknown[] = [];
  const state = { isAway: true, isOurs: true, isTakenOver: false, ends: 0 };
  const looked = Promise.withResolvers<void>();
  const store: Partial<TaskStore> = {
    keep: async (_key, record) => {
      if (state.isAway) throw new DirectoryUnavailable('timeout', 'away');
      kept.push({ ...record });
    },
    find: async () => {
      await looked.promise;
      return endElsewhere as TaskRecord | null;
    },
  };
  const nowMs = clock.now();
  const record = { state: { status: 'working' }, createdAtMs: nowMs, ttlMs: 60_000 } as TaskRecord;
  const saver = new TaskSaver({
    ...{ key: taskKey('task:1'), store: store as TaskStore, clock },
    record: () => record,
    gone: gone.signal,
    claim: async () => state.isOurs,
    isTakenOver: () => state.isTakenOver,
    onOver: () => (state.ends += 1),
  });
  const whileAway = async () => {
    saver.save();
    await settled();
    state.isAway = false;
    clock.advance(1_000);
    await settled();
  };
  return { saver, clock, gone, kept, state, looked, record, whileAway };
}

// Rule shared-8.
test('is kept when the store is back', async () => {
  const { saver, kept, looked, record, whileAway } = testbed(null);
  await whileAway();
  looked.resolve();
  await saver.saving;
  expect(kept).toEqual([record]);
});

// Rule shared-15.
test('does not replace an end that another replica has kept', async () => {
  const { saver, kept, state, looked, whileAway } = testbed({ state: { status: 'cancelled' } });
  await whileAway();
  looked.resolve();
  await saver.saving;
  expect([kept, state.ends]).toEqual([[], 1]);
});

// Rule shared-16.
test('is not kept once the task is gone from here', async () => {
  const { saver, gone, kept, looked, whileAway } = testbed(null);
  await whileAway();
  gone.abort();
  looked.resolve();
  await saver.saving;
  expect(kept).toEqual([]);
});

// Rule shared-8.
test('is kept as it is now, also if it changes just when the one before is kept', async () => {
  for (let turns = 0; turns < 20; turns += 1) {
    const { saver, kept, state, record } = testbed(null);
    state.isAway = false;
    saver.save();
    for (let turn = 0; turn < turns; turn += 1) await Promise.resolve();
    Object.assign(record, { statusMessage: 'half done' });
    saver.save();
    await settled();
    expect([turns, kept.at(-1)]).toEqual([turns, record]);
  }
});

// Rule shared-14.
test('does not replace what the replica keeps that has taken the task over', async () => {
  const { saver, kept, state, looked, whileAway } = testbed(null);
  state.isOurs = false;
  await whileAway();
  looked.resolve();
  await saver.saving;
  expect([kept, state.ends]).toEqual([[], 1]);
});

// Rule shared-15.
test('is kept if the task has ended here, whoever has taken it over', async () => {
  const { saver, kept, state, looked, record, whileAway } = testbed(null);
  state.isOurs = false;
  Object.assign(record, { state: { status: 'cancelled' } });
  await whileAway();
  looked.resolve();
  await saver.saving;
  expect([kept, state.ends]).toEqual([[record], 1]);
});

// Rule shared-15.
test('does not replace an end of the replica that had the task before, which was taken for dead', async () => {
  const { saver, kept, state, looked } = testbed({ state: { status: 'cancelled' } });
  Object.assign(state, { isAway: false, isTakenOver: true });
  looked.resolve();
  saver.save();
  await saver.saving;
  expect([kept, state.ends]).toEqual([[], 1]);
});

// Rule shared-13.
test.each([
  ['another replica has it', false, null, 0],
  ['another replica has kept its end', true, { state: { status: 'cancelled' } } as const, 0],
  ['it is still here', true, null, 1],
])(
  'is kept only if the task is still here, if that is not certain: %s',
  async (_what, isOurs, end, times) => {
    const { saver, clock, kept, state, looked } = testbed(end);
    Object.assign(state, { isAway: false, isOurs });
    looked.resolve();
    // The process was frozen.
    clock.advance(3_000);
    saver.save();
    await saver.saving;
    expect([kept.length, state.ends]).toEqual([times, 1 - times]);
  },
);

// Rule shared-20: What a server says of its progress is kept once a second at most, and the last of it always. A change of state, or
// the end of the process, is kept at once, with what was said before.
describe('while the server says often how far it is', () => {
  async function saying() {
    const { saver, clock, kept, state, record } = testbed(null);
    state.isAway = false;
    const says = async (statusMessage: string) => {
      Object.assign(record, { statusMessage });
      saver.save('progress');
      await settled();
    };
    for (let percent = 0; percent < 50; percent += 1) {
      await says(`${percent} %`);
      clock.advance(20);
    }
    await settled();
    const said = () => kept.map((one) => (one as TaskRecord).statusMessage);
    return { saver, clock, kept, record, says, said };
  }

  test('the first and the last of each second are kept', async () => {
    const { clock, said } = await saying();
    expect(said()).toEqual(['0 %', '49 %']);
    clock.advance(60_000);
    await settled();
    expect(said()).toEqual(['0 %', '49 %']);
  });

  test.each(['a change of state', 'the end of the process'])('%s does not wait', async (what) => {
    const { saver, record, says, said, kept } = await saying();
    await says('half');
    expect(said()).toEqual(['0 %', '49 %']);
    if (what === 'a change of state') {
      Object.assign(record, { state: { status: 'completed' } });
      saver.save();
    } else saver.hurry();
    await saver.saving;
    expect([said().length, kept.at(-1)]).toEqual([3, record]);
  });
});
