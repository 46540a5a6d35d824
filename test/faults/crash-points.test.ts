/**
 * The owner of a call is killed at each point that a call can be at. Whoever comes back with a pointer
 * gets the outcome from another replica or is told that the call is lost, and never waits in vain; the
 * tool has had its effect at most once; and nothing is left where the call was taken up.
 * @module-tag long
 */
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { CRASH_POINTS, type CrashPoint } from '../fixtures/crashes/crash-points.ts';
import { CrashStage, type Doomed, type StageOptions } from '../fixtures/crashes/crash-testbed.ts';
import { answersOf, reasonOf, text } from '../fixtures/gateways/replica-testbed.ts';
import { callTool } from '../fixtures/clients/modern-client.ts';
import { overseer } from '../fixtures/redis/redis-topologies.ts';

function stageFor(options: StageOptions): () => CrashStage {
  let stage: CrashStage;
  beforeAll(async () => {
    stage = await CrashStage.set(options);
  });
  beforeEach(() => stage?.begin());
  afterAll(() => stage?.strike());
  return () => stage;
}

/** Those at which a claim in the store, or its absence, could make a difference. */
const WITH_STORE = [
  'the call is parked in its second round',
  'answers are on their way and have not arrived',
  'the answers have arrived, and the server is at work',
  'the client has left, and the server does not know yet',
  'the stream to the server broke while it is at work',
];

const STAGES: [string, StageOptions, readonly CrashPoint[]][] = [
  ['keeps its events', { keepsEvents: true, redis: false }, CRASH_POINTS],
  ['keeps nothing', { keepsEvents: false, redis: false }, CRASH_POINTS],
  [
    'keeps its events, and a store',
    { keepsEvents: true, redis: true },
    CRASH_POINTS.filter(({ when }) => WITH_STORE.includes(when)),
  ],
];

describe.for(STAGES)('in front of a server that %s, a crash when', ([, options, points]) => {
  const stage = stageFor(options);
  const tags = options.redis ? ['redis'] : [];

  // Rules reattach-1, metrics-6.
  test.for(points)('$when', { tags }, async (point) => {
    const { rescuer, script } = stage();
    const owner = await stage().owner(point.options);
    const comesBackWith = await point.reach(owner, stage());
    const call = owner.callId;
    await owner.crash();
    const retried = callTool(rescuer.url, point.tool, comesBackWith);
    script.finishing.resolve();
    const done = await retried;
    if (options.keepsEvents) {
      expect(text(done)).toBe(point.outcome);
      expect(script.effects).toHaveLength(1);
    } else {
      expect(reasonOf(done)).toBe('call_lost');
      expect(script.effects).toEqual(point.doneWhenLost);
    }
    expect(await rescuer.recoveries(call)).toEqual(options.keepsEvents ? ['reattach'] : []);
    expect(await rescuer.metric('mrtr_gateway_parked_calls{route="mcp"}')).toBe(0);
  });

  test('the second question has come and was not shown yet', { tags }, async () => {
    const { rescuer, script } = stage();
    const owner = await stage().owner();
    const first = await owner.asked('two', 'a');
    owner.begin('two', first);
    await owner.isAt('batching', 2);
    const call = owner.callId;
    await owner.crash();
    const second = await callTool(rescuer.url, 'two', first);
    if (options.keepsEvents) {
      const done = await callTool(rescuer.url, 'two', answersOf(second, 'b'));
      expect([text(done), script.effects]).toEqual(['a b', ['a b']]);
    } else {
      expect(reasonOf(second)).toBe('call_lost');
      expect(script.effects).toEqual([]);
    }
    expect(await rescuer.recoveries(call)).toEqual(options.keepsEvents ? ['reattach', 'here'] : []);
  });

  test('is over leaves nothing on the replica that stayed', { tags }, async () => {
    const { legacy, rescuer } = stage();
    expect(await rescuer.drain()).toBe(0);
    expect(rescuer.named('gateway.draining')).toMatchObject([{ running: 0, parked: 0 }]);
    expect(rescuer.named('edge.failed')).toEqual([]);
    if (options.keepsEvents) await legacy.isLeft();
  });
});

// Rule failures-6.
describe('a crash before the client has a pointer', () => {
  const stage = stageFor({ keepsEvents: true, redis: false });

  test.for<[string, (owner: Doomed, stage: CrashStage) => Promise<unknown>, number]>([
    [
      'while a session is being opened',
      (owner) => {
        owner.way.cut();
        owner.begin('greet');
        return owner.gateway.saw('call.started');
      },
      0,
    ],
    [
      'while the server is at work',
      (owner, { legacy }) => {
        owner.begin('work');
        return legacy.saw('tools/call', callsOf(legacy) + 1);
      },
      1,
    ],
    [
      'while the question waits for others',
      async (owner, { script }) => {
        // The gateway waits longer for a tool that was seen to ask apart.
        await owner.asked('apart');
        script.finishing.resolve();
        await owner.followed('question-while-parked');
        owner.begin('apart');
        await owner.isAt('batching', 2);
      },
      2,
    ],
  ])('%s ends the request, and the next call is like any other', async ([, reach, calls]) => {
    const { legacy, rescuer, script } = stage();
    const owner = await stage().owner();
    const before = callsOf(legacy);
    await reach(owner, stage());
    expect(await owner.crash()).toEqual(['cut off']);
    expect(callsOf(legacy) - before).toBe(calls);
    script.effects.length = 0;
    const asked = await callTool(rescuer.url, 'greet');
    const done = await callTool(rescuer.url, 'greet', answersOf(asked, 'Ada'));
    expect([text(done), script.effects]).toEqual(['Hello Ada', ['Ada']]);
    expect(callsOf(legacy) - before, 'nobody makes a call anew by itself').toBe(calls + 1);
  });
});

describe.for([
  ['in its pointer alone', false],
  ['in a store as well', true],
] as const)('a fleet that remembers a call %s', ([, redis]) => {
  const stage = stageFor({ keepsEvents: true, redis });
  const tags = redis ? ['redis'] : [];

  test(
    redis
      ? 'has kept the outcome of one that the server ended by itself'
      : 'tells of one that the server ended by itself: only its owner knew how',
    { tags },
    async () => {
      const { legacy, rescuer, script } = stage();
      const owner = await stage().owner();
      const answers = await owner.asked('impatient');
      script.finishing.resolve();
      script.patience.abort();
      await owner.gateway.saw('call.result_ready');
      await legacy.isLeft();
      await owner.crash();
      const found = await callTool(rescuer.url, 'impatient', answers);
      if (redis)
        expect([text(found), await rescuer.recoveries()]).toEqual(['went on', ['outcome']]);
      else expect(reasonOf(found)).toBe('call_lost');
      expect(script.effects).toEqual(['went on']);
    },
  );

  test('calls a tool again whose URLs had to be visited first', { tags }, async () => {
    const { legacy, rescuer, script } = stage();
    const owner = await stage().owner();
    const { response } = await owner.call('pay');
    const [key = ''] = Object.keys(response.result.inputRequests);
    const { requestState } = response.result;
    await owner.crash();
    script.visited = true;
    const answers = { requestState, inputResponses: { [key]: { action: 'accept' } } };
    const before = callsOf(legacy);
    const done = await callTool(rescuer.url, 'pay', answers);
    expect([text(done), script.effects]).toEqual(['paid', ['paid']]);
    expect((await rescuer.recoveries()).at(-1)).toBe('replay');
    expect(callsOf(legacy) - before).toBe(1);
  });

  test('ends one in time that its client had cancelled', { tags }, async () => {
    const { legacy, script } = stage();
    const owner = await stage().owner();
    const bounded = await stage().owner({ route: { calls: { maxDuration: '1s' } } });
    const answers = await owner.asked('slow');
    const leaving = new AbortController();
    owner.begin('slow', answers, leaving.signal);
    await owner.isAt('running');
    leaving.abort();
    await legacy.saw('notifications/cancelled');
    await owner.crash();
    // The server owes a cancelled request no response, so none will ever come.
    const done = await bounded.call('slow', answers);
    expect(reasonOf(done)).toBe('upstream_timeout');
    expect(script.effects).toEqual(['Ada']);
    script.finishing.resolve();
  });

  test('keeps one whose second owner is killed while it resumes it', { tags }, async () => {
    const { rescuer, script } = stage();
    const [owner, second] = await Promise.all([stage().owner(), stage().owner()]);
    const answers = await owner.asked('greet');
    await owner.crash();
    second.way.cut();
    second.begin('greet', answers);
    await second.gateway.saw('call.moved');
    await second.crash();
    const resumed = rescuer.named('call.resumed').length;
    const retried = callTool(rescuer.url, 'greet', answers);
    if (redis) {
      // The retry waits for the second owner as long as that may live.
      await delay(1_000);
      expect([rescuer.named('call.resumed').length, script.effects]).toEqual([resumed, []]);
      await endLeases(stage().redis);
    }
    expect([text(await retried), script.effects]).toEqual(['Hello Ada', ['Ada']]);
  });

  // Rule streams-3.
  test('keeps one whose retry waited for a broken stream', { tags }, async () => {
    const { legacy, rescuer, script } = stage();
    const owner = await stage().owner();
    const answers = await owner.asked('greet');
    owner.way.cut();
    legacy.cut();
    await owner.streamBroke();
    owner.begin('greet', answers);
    await owner.gateway.saw('call.moved', owner.gateway.named('call.moved').length + 1);
    await owner.crash();
    const done = await callTool(rescuer.url, 'greet', answers);
    expect([text(done), script.effects]).toEqual(['Hello Ada', ['Ada']]);
  });
});

/** As the time does it that a replica is not heard of. */
async function endLeases(url: URL): Promise<void> {
  const redis = overseer(url);
  await redis.del(...(await redis.keys('mrtr:*:lease')));
}

function callsOf(legacy: CrashStage['legacy']): number {
  return legacy.methods().filter((method) => method === 'tools/call').length;
}
