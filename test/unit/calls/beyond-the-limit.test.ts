/** Calls that are parked although `limits.maxParkedCalls` is reached. */
import { expect, test } from 'vitest';
import { Capacity } from '../../../src/calls/registry.ts';
import { LocalCounts } from '../../../src/lib/counts.ts';
import type { CallReply } from '../../../src/model/request.ts';
import { isJsonObject, type JsonObject } from '../../../src/protocol/json.ts';
import {
  callsTestbed,
  FIRST,
  inputRequestsOf,
  openSealer,
  requestStateOf,
  RESULT,
  settled,
  waitingClient,
} from '../../fixtures/calls-testbed.ts';
import { POINTER_TO_ASKED } from '../../fixtures/pointers-of-dead-replicas.ts';

const THEIRS = 'pointer of a dead replica';
const ROOTS = { 'roots-1': { roots: [] } };
/** A process in which one call may be parked, and a call that is. */
async function fullProcess() {
  const own = openSealer();
  const capacity = new Capacity(
    () => ({
      maxRunningCalls: 100,
      maxParkedCalls: 1,
      maxParkedCallsPerPrincipal: 100,
    }),
    new LocalCounts(),
  );
  const testbed = callsTestbed({
    capacity,
    sealer: {
      seal: (...pointer) => own.seal(...pointer),
      open: (state, ...more) => (state === THEIRS ? POINTER_TO_ASKED : own.open(state, ...more)),
    },
  });
  const { call, server, clock } = testbed;
  /** Calls a tool that asks. */
  const asking = async () => {
    const { reply } = call();
    await settled();
    server.asks(1);
    clock.advance(1);
    return reply;
  };
  return { ...testbed, asking, parked: await asking() };
}

function reasonOf(reply: CallReply) {
  const data = reply.kind === 'failed' ? (reply.failure.error.data ?? null) : null;
  return isJsonObject(data) ? data['reason'] : null;
}

test('a call that another replica had is taken over, and counts', async () => {
  const { calls, server, asking } = await fullProcess();
  const profile = { ...FIRST.profile, roots: true };
  const retry = (inputResponses: JsonObject) =>
    calls.serve(
      { ...FIRST, profile, inputResponses, requestState: THEIRS },
      waitingClient().waiter,
    );
  const asked = retry({});
  await settled();
  server.says.resumed();
  expect(inputRequestsOf(await asked)).toHaveProperty('roots-1');
  const theirs = server.says;
  expect(reasonOf(await asking())).toBe('too_many_parked_calls');
  const answered = retry(ROOTS);
  await settled();
  theirs.replied({ result: RESULT });
  expect(await answered).toMatchObject({ result: RESULT });
});

test('a call whose client waits over a replica that stops is not ended, and counts', async () => {
  const { calls, server, asking, parked } = await fullProcess();
  const [key = ''] = Object.keys(inputRequestsOf(parked));
  const inputResponses = { [key]: { action: 'accept', content: {} } };
  const requestState = requestStateOf(parked);
  const handle = await calls.serveRelayed(
    { ...FIRST, inputResponses, requestState },
    waitingClient().waiter,
  );
  const reply = handle?.begin();
  const working = server.says;
  await settled();
  expect(await asking()).toMatchObject({ result: { resultType: 'input_required' } });
  handle?.sendClientBack();
  const sentBack = await reply;
  if (sentBack === undefined || sentBack === null) throw new Error('the call is not here');
  expect(sentBack).toMatchObject({ result: { resultType: 'input_required' } });
  expect(reasonOf(await asking())).toBe('too_many_parked_calls');
  const later = calls.serve(
    { ...FIRST, inputResponses: null, requestState: requestStateOf(sentBack) },
    waitingClient().waiter,
  );
  working.replied({ result: RESULT });
  expect(await later).toMatchObject({ result: RESULT });
});
