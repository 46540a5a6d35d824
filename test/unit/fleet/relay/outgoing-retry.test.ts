/** The order in which the requester tells its client what the owner sends. */
import { expect, test } from 'vitest';
import type { Waiter } from '../../../../src/model/request.ts';
import { writeLine } from '../../../../src/fleet/relay/messages.ts';
import { OutgoingRetry } from '../../../../src/fleet/relay/outgoing-retry.ts';
import { ManualClock } from '../../../fixtures/manual-clock.ts';

const RESULT = { content: [] };

const progress = (value: number) =>
  writeLine({
    type: 'notification',
    method: 'notifications/progress',
    params: { progressToken: 'token', progress: value },
  });

test.each([0, 15_000])(
  'messages that arrive together are told in their order, and the reply last (pauses of %d ms)',
  async (maxPauseMs) => {
    const told: unknown[] = [];
    const waiter: Waiter = {
      closed: new AbortController().signal,
      backlog: null,
      notify: (_method, params) => told.push(params['progress']),
    };
    const retry = new OutgoingRetry(waiter, {
      clock: new ManualClock(),
      maxLineLength: 1_000,
      sendsHeartbeats: false,
      maxPauseMs,
      send: async () => true,
      sinceMessageMs: () => 0,
      onEnd: () => {},
    });
    const reply = writeLine({ type: 'reply', reply: { kind: 'result', result: RESULT } });
    const pieces = [progress(1) + progress(2), progress(3) + reply];
    for (const [number, text] of pieces.entries()) {
      void retry.receive({ kind: 'piece', id: 'id', from: 'owner', number, text });
    }
    expect(await retry.outcome).toMatchObject({ type: 'replied', reply: { result: RESULT } });
    expect(told).toEqual([1, 2, 3]);
  },
);
