import { beforeEach, describe, expect, test } from 'vitest';
import {
  CallQueue,
  type StartedCall,
  type StartRule,
  type ToolHabit,
  UNKNOWN_WAIT_MS,
} from '../../../src/sessions/call-queue.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';

const WAIT_MS = 20_000;
const LENGTH = 3;

let clock: ManualClock;
let rule: StartRule;
let queue: CallQueue;
let habits: Map<string, ToolHabit>;
/** For how long calls that were cancelled can still ask, in ms. */
let uncertainMs: number;
/** While calls that have just asked can ask more. */
let turn: PromiseWithResolvers<void> | null;
/** What the queue let start, by the names of the calls. */
let began: Map<string, StartedCall>;
/** False while their session is being opened. */
let sendsAtOnce: boolean;

beforeEach(() => {
  clock = new ManualClock();
  rule = 'auto';
  habits = new Map([
    ['silent', 'silent'],
    ['asks', 'asks'],
  ]);
  uncertainMs = 0;
  turn = null;
  began = new Map();
  sendsAtOnce = true;
  queue = new CallQueue({
    ...{ length: LENGTH, waitMs: WAIT_MS, clock, session: 'the session' },
    rule: () => rule,
    habitOf: (tool) => habits.get(tool) ?? 'unknown',
    certainInMs: (asks) => (uncertainMs <= (asks ? 15_000 : 5_000) ? uncertainMs : 0),
    turn: () => turn?.promise ?? null,
  });
});

/** Has a call wait in the queue, and lets what is ready run. The first word of its name is its tool. */
async function enter(
  name: string,
  isWanted = () => true,
  wantsLog = false,
): Promise<{ done: Promise<void> }> {
  const tool = { name: name.split(' ', 1)[0] ?? name, wantsLog };
  const entered = Promise.resolve(queue.enter(isWanted, tool)).then((started) => {
    began.set(name, started);
    if (sendsAtOnce) started.sent();
  });
  entered.catch(() => {});
  await settle();
  return { done: entered };
}

const settle = () => new Promise<void>((resolve) => setImmediate(resolve));
const names = () => [...began.keys()];

async function pass(ms: number): Promise<void> {
  clock.advance(ms);
  await settle();
}

test('calls run together where a question names its call', async () => {
  rule = 'together';
  for (const name of ['a', 'b', 'c']) await enter(name);
  expect(names()).toEqual(['a', 'b', 'c']);
});

describe('where a question may name no call', () => {
  // Rule sessions-26: If questions can come without a call, a call waits up to 2 s for others that could ask. A tool
  // that never asks does not wait.
  test('a call of a silent tool starts at once while others run and wait', async () => {
    for (const name of ['asks 1', 'asks 2', 'silent 1', 'silent 2']) await enter(name);
    expect(names()).toEqual(['asks 1', 'silent 1', 'silent 2']);
  });

  // Rule sessions-26.
  test.each(['asks', 'new'])(
    'a call of a silent tool keeps no call of %s waiting',
    async (name) => {
      await enter('silent');
      await enter(name);
      expect(names()).toEqual(['silent', name]);
      expect(clock.pending).toBe(0);
    },
  );

  // Rule sessions-26.
  test.each([
    ['an unknown tool', 'new', 'other'],
    ['an unknown tool', 'new', 'new 2'],
    ['an unknown tool', 'new', 'asks'],
    ['a tool that asks', 'asks', 'new'],
  ])('a call waits for one of %s for 2 s at most: %s, then %s', async (_what, first, then) => {
    await enter(first);
    await enter(then);
    await pass(UNKNOWN_WAIT_MS - 1);
    expect(names()).toEqual([first]);
    await pass(1);
    expect(names()).toEqual([first, then]);
    expect(clock.pending).toBe(0);
  });

  // Rule sessions-26.
  test.each(['end', 'park'] as const)('or until its %s', async (how) => {
    for (const name of ['new', 'other']) await enter(name);
    if (how === 'end') began.get('new')?.end();
    else began.get('new')?.park(true);
    await settle();
    expect(names()).toEqual(['new', 'other']);
  });

  // Rule sessions-26.
  test('calls of tools that ask start one after the other, as each is parked or over', async () => {
    for (const name of ['asks 1', 'asks 2', 'asks 3']) await enter(name);
    await pass(WAIT_MS / 2);
    began.get('asks 1')?.park(true);
    await settle();
    expect(names()).toEqual(['asks 1', 'asks 2']);
    began.get('asks 1')?.park(false);
    began.get('asks 2')?.end();
    await settle();
    expect(names()).toEqual(['asks 1', 'asks 2']);
    began.get('asks 1')?.end();
    await settle();
    expect(names()).toEqual(['asks 1', 'asks 2', 'asks 3']);
  });

  // Rule sessions-26.
  test('a call that waits is one of a tool that asks as soon as another one of that tool has asked', async () => {
    for (const name of ['new 1', 'new 2', 'new 3']) await enter(name);
    habits.set('new', 'asks');
    began.get('new 1')?.park(true);
    await pass(UNKNOWN_WAIT_MS);
    expect(names()).toEqual(['new 1', 'new 2']);
  });

  // Rule sessions-26.
  test('the 2 s begin when the first call was sent that waited for the session', async () => {
    sendsAtOnce = false;
    for (const name of ['opens', 'new']) await enter(name);
    await pass(UNKNOWN_WAIT_MS * 2);
    began.get('opens')?.sent();
    await pass(UNKNOWN_WAIT_MS - 1);
    expect(names()).toEqual(['opens']);
    await pass(1);
    expect(names()).toEqual(['opens', 'new']);
    for (const call of began.values()) call.end();
    expect(clock.pending).toBe(0);
  });

  // Rule sessions-26.
  test('a call of a silent tool that wants log messages waits as one of an unknown tool', async () => {
    await enter('asks');
    await enter('silent', () => true, true);
    await pass(UNKNOWN_WAIT_MS - 1);
    expect(names()).toEqual(['asks']);
    await pass(1);
    expect(names()).toEqual(['asks', 'silent']);
  });

  // Rule sessions-26.
  test('the next call starts when those that have just asked can ask no more', async () => {
    for (const name of ['asks 1', 'asks 2']) await enter(name);
    turn = Promise.withResolvers();
    began.get('asks 1')?.park(true);
    await pass(WAIT_MS / 2);
    expect(names()).toEqual(['asks 1']);
    const { resolve } = turn;
    turn = null;
    resolve();
    await settle();
    expect(names()).toEqual(['asks 1', 'asks 2']);
  });

  // Rule concurrent-5.
  test.each([
    ['asks', 15_000],
    ['new', 5_000],
  ])(
    'a call of %s waits while a cancelled one can ask, for %i ms at most',
    async (tool, mostMs) => {
      uncertainMs = mostMs + 1;
      await enter(`${tool} 1`);
      began.get(`${tool} 1`)?.end();
      uncertainMs = mostMs;
      await enter(`${tool} 2`);
      expect(names()).toEqual([`${tool} 1`]);
      uncertainMs = 0;
      await pass(mostMs);
      expect(names()).toEqual([`${tool} 1`, `${tool} 2`]);
    },
  );
});

test('calls run one after the other where the operator wants that, whatever their tools do', async () => {
  rule = 'queue';
  for (const name of ['new', 'other', 'silent']) await enter(name);
  await pass(UNKNOWN_WAIT_MS);
  began.get('new')?.park(true);
  await settle();
  expect(names()).toEqual(['new', 'other']);
  began.get('other')?.end();
  await settle();
  expect(names()).toEqual(['new', 'other', 'silent']);
});

describe('the queue', () => {
  // Rule sessions-12: At most 100 calls wait in one session, each for `sessions.queue.wait`. Then they fail with
  // `upstream_busy` and `data.mayHaveActed` `no`.
  test('calls wait for a time, and as many as there is room for', async () => {
    rule = 'queue';
    await enter('a');
    const waiting = [await enter('b'), await enter('c'), await enter('d')];
    await expect((await enter('e')).done).rejects.toMatchObject({
      code: 'upstream_busy',
      details: { mayHaveActed: false },
    });
    clock.advance(WAIT_MS);
    for (const { done } of waiting)
      await expect(done).rejects.toMatchObject({ code: 'upstream_busy' });
    expect(names()).toEqual(['a']);
    expect(clock.pending).toBe(0);
  });

  // Rule sessions-12.
  test('a call whose client has left gives up its place', async () => {
    rule = 'queue';
    let isThere = true;
    await enter('a');
    const left = await enter('left', () => isThere);
    for (const name of ['b', 'c']) await enter(name);
    isThere = false;
    await enter('d');
    await expect(left.done).rejects.toMatchObject({ code: 'upstream_busy' });
    for (const name of ['a', 'b', 'c']) {
      began.get(name)?.end();
      await settle();
    }
    expect(names()).toEqual(['a', 'b', 'c', 'd']);
  });
});
