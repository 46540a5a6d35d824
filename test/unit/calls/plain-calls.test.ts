/** A call that never asked: what it costs, and everything that can still happen to it. */
import { describe, expect, test } from 'vitest';
import { LegacyErrorCode } from '../../../src/protocol/json-rpc.ts';
import { UpstreamFailure } from '../../../src/model/upstream-failure.ts';
import {
  callsTestbed,
  FIRST,
  LIMITS,
  requestStateOf,
  RESULT,
  settled,
  waitingClient,
} from '../../fixtures/calls-testbed.ts';

const ACCEPT = { 'elicitation-1': { action: 'accept', content: {} } };

/** A call whose request the server has, and that it has not asked anything. */
async function plainCall(options: Parameters<typeof callsTestbed>[0] = {}) {
  const testbed = callsTestbed(options);
  const client = waitingClient();
  const { reply } = testbed.call(client.waiter);
  await settled();
  expect(testbed.capacity.running).toBe(1);
  const expectNothingLeft = () => {
    expect(testbed.capacity.running).toBe(0);
    expect(testbed.calls.parked).toBe(0);
    expect(testbed.clock.pending).toBe(0);
  };
  return { ...testbed, client, reply, expectNothingLeft };
}

test('a call that nothing happens to is a lease, a request and a reply, and leaves nothing behind', async () => {
  const { server, reply, logged, clock, expectNothingLeft } = await plainCall();
  server.replies();
  expect(await reply).toMatchObject({ kind: 'result', result: RESULT });
  expect(server.did).toEqual(['lease', 'call', 'give back']);
  expect(logged).toEqual(['call.started', 'call.moved', 'call.ended']);
  expect(clock.timersSet, 'its time limits, and nothing for a client that comes back').toBe(2);
  expectNothingLeft();
});

// Rule concurrent-2.
describe('a call that fails after a question that may have been its own was declined', () => {
  const AMBIGUOUS = /^The server asked for input without naming a call while several calls /;

  test('says so beside what the tool says', async () => {
    const { server, reply, logged } = await plainCall();
    server.says.unanswerable('elicitation/create', 'ambiguous');
    const said = { type: 'text', text: 'nobody confirmed' };
    server.says.replied({ result: { content: [said], isError: true } });
    expect(await reply).toMatchObject({
      kind: 'result',
      result: {
        content: [said, { type: 'text', text: expect.stringMatching(AMBIGUOUS) }],
        isError: true,
      },
    });
    expect(logged).toContain('call.question_refused');
  });

  test('says so beside the error of the server', async () => {
    const { server, reply } = await plainCall();
    server.says.unanswerable('sampling/createMessage', 'ambiguous');
    server.says.replied({ error: { code: -32603, message: 'no sample' } });
    expect(await reply).toMatchObject({
      failure: {
        error: {
          message: expect.stringMatching(AMBIGUOUS),
          data: {
            reason: 'call_not_answerable',
            cause: 'ambiguous',
            upstream: { code: -32603, message: 'no sample' },
          },
        },
      },
    });
  });

  test('succeeds as if nothing had been asked, if it does', async () => {
    const { server, reply } = await plainCall();
    server.says.unanswerable('elicitation/create', 'ambiguous');
    server.replies();
    expect(await reply).toMatchObject({ kind: 'result', result: RESULT });
    // Its tool must not be taken for one that asks nothing.
    expect(server.did).toEqual(['lease', 'call', 'may have asked', 'give back']);
  });
});

describe('a call that never asked', () => {
  test('parks when the server asks', async () => {
    const { server, reply, retry, clock, calls, expectNothingLeft } = await plainCall();
    server.asks(7);
    clock.advance(LIMITS.batchWindowMs);
    const asked = await reply;
    expect(asked).toMatchObject({ result: { resultType: 'input_required' } });
    expect(calls.parked).toBe(1);
    const retried = retry(asked, ACCEPT);
    await settled();
    server.replies();
    expect(await retried).toMatchObject({ result: RESULT });
    expect(server.did).toEqual(['lease', 'call', 'respond 7', 'give back']);
    clock.advance(LIMITS.redeliverMs);
    expectNothingLeft();
  });

  test('asks for URLs when the server ends it with -32042, and is made again after the visit', async () => {
    const { server, retry, clock, calls, capacity } = callsTestbed();
    const profile = { ...FIRST.profile, elicitationUrl: true };
    const reply = calls.serve({ ...FIRST, profile }, waitingClient().waiter);
    await settled();
    const elicitations = [
      { mode: 'url', message: 'Visit', url: 'https://a.example', elicitationId: 'e' },
    ];
    const code = LegacyErrorCode.urlElicitationRequired;
    server.says.replied({ error: { code, message: 'visit', data: { elicitations } } });
    const asked = await reply;
    expect(asked).toMatchObject({ result: { resultType: 'input_required' } });
    const retried = retry(asked, { 'elicitation-1': { action: 'accept' } });
    await settled();
    server.replies();
    expect(await retried).toMatchObject({ result: RESULT });
    expect(server.did).toEqual(['lease', 'call', 'call', 'give back']);
    clock.advance(LIMITS.redeliverMs);
    expect(capacity.running + calls.parked + clock.pending).toBe(0);
  });

  test('goes on when its stream broke and is resumed', async () => {
    const { server, reply, expectNothingLeft } = await plainCall();
    server.says.interrupted();
    server.says.resumed();
    server.replies();
    expect(await reply).toMatchObject({ result: RESULT });
    expectNothingLeft();
  });

  test('is lost when its stream cannot be resumed', async () => {
    const { server, reply, expectNothingLeft } = await plainCall();
    server.says.interrupted();
    const details = { mayHaveActed: true };
    server.says.lost(new UpstreamFailure('upstream_unavailable', 'gone', details));
    expect(await reply).toMatchObject({ result: { isError: true } });
    expect(server.did).toEqual(['lease', 'call', 'end']);
    expectNothingLeft();
  });

  test('sends its client away after calls.maxHold, and gives the outcome to the retry', async () => {
    const limits = { ...LIMITS, maxHoldMs: 100 };
    const { server, reply, retry, clock, calls, expectNothingLeft } = await plainCall({ limits });
    clock.advance(100);
    const held = await reply;
    expect(held).toMatchObject({ result: { resultType: 'input_required' } });
    expect(calls.parked).toBe(1);
    server.replies();
    expect(await retry(held, {})).toMatchObject({ result: RESULT });
    clock.advance(LIMITS.redeliverMs);
    expectNothingLeft();
  });

  test('is left to another replica on drain, if the server keeps its stream', async () => {
    const { server, reply, calls, expectNothingLeft } = await plainCall();
    server.keepsEvents();
    calls.endAll();
    expect(requestStateOf(await reply)).toBe('pointer-1');
    expect(server.did).toEqual(['lease', 'call', 'leave']);
    expectNothingLeft();
  });

  test('is cancelled on drain, if nobody else could continue it', async () => {
    const { server, reply, calls, clock, named, expectNothingLeft } = await plainCall();
    calls.endAll();
    expect(await reply).toMatchObject({ failure: { error: { data: { reason: 'draining' } } } });
    await settled();
    clock.advance(LIMITS.cancelGraceMs);
    await settled();
    expect(named('call.ended')).toMatchObject([{ end: 'lost', errorType: 'lost' }]);
    expect(server.did).toEqual(['lease', 'call', 'cancel', 'end']);
    expectNothingLeft();
  });

  // Rule metrics-5.
  test('is cancelled when its client leaves', async () => {
    const { server, reply, client, clock, named, expectNothingLeft } = await plainCall();
    clock.advance(500);
    client.leave();
    expect(await reply).toMatchObject({ failure: { error: { data: { reason: 'cancelled' } } } });
    await settled();
    clock.advance(LIMITS.cancelGraceMs);
    await settled();
    expect(server.did).toEqual(['lease', 'call', 'cancel', 'end']);
    const [ended] = named('call.ended');
    expect(ended, 'without the grace').toMatchObject({ end: 'cancelled', ms: 500, workMs: 500 });
    expect(named('upstream.failed')).toEqual([]);
    expectNothingLeft();
  });

  // Rule metrics-5: The duration of a call lasts until its end or cancellation, without the time of people.
  test('ends when the server takes longer than a call may', async () => {
    const { server, reply, clock, named, expectNothingLeft } = await plainCall();
    clock.advance(LIMITS.maxDurationMs);
    const reason = { data: { reason: 'upstream_timeout' } };
    expect(await reply).toMatchObject({ failure: { error: reason } });
    await settled();
    clock.advance(LIMITS.cancelGraceMs);
    await settled();
    expect(server.did).toEqual(['lease', 'call', 'cancel', 'end']);
    const ms = LIMITS.maxDurationMs;
    expect(named('call.ended')).toMatchObject([
      { end: 'timeout', errorType: 'timeout', ms, workMs: ms },
    ]);
    expect(named('upstream.failed')).toMatchObject([
      {
        code: 'upstream_timeout',
        problem: `the server did not end the call within ${ms} ms (calls.maxDuration)`,
      },
    ]);
    expectNothingLeft();
  });
});

describe('retries that wait at one call', () => {
  // Rule time-and-room-9: At most 16 retries wait for one call. One more gets `overloaded` and `data.retryable`.
  test('are sixteen at most; a further one gets an error that it can be sent again after', async () => {
    const { server, reply, retry, clock } = await plainCall();
    server.asks(7);
    clock.advance(LIMITS.batchWindowMs);
    const asked = await reply;
    const waiting = Array.from({ length: 16 }, () => retry(asked, ACCEPT));
    await settled();
    const data = { reason: 'overloaded', mayHaveActed: 'yes', retryable: true };
    expect(await retry(asked, ACCEPT)).toMatchObject({ failure: { error: { data } } });
    server.replies();
    for (const one of await Promise.all(waiting)) expect(one).toMatchObject({ result: RESULT });
    expect(await retry(asked, ACCEPT), 'once the others have theirs').toMatchObject({
      result: RESULT,
    });
  });
});
