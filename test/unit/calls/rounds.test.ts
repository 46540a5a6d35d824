/** How many rounds a client gets in one call, with questions and without, and what ends a call that would need more. */
import { describe, expect, test } from 'vitest';
import type { CallsOptions } from '../../../src/calls/calls.ts';
import type { CallLimits } from '../../../src/calls/machine/states.ts';
import { CLIENT_ROUNDS, MAX_STATE_ONLY } from '../../../src/model/known-clients.ts';
import type { CallReply, EdgeRequest } from '../../../src/model/request.ts';
import {
  callsTestbed,
  FIRST,
  inputRequestsOf,
  LIMITS,
  requestStateOf,
  settled,
  waitingClient,
  type CallsTestbed,
} from '../../fixtures/calls-testbed.ts';

const ROUTE: CallLimits = {
  ...LIMITS,
  batchWindowMs: 1,
  batchLimitMs: 150,
  maxRounds: 10,
  maxStateOnly: MAX_STATE_ONLY,
  clientRounds: CLIENT_ROUNDS,
  maxShownQuestions: 16,
  maxOpenQuestions: 80,
};
const CLAUDE: Partial<EdgeRequest> = { clientInfo: { name: 'Anthropic/ClaudeAI', version: '1' } };
const STEP_MS = 10;

/** What a server does in a call, by the time in ms since it began. */
type Script = Readonly<Record<number, 'asks' | 'replies'>>;

interface Played extends CallsTestbed {
  /** How many questions each round had. */
  readonly rounds: readonly number[];
  readonly last: CallReply;
}

/** Plays a call of a client that takes so long for each answer. */
async function play(
  script: Script,
  limits: Partial<CallLimits>,
  client: Partial<EdgeRequest> = {},
  options: Partial<CallsOptions> & { readonly answersAfterMs?: number } = {},
): Promise<Played> {
  const testbed = callsTestbed({ ...options, limits: { ...ROUTE, ...limits } });
  const { calls, clock, server } = testbed;
  const rounds: number[] = [];
  const serve = (more: Partial<EdgeRequest>) =>
    calls.serve({ ...FIRST, ...client, ...more }, waitingClient().waiter);
  const answered = async (reply: Promise<CallReply>): Promise<CallReply> => {
    const asked = await reply;
    if (asked.kind === 'failed' || asked.result['resultType'] !== 'input_required') return asked;
    const keys = Object.keys(inputRequestsOf(asked));
    rounds.push(keys.length);
    const inputResponses =
      keys.length === 0
        ? null
        : Object.fromEntries(keys.map((key) => [key, { action: 'accept', content: {} }]));
    const { answersAfterMs = 0 } = options;
    if (answersAfterMs > 0) {
      await new Promise<void>((resolve) => void clock.setTimer(answersAfterMs, resolve));
    }
    return answered(serve({ inputResponses, requestState: requestStateOf(asked) }));
  };
  const replied = answered(serve({}));
  const atEnd = { is: false };
  void replied.then(() => (atEnd.is = true));
  await settled();
  const lastMs = Math.max(...Object.keys(script).map(Number)) + 2_000;
  let asked = 0;
  for (let atMs = 0; atMs <= lastMs && !atEnd.is; atMs += STEP_MS) {
    if (script[atMs] === 'asks') server.asks((asked += 1));
    if (script[atMs] === 'replies') server.replies();
    clock.advance(STEP_MS);
    await settled();
    await settled();
  }
  return { ...testbed, rounds, last: await replied };
}

/** Questions that come one after the other, whether or not they are answered. */
const burst = (count: number, gapMs: number): Script => ({
  ...Object.fromEntries(
    Array.from({ length: count }, (_, index) => [index * gapMs, 'asks'] as const),
  ),
  [count * gapMs + 1_000]: 'replies',
});

const DONE = { kind: 'result', result: { resultType: 'complete' } };

describe('a round without a question', () => {
  // Rule time-and-room-3.
  test('is given at most twice in a call, and then the client waits to the end', async () => {
    const { rounds, last } = await play({ 9_000: 'replies' }, { maxHoldMs: 2_000 });
    expect(rounds).toEqual([0, 0]);
    expect(last).toMatchObject(DONE);
  });

  // Rule time-and-room-3.
  test('is not given where no connection is bounded', async () => {
    const { rounds, last } = await play({ 9_000: 'replies' }, {});
    expect(rounds).toEqual([]);
    expect(last).toMatchObject(DONE);
  });

  // Rule time-and-room-3.
  test('uses up no round of questions', async () => {
    const script = { 14_000: 'asks', 15_000: 'replies' } as const;
    const { rounds, last } = await play(script, { maxHoldMs: 1_000, maxRounds: 1 });
    expect(rounds).toEqual([0, 0, 1]);
    expect(last).toMatchObject(DONE);
  });

  // Rule time-and-room-3.
  test('is given twice in all, also when questions come between', async () => {
    const script = { 5_000: 'asks', 10_000: 'asks', 15_000: 'replies' } as const;
    const { rounds, last } = await play(script, { maxHoldMs: 3_000 });
    expect(rounds).toEqual([0, 1, 0, 1]);
    expect(last).toMatchObject(DONE);
  });

  // Rule time-and-room-3.
  test('is not given to a client that ends the call with it', async () => {
    const { rounds, last } = await play({ 9_000: 'replies' }, { maxHoldMs: 2_000 }, CLAUDE);
    expect(rounds).toEqual([]);
    expect(last).toMatchObject(DONE);
  });

  // Rule time-and-room-3.
  test('is not given to such a client when the process stops: its call is cancelled, and it is told', async () => {
    const { calls, server } = callsTestbed({ limits: ROUTE });
    server.keepsEvents();
    const reply = calls.serve({ ...FIRST, ...CLAUDE }, waitingClient().waiter);
    await settled();
    calls.stopNewCalls();
    calls.endAll();
    const { failure } = (await reply) as Extract<CallReply, { kind: 'failed' }>;
    expect(failure.error).toMatchObject({ data: { reason: 'draining', mayHaveActed: 'unknown' } });
    expect(failure.error.message).toMatch(/check whether it took effect before you call again/);
    await settled();
    expect(server.did.filter((each) => each === 'cancel')).toHaveLength(1);
  });
});

describe('questions that follow each other, and wait for no answer,', () => {
  // Rule shown-3.
  test.each([0, 40, 60, 400])(
    'take no more rounds than every official client stands, if each answer takes %i ms',
    async (answersAfterMs) => {
      const { rounds, last } = await play(burst(12, 50), {}, {}, { answersAfterMs });
      expect(last).toMatchObject(DONE);
      expect(rounds.reduce((all, count) => all + count, 0)).toBe(12);
      expect(rounds.length).toBeLessThanOrEqual(CLIENT_ROUNDS);
    },
  );
});

describe('a tool that asks in more rounds than there are', () => {
  const eleven = burst(11, 1_000);

  // Rule shown-7.
  test('is cancelled once, and its client and the log are told which tool and limit', async () => {
    const { rounds, last, server, named, clock } = await play(eleven, {});
    clock.advance(ROUTE.cancelGraceMs);
    expect(rounds).toEqual(Array(10).fill(1));
    const { error } = (last as Extract<CallReply, { kind: 'failed' }>).failure;
    expect(error.data).toMatchObject({ reason: 'too_many_rounds', mayHaveActed: 'yes' });
    expect(error.message).toMatch(
      /^"greet" asked for input in more than 10 rounds \(parking\.maxRounds\)/,
    );
    expect(server.did.filter((each) => each === 'cancel')).toHaveLength(1);
    expect(named('call.ended')).toMatchObject([
      { target: 'greet', end: 'refused', limit: 'parking.maxRounds' },
    ]);
  });
});
