import { beforeEach, describe, expect, test } from 'vitest';
import {
  PROBE_MS,
  CallQueue,
  type StartedCall,
  type StartRule,
  type ToolHabit,
  UNKNOWN_WAIT_MS,
} from '../../../src/sessions/call-queue.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';

const WAIT_MS = 10_000;
const LENGTH = 3;

let clock: ManualClock;
let rule: StartRule;
let queue: CallQueue;
/** What the queue let start, by the names of the calls. */
let began: Map<string, StartedCall>;
/** False while their session is being opened. */
let sendsAtOnce: boolean;

beforeEach(() => {
  clock = new ManualClock();
  rule = 'probe';
  began = new Map();
  sendsAtOnce = true;
  queue = new CallQueue({ length: LENGTH, waitMs: WAIT_MS, rule: () => rule, clock });
});

/** Has a call wait in the queue, and lets what is ready run. */
async function enter(
  name: string,
  isWanted = () => true,
  habit: ToolHabit = 'asks',
): Promise<{ done: Promise<void> }> {
  const tool = { name: name.split(' ', 1)[0] ?? name, habit };
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

test('calls run together where a question names its call', async () => {
  rule = 'together';
  for (const name of ['a', 'b', 'c']) await enter(name);
  expect(names()).toEqual(['a', 'b', 'c']);
});

describe('while it is not known how the server asks', () => {
  // Rule sessions-11: With `sessions.concurrency: auto` calls run together at a server that asks on the stream
  // of the call. While it has asked nothing yet, the next call whose client can be asked starts when the others
  // have ended, are parked, or have been at the server for 250 ms; a tool that ended in this session without a question starts at once.
  // Once a question named no call, and over HTTP+SSE and stdio from the start, rule sessions-26 holds. A parked call holds
  // up nobody.
  test('the next call starts after the one before has been at the server for a while', async () => {
    sendsAtOnce = false;
    for (const name of ['a', 'b']) await enter(name);
    clock.advance(PROBE_MS * 4);
    await settle();
    expect(names()).toEqual(['a']);
    began.get('a')?.sent();
    clock.advance(PROBE_MS - 1);
    await settle();
    expect(names()).toEqual(['a']);
    clock.advance(1);
    await settle();
    expect(names()).toEqual(['a', 'b']);
  });

  // Rule sessions-11.
  test('each call starts after the one before has run for a while', async () => {
    for (const name of ['a', 'b', 'c']) await enter(name);
    expect(names()).toEqual(['a']);
    clock.advance(PROBE_MS - 1);
    await settle();
    expect(names()).toEqual(['a']);
    clock.advance(1);
    await settle();
    expect(names()).toEqual(['a', 'b']);
    clock.advance(PROBE_MS);
    await settle();
    expect(names()).toEqual(['a', 'b', 'c']);
    expect(clock.pending).toBe(0);
  });

  test.each(['end', 'park'] as const)('or at its %s', async (how) => {
    for (const name of ['a', 'b', 'c']) await enter(name);
    if (how === 'end') began.get('a')?.end();
    else began.get('a')?.park(true);
    await settle();
    expect(names()).toEqual(['a', 'b']);
  });

  test('or when a question has named its call', async () => {
    for (const name of ['a', 'b', 'c']) await enter(name);
    rule = 'together';
    began.get('a')?.park(true);
    await settle();
    expect(names()).toEqual(['a', 'b', 'c']);
  });
});

describe('where questions name no call', () => {
  // Rule sessions-11.
  test('a call starts when no other runs, and one that goes on counts', async () => {
    rule = 'queue';
    for (const name of ['a', 'b', 'c']) await enter(name);
    clock.advance(PROBE_MS);
    began.get('a')?.park(true);
    await settle();
    expect(names()).toEqual(['a', 'b']);
    began.get('a')?.park(false);
    began.get('b')?.end();
    await settle();
    expect(names()).toEqual(['a', 'b']);
    began.get('a')?.end();
    await settle();
    expect(names()).toEqual(['a', 'b', 'c']);
  });

  describe('and some tools have asked nothing in this session', () => {
    beforeEach(() => (rule = 'silent-first'));
    const silent = (name: string) => enter(name, () => true, 'silent');

    // Rule sessions-26: Where questions name no call, a call of a tool that has ended in this session without a question starts at
    // once, whatever runs or waits. Any other call that can be asked, or that wants log messages, waits until the calls that ran
    // when it came have ended or are parked, and until no other call runs that may ask. One of a tool that was not called in this
    // session waits for 2 s at most from when the session is there, but for calls of tools that have asked here, and of the same
    // tool.
    test('a call of a silent tool starts at once while another call runs and a third one waits', async () => {
      await enter('may ask');
      await enter('waits');
      await silent('echo');
      expect(names()).toEqual(['may ask', 'echo']);
      expect(clock.pending).toBe(1);
    });

    // Rule sessions-26.
    test('any other call waits for those that ran when it came, and not for calls of silent tools that came later', async () => {
      for (const name of ['a', 'b']) await silent(name);
      await enter('may ask');
      clock.advance(1);
      await silent('c');
      expect(names()).toEqual(['a', 'b', 'c']);
      began.get('a')?.end();
      await settle();
      expect(names()).toEqual(['a', 'b', 'c']);
      began.get('b')?.end();
      await settle();
      expect(names()).toEqual(['a', 'b', 'c', 'may ask']);
    });

    // Rule sessions-26.
    test('a call of a silent tool that asks after all holds up calls that may ask', async () => {
      await silent('a');
      began.get('a')?.park(true);
      began.get('a')?.park(false);
      clock.advance(1);
      await enter('may ask');
      await silent('b');
      expect(names()).toEqual(['a', 'b']);
      began.get('a')?.end();
      await settle();
      expect(names()).toEqual(['a', 'b', 'may ask']);
    });
  });

  // Rule sessions-26.
  test('a call of an unknown tool waits for 2 s for calls of other tools that were not seen to ask', async () => {
    rule = 'silent-first';
    await enter('quiet', () => true, 'silent');
    await enter('new', () => true, 'unknown');
    clock.advance(1);
    await enter('other', () => true, 'unknown');
    expect(names()).toEqual(['quiet']);
    clock.advance(UNKNOWN_WAIT_MS - 1);
    await settle();
    expect(names()).toEqual(['quiet', 'new']);
    clock.advance(1);
    await settle();
    expect(names()).toEqual(['quiet', 'new', 'other']);
    expect(clock.pending).toBe(0);
  });

  // Rule sessions-26.
  test('a call of an unknown tool waits for 2 s after the first call was sent that waited for the session', async () => {
    rule = 'silent-first';
    sendsAtOnce = false;
    for (const name of ['opens', 'new']) await enter(name, () => true, 'unknown');
    clock.advance(UNKNOWN_WAIT_MS * 2);
    began.get('opens')?.sent();
    clock.advance(UNKNOWN_WAIT_MS - 1);
    await settle();
    expect(names()).toEqual(['opens']);
    clock.advance(1);
    await settle();
    expect(names()).toEqual(['opens', 'new']);
    for (const call of began.values()) call.end();
    expect(clock.pending).toBe(0);
  });

  // Rule sessions-26.
  test.each([
    ['a tool that asks', 'asks', 'new'],
    ['the same tool', 'unknown', 'tool 2'],
  ] as const)('a call of an unknown tool waits for a call of %s', async (_what, habit, name) => {
    rule = 'silent-first';
    await enter('tool 1', () => true, habit);
    await enter(name, () => true, 'unknown');
    clock.advance(WAIT_MS - 1);
    await settle();
    expect(names()).toEqual(['tool 1']);
    began.get('tool 1')?.park(true);
    await settle();
    expect(names()).toEqual(['tool 1', name]);
  });

  // Rule sessions-12: 100 calls wait in one session, each for `sessions.queue.wait`. One that
  // finds no room, or waits in vain, fails with `upstream_busy` and `data.mayHaveActed` `no`. A call whose client
  // has left gives up its place.
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
