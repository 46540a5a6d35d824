/** What the log says of retries: each one that is served is one `call.resumed`, whatever state its call is in. */
import { describe, expect, test } from 'vitest';
import type { CallsOptions } from '../../../src/calls/calls.ts';
import type { Directory } from '../../../src/model/store.ts';
import type { CallReply } from '../../../src/model/request.ts';
import { LegacyErrorCode } from '../../../src/protocol/json-rpc.ts';
import type { Sealer } from '../../../src/seal/seal.ts';
import { UpstreamFailure } from '../../../src/model/upstream-failure.ts';
import {
  callsTestbed,
  FIRST,
  LIMITS,
  openSealer,
  requestStateOf,
  RESULT,
  settled,
  waitingClient,
  type CallsTestbed,
} from '../../fixtures/calls-testbed.ts';

const ACCEPT = { 'elicitation-1': { action: 'accept', content: {} } };
const LATE_MS = 7_000;
const HEIR = { id: 'heir', instance: 'heir' };
const HELD = { ...LIMITS, maxHoldMs: 100 };

/** A call that has asked its client. Its server keeps the stream. */
async function askedCall(options: Partial<CallsOptions> = {}) {
  const testbed = callsTestbed(options);
  testbed.server.keepsEvents();
  const { reply } = testbed.call();
  await settled();
  testbed.server.asks(1);
  testbed.clock.advance(LIMITS.batchWindowMs);
  return { ...testbed, asked: await reply };
}

/** A call whose client was told to come again. */
async function heldCall(options: Partial<CallsOptions> = {}) {
  const testbed = callsTestbed({ limits: HELD, ...options });
  testbed.server.keepsEvents();
  const { reply } = testbed.call();
  await settled();
  testbed.clock.advance(HELD.maxHoldMs);
  return { ...testbed, held: await reply };
}

/** A sealer whose pointers were issued when the test says so. */
function sealerIssuing(atMs: number): Sealer {
  const sealer = openSealer();
  const open: Sealer['open'] = (requestState, expected) => ({
    ...sealer.open(requestState, expected),
    issuedAtSeconds: atMs / 1_000,
  });
  return { seal: (pointer) => sealer.seal(pointer), open };
}

const START_MS = callsTestbed().clock.now();

/** The replica that a retry reaches when the one that asked is gone, and the reply that its client has. */
async function heirOf(
  lastReply: (options: Partial<CallsOptions>) => Promise<CallReply>,
  { issuedAtMs = START_MS, ...options }: Partial<CallsOptions> & { issuedAtMs?: number } = {},
) {
  const sealer = sealerIssuing(issuedAtMs);
  const last = await lastReply({ sealer, ...options });
  const heir = callsTestbed({ sealer, replica: HEIR, ...options });
  heir.clock.advance(LATE_MS);
  return { ...heir, last };
}

const parkedElsewhere = async (options: Partial<CallsOptions>) => (await askedCall(options)).asked;
const idleElsewhere = async (options: Partial<CallsOptions>) => (await heldCall(options)).held;

const resumed = ({ named }: CallsTestbed) =>
  named('call.resumed').map((line) => {
    const { recoveredBy, waitedMs } = line as { recoveredBy: string; waitedMs?: number };
    return waitedMs === undefined ? recoveredBy : [recoveredBy, waitedMs];
  });

// Rule metrics-6: Each retry that is served is logged (`call.resumed`) and counted (`mrtr_gateway_resumes_total`).
describe('a retry that is served here', () => {
  test('is logged with the time of its answer, once', async () => {
    const testbed = await askedCall();
    testbed.clock.advance(LATE_MS);
    const reply = testbed.retry(testbed.asked, ACCEPT);
    await settled();
    expect(resumed(testbed)).toEqual([['here', LATE_MS]]);
    testbed.server.replies();
    expect(await reply).toMatchObject({ result: RESULT });
    expect(resumed(testbed)).toHaveLength(1);
  });

  test('is logged when it joins one that waits, and when it comes for the outcome again', async () => {
    const testbed = await askedCall();
    const replies = [1, 2].map(() => testbed.retry(testbed.asked, ACCEPT));
    await settled();
    testbed.server.replies();
    replies.push(testbed.retry(testbed.asked, ACCEPT));
    expect(await Promise.all(replies)).toMatchObject(replies.map(() => ({ result: RESULT })));
    expect(resumed(testbed)).toEqual([['here', 0], 'here', 'here']);
  });

  test('is logged when it is asked again, before its answer is', async () => {
    const testbed = await askedCall();
    await testbed.retry(testbed.asked, {});
    expect(resumed(testbed)).toEqual(['here']);
    expect(testbed.logged.filter((name) => /parked|resumed/.test(name))).toEqual([
      'call.parked',
      'call.resumed',
      'call.parked',
    ]);
    testbed.clock.advance(LATE_MS);
    void testbed.retry(testbed.asked, ACCEPT);
    expect(resumed(testbed)).toEqual(['here', ['here', LATE_MS]]);
  });

  test('is logged when it waits on, without a time of an answer', async () => {
    const testbed = await heldCall();
    void testbed.retry(testbed.held, {});
    expect(resumed(testbed)).toEqual(['here']);
  });

  test('is logged when it comes for an outcome, and nothing was answered', async () => {
    const testbed = await askedCall();
    testbed.server.replies();
    testbed.clock.advance(LATE_MS);
    expect(await testbed.retry(testbed.asked, ACCEPT)).toMatchObject({ result: RESULT });
    expect(resumed(testbed)).toEqual(['here']);
    expect(testbed.named('audit')).toEqual([]);
  });

  test('is not logged when it is refused', async () => {
    const testbed = await askedCall();
    void testbed.retry(testbed.asked, ACCEPT);
    await settled();
    const other = { 'elicitation-1': { action: 'decline' } };
    expect(await testbed.retry(testbed.asked, other)).toMatchObject({ kind: 'failed' });
    expect(resumed(testbed)).toEqual([['here', 0]]);
  });
});

// Rule metrics-6.
test('a call whose client never visits its URLs was not resumed', async () => {
  const testbed = callsTestbed();
  const profile = { ...FIRST.profile, elicitationUrl: true };
  const reply = testbed.calls.serve({ ...FIRST, profile }, waitingClient().waiter);
  await settled();
  const elicitation = {
    mode: 'url',
    message: 'Pay',
    url: 'https://pay.example/',
    elicitationId: '1',
  };
  testbed.server.says.replied({
    error: {
      code: LegacyErrorCode.urlElicitationRequired,
      message: 'visit first',
      data: { elicitations: [elicitation] },
    },
  });
  await reply;
  testbed.clock.advance(LIMITS.parkTtlMs);
  expect(testbed.named('call.ended')).toMatchObject([{ end: 'expired' }]);
  expect(resumed(testbed)).toEqual([]);
});

// Rule metrics-6.
describe('a retry that resumes the stream of another replica', () => {
  test('is logged when the answers go upstream, with the time since they were asked for', async () => {
    const testbed = await heirOf(parkedElsewhere);
    const reply = testbed.retry(testbed.last, ACCEPT);
    await settled();
    expect(resumed(testbed)).toEqual([]);
    testbed.server.says.resumed();
    await settled();
    testbed.server.replies();
    expect(await reply).toMatchObject({ result: RESULT });
    expect(resumed(testbed)).toEqual([['reattach', LATE_MS]]);
    expect(testbed.named('audit')).toMatchObject([{ recoveredBy: 'reattach', waitedMs: LATE_MS }]);
  });

  test.each([
    ['parked', parkedElsewhere, ACCEPT],
    ['runningDetached', idleElsewhere, {}],
  ])(
    'is logged when a %s call ends at once, and nothing was answered',
    async (_, last, answers) => {
      const testbed = await heirOf(last, { limits: HELD });
      const reply = testbed.retry(testbed.last, answers);
      await settled();
      testbed.server.replies();
      expect(await reply).toMatchObject({ result: RESULT });
      expect(resumed(testbed)).toEqual(['reattach']);
      expect(testbed.named('audit')).toEqual([]);
    },
  );

  test('is logged when it waits on', async () => {
    const testbed = await heirOf(idleElsewhere, { limits: HELD });
    void testbed.retry(testbed.last, {});
    await settled();
    testbed.server.says.resumed();
    await settled();
    expect(resumed(testbed)).toEqual(['reattach']);
    expect(testbed.named('audit')).toEqual([]);
  });

  test('is logged when it is asked again: the next one finds its call here', async () => {
    const testbed = await heirOf(parkedElsewhere);
    const again = testbed.retry(testbed.last, {});
    await settled();
    testbed.server.says.resumed();
    void testbed.retry(await again, ACCEPT);
    expect(resumed(testbed)).toEqual(['reattach', ['here', LATE_MS]]);
  });

  test('is logged as the one that resumed, and others as served here', async () => {
    const testbed = await heirOf(parkedElsewhere);
    const replies = [1, 2].map(() => testbed.retry(testbed.last, ACCEPT));
    await settled();
    testbed.server.replies();
    expect(await Promise.all(replies)).toMatchObject(replies.map(() => ({ result: RESULT })));
    expect(resumed(testbed)).toEqual(['reattach', 'here']);
  });

  test('is not logged when the stream is gone', async () => {
    const testbed = await heirOf(parkedElsewhere);
    const reply = testbed.retry(testbed.last, ACCEPT);
    await settled();
    const details = { mayHaveActed: true };
    testbed.server.says.lost(new UpstreamFailure('upstream_unavailable', 'gone', details));
    await reply;
    expect(testbed.named('call.ended')).toMatchObject([{ end: 'lost' }]);
    expect(resumed(testbed)).toEqual([]);
  });

  test('has waited for no time if the clock of the replica that asked is ahead', async () => {
    const testbed = await heirOf(parkedElsewhere, { issuedAtMs: START_MS + 60_000 });
    void testbed.retry(testbed.last, ACCEPT);
    await settled();
    testbed.server.says.resumed();
    await settled();
    expect(resumed(testbed)).toEqual([['reattach', 0]]);
  });
});

// Rule metrics-6.
test('a retry that makes its call again is logged once', async () => {
  const options = { mayReplay: async () => true, reattach: false };
  const testbed = await heirOf(parkedElsewhere, options);
  const reply = testbed.retry(testbed.last, ACCEPT);
  await settled();
  testbed.server.replies();
  expect(await reply).toMatchObject({ result: RESULT });
  expect(resumed(testbed)).toEqual(['replay']);
});

describe('a retry that could make its call again', () => {
  test('does not for a client that leaves while the owner is looked for, and the next one does', async () => {
    const { promise: isAlive, resolve: tell } = Promise.withResolvers<boolean>();
    const directory: Partial<Directory> = {
      claim: async () => ({ type: 'claimed', fencingToken: 1 }),
      release: async () => {},
      isAlive: () => isAlive,
      read: async () => null,
      end: async () => 'kept',
    };
    const options = { mayReplay: async () => true, directory: directory as Directory };
    const testbed = await heirOf(parkedElsewhere, options);
    const { waiter, leave } = waitingClient();
    const left = testbed.retry(testbed.last, ACCEPT, waiter);
    await settled();
    const details = { mayHaveActed: true };
    testbed.server.says.lost(new UpstreamFailure('upstream_unavailable', 'gone', details));
    await settled();
    leave();
    tell(false);
    await left;
    expect(testbed.server.did).not.toContain('lease');
    const next = testbed.retry(testbed.last, ACCEPT);
    await settled();
    testbed.server.replies();
    expect(await next).toMatchObject({ result: RESULT });
  });

  test('leaves nothing behind if its answers are ill-formed and a task waits for it', async () => {
    const options = { mayReplay: async () => true, reattach: false };
    const testbed = await heirOf(parkedElsewhere, options);
    const task = {
      leftMs: 60_000,
      credentialsKey: null,
      endsWithProcess: true,
      moved: () => {},
      learned: () => {},
    };
    const inputResponses = { 'elicitation-1': 'ill-formed' };
    const requestState = requestStateOf(testbed.last);
    const request = { ...FIRST, inputResponses, requestState, task };
    const reply = await testbed.calls.serve(request, waitingClient().waiter);
    expect(reply).toMatchObject({ kind: 'failed' });
    const loggedBefore = [...testbed.logged];
    testbed.clock.advance(LIMITS.callTtlMs);
    expect(testbed.logged).toEqual(loggedBefore);
  });
});
