/** The record of a task on its way to a store that is unreachable for a while. */
import { describe, expect, test } from 'vitest';
import { DirectoryUnavailable, type Written } from '../../../src/model/store.ts';
import { isTaskOver } from '../../../src/model/task.ts';
import { homeId } from '../../../src/protocol/ids.ts';
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
  const state = { isAway: true, isOurs: true, isOldToken: false, ends: 0 };
  const store: Partial<TaskStore> = {
    // As the store does: see test/integration/replicas/store.test.ts.
    keep: async (_key, record): Promise<Written> => {
      if (state.isAway) throw new DirectoryUnavailable('timeout', 'away');
      if (endElsewhere !== null) return 'ended';
      if (!isTaskOver(record.state) && (!state.isOurs || state.isOldToken)) return 'lost';
      kept.push({ ...record });
      return 'kept';
    },
    find: async () => endElsewhere as TaskRecord | null,
    isStillHere: async () => {
      state.isOldToken = false;
      return state.isOurs;
    },
  };
  const nowMs = clock.now();
  const record = { state: { status: 'working' }, createdAtMs: nowMs, ttlMs: 60_000 } as TaskRecord;
  const saver = new TaskSaver({
    ...{ home: homeId('task:1'), store: store as TaskStore, clock },
    record: () => record,
    gone: gone.signal,
    onOver: () => (state.ends += 1),
  });
  const whileAway = async () => {
    saver.save();
    await settled();
    state.isAway = false;
    clock.advance(1_000);
    await settled();
  };
  return { saver, clock, gone, kept, state, record, whileAway };
}

// Rule shared-8.
test('is kept when the store is back', async () => {
  const { saver, kept, record, whileAway } = testbed(null);
  await whileAway();
  await saver.saving;
  expect(kept).toEqual([record]);
});

// Rule shared-13.
test('does not replace an end that another replica has kept', async () => {
  const { saver, kept, state, whileAway } = testbed({ state: { status: 'cancelled' } });
  await whileAway();
  await saver.saving;
  expect([kept, state.ends]).toEqual([[], 1]);
});

// Rule shared-13.
test('is not kept once the task is gone from here', async () => {
  const { saver, clock, gone, kept, state } = testbed(null);
  saver.save();
  await settled();
  gone.abort();
  state.isAway = false;
  clock.advance(1_000);
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

// Rule shared-13.
test('does not replace what the replica keeps that has taken the task over', async () => {
  const { saver, kept, state, whileAway } = testbed(null);
  state.isOurs = false;
  await whileAway();
  await saver.saving;
  expect([kept, state.ends]).toEqual([[], 1]);
});

// Rule shared-13.
test('is kept if the task has ended here, whoever has taken it over', async () => {
  const { saver, kept, state, record, whileAway } = testbed(null);
  state.isOurs = false;
  Object.assign(record, { state: { status: 'cancelled' } });
  await whileAway();
  await saver.saving;
  expect([kept, state.ends]).toEqual([[record], 1]);
});

// Rule shared-13.
test('does not replace an end of the replica that had the task before, which was taken for dead', async () => {
  const { saver, kept, state } = testbed({ state: { status: 'cancelled' } });
  state.isAway = false;
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
    const { saver, clock, kept, state } = testbed(end);
    Object.assign(state, { isAway: false, isOurs });
    // The process was frozen.
    clock.advance(3_000);
    saver.save();
    await saver.saving;
    expect([kept.length, state.ends]).toEqual([times, 1 - times]);
  },
);

// Rule shared-8.
test('is kept with the claim that the replica has now, if the store had lost the one before', async () => {
  const { saver, clock, kept, state, record } = testbed(null);
  Object.assign(state, { isAway: false, isOldToken: true });
  saver.save();
  await settled();
  clock.advance(1_000);
  await saver.saving;
  expect([kept, state.ends]).toEqual([[record], 0]);
});

// Rule shared-20: Progress of a task is stored at most once a second, and a change of state at once.
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
