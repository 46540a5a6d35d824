/** For how long questions are batched: a moment, and more or less for a tool that was seen to ask before. */
import { describe, expect, test, vi } from 'vitest';
import {
  callsTestbed,
  FIRST,
  LIMITS,
  settled,
  waitingClient,
} from '../../fixtures/calls-testbed.ts';
import type { CallReply } from '../../../src/model/request.ts';

const WINDOW_MS = 1;
const LIMIT_MS = 150;

const keysOf = (reply: CallReply) =>
  Object.keys(reply.kind === 'result' ? Object(reply.result['inputRequests']) : {});

/** A route whose tool asks so many times, so many ms apart, in each of its calls. */
function asking(times: number, gapMs: number) {
  const { call } = route();
  return () => call(times, gapMs);
}

function route() {
  const limits = {
    ...LIMITS,
    batchWindowMs: WINDOW_MS,
    batchLimitMs: LIMIT_MS,
    maxShownQuestions: 16,
    maxOpenQuestions: 16,
  };
  const testbed = callsTestbed({ limits });
  const { clock, server } = testbed;
  let lastId = 0;
  /** Calls the tool. @returns the keys of the questions that its client is shown first */
  const call = async (times: number, gapMs: number): Promise<readonly string[]> => {
    const { reply } = testbed.call();
    await settled();
    server.asks((lastId += 1));
    for (let asked = 1; asked < times; asked += 1) {
      clock.advance(gapMs);
      await settled();
      server.asks((lastId += 1));
    }
    clock.advance(LIMIT_MS);
    return keysOf(await reply);
  };
  return { ...testbed, call, begin: testbed.call };
}

describe('questions of a call', () => {
  // Rule shown-3.
  test('are shown together when they come at once, and one by one when they come later', async () => {
    expect(await asking(2, WINDOW_MS - 1)()).toEqual(['elicitation-1', 'elicitation-2']);
    expect(await asking(2, WINDOW_MS)()).toEqual(['elicitation-1']);
  });

  // Rule shown-3.
  test('are waited for 30 ms by the calls of a tool that was seen to ask apart', async () => {
    const call = asking(2, 29);
    expect(await call()).toEqual(['elicitation-1']);
    expect(await call()).toEqual(['elicitation-1', 'elicitation-2']);
  });

  // Rule shown-3.
  test('are waited for 150 ms at most', async () => {
    const call = asking(8, 29);
    expect(await call()).toEqual(['elicitation-1']);
    expect(await call(), 'the seventh came after 174 ms').toHaveLength(6);
  });

  // Rule shown-3.
  test('are not waited for when the next one comes after more than 150 ms', async () => {
    const call = asking(2, WINDOW_MS + LIMIT_MS);
    expect([await call(), await call()]).toEqual([['elicitation-1'], ['elicitation-1']]);
  });

  // Rule shown-3.
  test('are not waited for by the calls of a tool that asked one at a time', async () => {
    const { clock, server, call, begin } = route();
    await call(1, 0);
    const startedAtMs = clock.elapsed();
    const { reply } = begin();
    await settled();
    server.asks(10);
    server.asks(11);
    clock.advance(0);
    expect(keysOf(await reply), 'in the same read').toEqual(['elicitation-1', 'elicitation-2']);
    expect(clock.elapsed()).toBe(startedAtMs);
  });

  // Rule shown-3.
  test('are waited for if the client wants notifications, which can come on another stream', async () => {
    const { calls, clock, server, call } = route();
    await call(1, 0);
    for (const wanted of [{ progressToken: 'mine' }, { logLevel: 'info' }]) {
      const notify = vi.fn();
      const reply = calls.serve({ ...FIRST, ...wanted }, { ...waitingClient().waiter, notify });
      await settled();
      server.asks(10);
      clock.advance(0);
      await settled();
      server.says.notified('notifications/progress', { progress: 1, progressToken: 'gateway' });
      server.says.notified('notifications/message', { level: 'info', data: 'late' });
      clock.advance(WINDOW_MS);
      expect(keysOf(await reply)).toEqual(['elicitation-1']);
      expect(notify).toHaveBeenCalledOnce();
    }
  });

  // Rule shown-3.
  test('are waited for again once such a tool has asked a second time within 1 ms', async () => {
    const { call } = route();
    expect(await call(1, 0)).toEqual(['elicitation-1']);
    expect(await call(2, 0.5), 'not waited for').toEqual(['elicitation-1']);
    expect(await call(2, 0.5)).toEqual(['elicitation-1', 'elicitation-2']);
    expect(await call(2, 29), 'for 1 ms').toEqual(['elicitation-1']);
    expect(await call(2, 29), 'for 30 ms').toEqual(['elicitation-1', 'elicitation-2']);
  });
});
