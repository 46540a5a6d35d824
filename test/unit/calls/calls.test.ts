/** The way of a call through the room, with a server that the test plays. */
import { expect, test } from 'vitest';
import { callsTestbed, LIMITS, settled, waitingClient } from '../../fixtures/calls-testbed.ts';

test('a client that leaves while its tool is looked up leaves no call behind', async () => {
  const client = waitingClient();
  const { call, capacity, server, clock } = callsTestbed({
    mayReplay: async () => {
      client.leave();
      return true;
    },
  });
  const reply = await call(client.leg).reply;
  expect(reply).toMatchObject({ failure: { error: { data: { reason: 'cancelled' } } } });
  expect(capacity.running).toBe(0);
  expect(clock.pending).toBe(0);
  expect(server.did).toEqual([]);
});

test('between the effect that posts an answer and the session there is one function', async () => {
  const { call, retry, server, clock } = callsTestbed();
  const { reply } = call();
  await settled();
  server.asks(1);
  clock.advance(LIMITS.gatherWindowMs);
  const asked = await reply;
  const retried = retry(asked, { 'elicitation-1': { action: 'accept', content: {} } });
  await settled();
  const frames = server.answerStack.split('\n').slice(2);
  const functions = frames.map((frame) => /at (?:async )?([^\s]+)/.exec(frame)?.[1]);
  expect(functions.slice(0, 2)).toEqual(['postAnswers', 'carryOut']);
  server.replies();
  expect(await retried).toMatchObject({ kind: 'result' });
});
