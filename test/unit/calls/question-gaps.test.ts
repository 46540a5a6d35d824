/** For how long questions are gathered: a moment, and longer for a tool that was seen to ask several apart. */
import { describe, expect, test } from 'vitest';
import { callsTestbed, LIMITS, settled } from '../../fixtures/calls-testbed.ts';
import type { CallReply } from '../../../src/model/request.ts';

const WINDOW_MS = 1;
const LIMIT_MS = 150;

const keysOf = (reply: CallReply) =>
  Object.keys(reply.kind === 'result' ? Object(reply.result['inputRequests']) : {});

/** A route whose tool asks so many times, so many ms apart, in each of its calls. */
function asking(times: number, gapMs: number) {
  const limits = {
    ...LIMITS,
    gatherWindowMs: WINDOW_MS,
    gatherLimitMs: LIMIT_MS,
    maxInputRequestsPerRound: 16,
  };
  const testbed = callsTestbed({ limits });
  const { clock, server } = testbed;
  let lastId = 0;
  /** Calls the tool. @returns the keys of the questions that its client is shown first */
  return async (): Promise<readonly string[]> => {
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
});
