/** What each row of the parked-call table promises: from where, on what, to where, with what effects. */
import { describe, expect, test } from 'vitest';
import {
  TIMERS,
  type CallEvent,
  type CallState,
  type EventName,
  type StateName,
} from '../../../../src/calls/machine/states.ts';
import { step, TRANSITIONS } from '../../../../src/calls/machine/table.ts';
import { adopt, begin } from '../../../../src/calls/machine/steps.ts';
import { ASKING, URLS, WITHDRAWING } from './cases/server-asks.ts';
import { BREAKING, FINISHING } from './cases/server-ends.ts';
import { REPEATING, RETRYING } from './cases/retries.ts';
import { DEADLINES, HOLDING, LEAVING } from './cases/client-leaves.ts';
import {
  LEFT_TO_OWNER,
  LETTING_GO,
  RELEASED,
  SHUT_OUT,
  STOPPING,
  TAKEN_OVER,
  TASKS,
} from './cases/process-leaves.ts';
import {
  answering,
  arm,
  armPark,
  armRun,
  asked,
  broken,
  cancelled,
  cancelling,
  color,
  CONSUMED_NOW,
  done,
  drain,
  ended,
  env,
  finished,
  batched,
  batching,
  idle,
  waiterClosed,
  LIMITS,
  LIVE,
  parked,
  lost,
  postRefused,
  UNREACHABLE,
  retry,
  running,
  settled,
  suspended,
  timeIsUp,
  asksFirst,
  withdrawn,
} from './cases/notation.ts';

const GROUPS = {
  'the server asks': ASKING,
  'the server takes a request back': WITHDRAWING,
  'the server finishes': FINISHING,
  'the client retries': RETRYING,
  'the client repeats itself, or does not': REPEATING,
  'the server wants URLs visited': URLS,
  'the client leaves': LEAVING,
  'time is up': DEADLINES,
  'the stream breaks': BREAKING,
  'the process stops, or a replay takes the place': STOPPING,
  'the process stops, and the server keeps the call': LETTING_GO,
  'a parked call is released': RELEASED,
  'another replica continued the call': TAKEN_OVER,
  'the owner may read the stream': LEFT_TO_OWNER,
  'the server refuses the credentials to read on with': SHUT_OUT,
  'one answer takes long': HOLDING,
  'a task waits for the call': TASKS,
};
const CASES = Object.values(GROUPS).flat();

test('a call begins with its first waiter waiting and two deadlines', () => {
  expect(begin(7, LIMITS)).toEqual({
    state: running({ round: 1, consumed: null }),
    effects: [armRun, arm('call', 3_600_000)],
  });
});

test('a replayed call begins in the round after that of the retry', () => {
  expect(begin(9, LIMITS, CONSUMED_NOW).state).toEqual(
    running({ round: 4, waiters: [9], consumed: CONSUMED_NOW }),
  );
});

test('a reattached call begins with its stream broken, and its questions with the client', () => {
  const { state, effects } = adopt({ round: 3, stateOnly: 1 }, [env], LIMITS);
  expect(state).toEqual(broken(parked({ stateOnly: 1, consumed: null })));
  expect(effects).toEqual([armPark, arm('call', 3_600_000)]);
  expect(adopt({ round: 3, stateOnly: 1 }, [], LIMITS).state).toEqual(
    broken(idle({ stateOnly: 1, consumed: null })),
  );
});

describe('with a limit on how long one response may take', () => {
  const limits = { ...LIMITS, maxHoldMs: 60_000 };
  const armHold = arm('hold', 60_000);

  test('it counts from the beginning', () => {
    expect(begin(7, limits).effects).toContainEqual(armHold);
  });

  test.each([
    ['the last question is taken back', batching(), withdrawn(env)],
    ['the answers are upstream', answering(), { type: 'posted' } as const],
    ['the stream is back', broken(running()), { type: 'resumed' } as const],
    ['the client comes again', idle(), retry()],
  ])('and begins again when %s', (_when, from, on) => {
    const moved = step(from, on, limits);
    expect(moved.state.name).toBe('running');
    expect(moved.effects).toContainEqual(armHold);
  });

  // Rule time-and-room-3.
  test('it does not count when the client stands no further round: it waits to the end', () => {
    for (const mayPark of [true, false]) {
      for (const rounds of [{ stateOnly: 2 }, { round: 9 }]) {
        expect(step(running(rounds), { type: 'holdOver', mayPark }, limits).row).toBeNull();
      }
    }
  });
});

describe.each(Object.entries(GROUPS))('%s', (_group, cases) => {
  test.each(cases)('$rule: $title', ({ rule, from, on, limits, state, effects }) => {
    const moved = step(from, on, { ...LIMITS, ...limits });
    expect(moved.row?.rule).toBe(rule);
    expect(moved.state).toEqual(state);
    expect(moved.effects).toEqual(effects);
  });
});

describe('the table', () => {
  test('names each rule once', () => {
    const rules = TRANSITIONS.map((row) => row.rule);
    expect(rules).toEqual([...new Set(rules)]);
  });

  test.each(TRANSITIONS)('has a case here for every state that rule $rule leads from', (row) => {
    const covered = CASES.filter((one) => one.rule === row.rule).map((one) => one.from.name);
    expect([...new Set(covered)].sort()).toEqual([...row.from].sort());
  });

  test.each(TRANSITIONS)('has a case here for every state that rule $rule leads to', (row) => {
    const covered = CASES.filter((one) => one.rule === row.rule);
    expect([...new Set(covered.map((one) => one.state.name))].sort()).toEqual([...row.to].sort());
    if (String(row.from) !== String(row.to)) return;
    for (const one of covered) expect(one.state.name, 'each one stays').toBe(one.from.name);
  });

  // Rule laws-1.
  test('gives every state a deadline', () => {
    for (const timers of Object.values(TIMERS)) expect(timers).not.toEqual([]);
  });
});

describe('what no row mentions changes nothing', () => {
  const EVENTS: Readonly<Record<EventName, CallEvent>> = {
    asked: asked(color),
    withdrawn: withdrawn(env),
    outcome: ended,
    asksFirst: asksFirst(),
    batched: batched(),
    retry: retry(),
    posted: { type: 'posted' },
    postRefused: postRefused(),
    sessionGone: { type: 'sessionGone' },
    waiterClosed: waiterClosed(7),
    expired: timeIsUp('call'),
    interrupted: { type: 'interrupted' },
    resumed: { type: 'resumed' },
    lost,
    ended: { type: 'ended' },
    drain: drain(),
    takenOver: { type: 'takenOver' },
    ownerReads: { type: 'ownerReads' },
    released: { type: 'released' },
    requesterStops: { type: 'requesterStops' },
    operatorStops: { type: 'operatorStops' },
    givenToTask: { type: 'givenToTask', leftMs: 1_000 },
    shutOut: { type: 'shutOut', failure: UNREACHABLE },
    holdOver: { type: 'holdOver', mayPark: true },
    evict: { type: 'evict' },
  };
  const NEVER_NEWS: readonly EventName[] = [
    ...(['posted', 'postRefused', 'sessionGone', 'batched', 'resumed', 'ended'] as const),
  ];
  const HELD: readonly EventName[] = ['holdOver', 'requesterStops'];
  const LEAVING: readonly EventName[] = ['takenOver', 'ownerReads', 'shutOut'];
  const OVER: readonly EventName[] = [
    ...(['asked', 'withdrawn', 'interrupted', 'waiterClosed', 'released'] as const),
    ...HELD,
    ...LEAVING,
  ];
  const IGNORED: Readonly<Record<StateName, readonly EventName[]>> = {
    running: ['withdrawn', 'evict', 'released', 'operatorStops', ...NEVER_NEWS],
    batching: [
      ...(['evict', 'released', 'operatorStops'] as const),
      ...HELD,
      ...NEVER_NEWS.filter((event) => event !== 'batched'),
    ],
    answering: ['batched', 'resumed', 'ended', 'evict', 'released', 'operatorStops', ...HELD],
    parked: ['waiterClosed', 'evict', ...HELD, ...NEVER_NEWS],
    runningDetached: ['withdrawn', 'waiterClosed', 'evict', 'released', ...HELD, ...NEVER_NEWS],
    resultReady: ['outcome', 'asksFirst', 'lost', ...OVER, ...NEVER_NEWS],
    suspended: ['outcome', 'asksFirst', 'lost', 'evict', ...OVER, ...NEVER_NEWS],
    cancelling: [
      ...(['asksFirst', 'expired', 'drain', 'evict', 'givenToTask', 'operatorStops'] as const),
      ...OVER,
      ...NEVER_NEWS.filter((event) => event !== 'ended'),
    ],
    done: [
      ...(['outcome', 'asksFirst', 'expired', 'lost', 'drain', 'evict'] as const),
      ...(['givenToTask', 'operatorStops'] as const),
      ...OVER,
      ...NEVER_NEWS,
    ],
  };
  const STATES: readonly CallState[] = [
    ...LIVE.map((state) => ('waiters' in state ? { ...state, waiters: [7] } : state)),
    settled(),
    suspended(),
    cancelling(cancelled),
    done(finished),
  ];

  test.each(STATES)('and in $name that is exactly what is listed here', (state) => {
    const ignored = Object.values(EVENTS).filter((event) => {
      const moved = step(state, event, LIMITS);
      if (moved.row !== null) return false;
      expect(moved).toEqual({ state, effects: [], row: null });
      return true;
    });
    expect(ignored.map((event) => event.type).sort()).toEqual([...IGNORED[state.name]].sort());
  });

  test.each(LIVE)('while the stream of a call that is $name is broken', (live) => {
    const state = broken('waiters' in live ? { ...live, waiters: [7] } : live);
    const ignored = Object.values(EVENTS).filter(
      (event) => step(state, event, LIMITS).row === null,
    );
    const unseen = [...HELD, 'interrupted', 'operatorStops'] as const;
    const expected = new Set<EventName>([...IGNORED[live.name], ...unseen]);
    expected.delete('resumed');
    expect(ignored.map((event) => event.type).sort()).toEqual([...expected].sort());
  });

  test('a waiter that does not wait here may close', () => {
    for (const state of [running(), answering(), broken(running()), broken(parked())]) {
      expect(step(state, waiterClosed(99), LIMITS).row).toBeNull();
    }
  });

  test('the time for work does not end a call that was parked while its stream broke', () => {
    expect(step(broken(parked()), timeIsUp('run'), LIMITS).row).toBeNull();
  });
});
