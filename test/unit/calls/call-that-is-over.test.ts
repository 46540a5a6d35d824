/** What is kept of a call that is over, for a client that repeats its retry. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import type { CallReply } from '../../../src/model/request.ts';
import {
  callsTestbed,
  LIMITS,
  RESULT,
  settled,
  type CallsTestbed,
} from '../../fixtures/calls-testbed.ts';

const answer = () => ({ action: 'accept', content: { name: 'Ada' } });

/** Makes a call with one question. @returns the reply that asks, and the answer that the client gave */
async function makeCall({ call, retry, server, clock }: CallsTestbed) {
  const { reply } = call();
  await settled();
  server.asks(1);
  clock.advance(LIMITS.batchWindowMs);
  const asked: CallReply = await reply;
  const given = answer();
  const retried = retry(asked, { 'elicitation-1': given });
  await settled();
  server.replies();
  expect(await retried).toMatchObject({ kind: 'result', result: RESULT });
  return { asked, given: new WeakRef(given) };
}

test('the result is there when the retry is repeated, and what the client answered is not in memory', async () => {
  setFlagsFromString('--expose-gc');
  const collectGarbage = runInNewContext('gc') as () => void;
  const testbed = callsTestbed();
  const { asked, given } = await makeCall(testbed);
  // What was just referred to by a WeakRef stays until the end of the turn.
  await new Promise(setImmediate);
  collectGarbage();
  expect(given.deref()).toBeUndefined();
  const repeated = await testbed.retry(asked, { 'elicitation-1': answer() });
  expect(repeated).toMatchObject({ kind: 'result', result: RESULT });
});

test('a retry with another answer is refused', async () => {
  const testbed = callsTestbed();
  const { asked } = await makeCall(testbed);
  const other = await testbed.retry(asked, { 'elicitation-1': { action: 'decline' } });
  expect(other).toMatchObject({ kind: 'failed', failure: { error: { code: -32602 } } });
});
