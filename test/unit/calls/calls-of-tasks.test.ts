/** Calls for which a task waits: how long they live, and what a process that stops owes them. */
import { expect, test } from 'vitest';
import type { CallsOptions } from '../../../src/calls/calls.ts';
import { MAX_STATE_ONLY } from '../../../src/model/known-clients.ts';
import type { CallReply, EdgeRequest } from '../../../src/model/request.ts';
import type { JsonObject } from '../../../src/protocol/json.ts';
import {
  callsTestbed,
  FIRST,
  LIMITS,
  openSealer,
  requestStateOf,
  settled,
  waitingClient,
} from '../../fixtures/calls-testbed.ts';

const DAY_MS = 24 * 3_600_000;
const ANSWER = { 'elicitation-1': { action: 'accept', content: {} } };

/** A call that has asked its client, who knows tasks. Its server keeps the stream. */
async function askedCall(options: Partial<CallsOptions> = {}) {
  const testbed = callsTestbed({
    promotion: () => ({ afterMs: 1_000, onQuestion: true, ttlMs: DAY_MS }),
    longestCallMs: DAY_MS,
    ...options,
  });
  const { clock, server } = testbed;
  server.keepsEvents();
  const first = testbed.call();
  await settled();
  server.asks(7);
  clock.advance(LIMITS.batchLimitMs);
  return { ...testbed, asked: await first.reply };
}

/** The retry of a task that ends at a time. */
function retryOfTask(
  { calls, clock }: Awaited<ReturnType<typeof askedCall>>,
  asked: CallReply,
  inputResponses: JsonObject | null,
  endsAtMs: number,
  moved = () => {},
  state = { isGone: false },
): Promise<CallReply> {
  const task: EdgeRequest['task'] = {
    get credentialsKey() {
      return state.isGone ? null : FIRST.caller.credentialsKey;
    },
    get leftMs() {
      return endsAtMs - clock.now();
    },
    endsWithProcess: true,
    moved,
    learned: () => {},
  };
  const requestState = requestStateOf(asked);
  return calls.serve({ ...FIRST, inputResponses, requestState, task }, waitingClient().waiter);
}

// Rule promoted-6.
test('a call that was parked for long lives as long as its task', async () => {
  const testbed = await askedCall();
  const { clock, server, asked, logged } = testbed;
  clock.advance(LIMITS.parkTtlMs - 1);
  const endsAtMs = clock.now() + DAY_MS;
  await retryOfTask(testbed, asked, {}, endsAtMs);
  clock.advance(DAY_MS - 1);
  expect(logged).not.toContain('call.ended');
  const reply = retryOfTask(testbed, asked, ANSWER, endsAtMs);
  await settled();
  server.replies();
  expect(await reply).toMatchObject({ kind: 'result', result: { resultType: 'complete' } });
});

// Rule promoted-6.
test('a call that another replica resumes late in the life of its task is not over', async () => {
  const sealer = openSealer();
  const dead = await askedCall({ sealer, leaveWhenParked: () => true });
  const endsAtMs = dead.clock.now() + DAY_MS;
  const heir = await askedCall({ sealer, replica: { id: 'heir', instance: 'heir' } });
  heir.clock.advance(DAY_MS - 60_000);
  const reply = retryOfTask(heir, dead.asked, ANSWER, endsAtMs);
  await settled();
  heir.clock.advance(10);
  heir.server.says.resumed();
  await settled();
  heir.server.replies();
  expect(await reply).toMatchObject({ kind: 'result', result: { resultType: 'complete' } });
});

// Rule promoted-6.
test('a call that was left to its server can be resumed here as long as its task lives', async () => {
  const testbed = await askedCall({ leaveWhenParked: () => true });
  const { clock, server, asked } = testbed;
  expect(server.did).toContain('leave');
  const endsAtMs = clock.now() + DAY_MS;
  clock.advance(LIMITS.callTtlMs * 2);
  const reply = retryOfTask(testbed, asked, ANSWER, endsAtMs);
  await settled();
  server.says.resumed();
  await settled();
  server.replies();
  expect(await reply).toMatchObject({ kind: 'result', result: { resultType: 'complete' } });
});

// Rule time-and-room-8.
test('a call that is released again is no news for its task', async () => {
  const testbed = await askedCall({ leaveWhenParked: () => true });
  const { clock, server, asked } = testbed;
  let news = 0;
  const reply = retryOfTask(testbed, asked, {}, clock.now() + DAY_MS, () => (news += 1));
  await settled();
  server.says.resumed();
  expect(await reply).toMatchObject({ result: { resultType: 'input_required' } });
  expect(server.did.filter((did) => did === 'leave')).toHaveLength(2);
  expect(news).toBe(0);
});

// Rule shared-13.
test('a call replies within a minute to a task that has gone to another replica', async () => {
  const testbed = await askedCall();
  const { clock, server, asked, calls } = testbed;
  const endsAtMs = clock.now() + DAY_MS;
  const task = { isGone: false };
  const wait = (reply: CallReply, answers: JsonObject | null) =>
    retryOfTask(testbed, reply, answers, endsAtMs, () => {}, task);
  const answered = wait(asked, ANSWER);
  await settled();
  clock.advance(1_000);
  const waiting = wait(await answered, null);
  await settled();
  clock.advance(600_000);
  expect(await Promise.race([waiting, settled()])).toBeUndefined();
  task.isGone = true;
  clock.advance(60_000);
  expect(await waiting).toMatchObject({ result: { resultType: 'input_required' } });
  expect([server.did.includes('cancel'), calls.parked]).toEqual([false, 0]);
});

// Rule drain-4.
test('a process that stops keeps the call of a task that ends with it', async () => {
  const testbed = await askedCall();
  const { calls, clock, asked } = testbed;
  expect(calls.callsOnlyHere).toBe(0);
  await retryOfTask(testbed, asked, {}, clock.now() + DAY_MS);
  expect(calls.callsOnlyHere).toBe(1);
});

// Rule time-and-room-3.
test('a client that retries beside the task of its call is told to retry no more often than any other', async () => {
  const testbed = await askedCall();
  const { calls, clock, server, asked } = testbed;
  const endsAtMs = clock.now() + DAY_MS;
  const retries = (reply: CallReply, inputResponses: JsonObject | null) => [
    retryOfTask(testbed, reply, inputResponses, endsAtMs),
    calls.serve(
      { ...FIRST, inputResponses, requestState: requestStateOf(reply) },
      waitingClient().waiter,
    ),
  ];
  let waiting = retries(asked, ANSWER);
  for (let round = 1; round <= MAX_STATE_ONLY; round += 1) {
    await settled();
    clock.advance(60_000);
    const [task, client] = await Promise.all(waiting);
    const told = { result: { resultType: 'input_required', inputRequests: {} } };
    expect([task, client]).toMatchObject([told, told]);
    waiting = retries(client!, null);
  }
  await settled();
  clock.advance(60_000);
  await settled();
  server.replies();
  expect(await waiting[1]).toMatchObject({ result: { resultType: 'complete' } });
});

// Rule shared-13.
test('a task that goes to another replica while its answers are on their way is told to retry once the server has them', async () => {
  const testbed = await askedCall();
  const { clock, server, asked, calls } = testbed;
  const task = { isGone: false };
  const answered = retryOfTask(testbed, asked, ANSWER, clock.now() + DAY_MS, () => {}, task);
  task.isGone = true;
  calls.sendBack(FIRST, requestStateOf(asked));
  expect(await answered).toMatchObject({ result: { resultType: 'input_required' } });
  expect(server.did).not.toContain('cancel');
});
