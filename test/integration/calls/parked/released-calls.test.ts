/** Calls that are left to their server while their client is asked (`parking.release`), in front of an event store. */
import { describe, expect, test } from 'vitest';
import { callTool, type Exchanged } from '../../../fixtures/clients/modern-client.ts';
import {
  answersOf,
  legacyServer,
  reasonOf,
  text,
} from '../../../fixtures/gateways/replica-testbed.ts';
import type { GatewayOverrides } from '../../../fixtures/gateways/gateway.ts';
import { testGateway } from '../../../fixtures/gateways/test-gateway.ts';
import { advanceUntil, ManualClock } from '../../../fixtures/manual-clock.ts';
import {
  askBeside,
  askName,
  type LegacyServerOptions,
} from '../../../fixtures/servers/legacy-server.ts';

const ADA = { headers: { 'x-user': 'ada' } };
/** How long a broken stream waits before it is resumed, in ms. */
const BACKOFF_MS = 500;
const IDLE_MS = 60_000;
const TTL_MS = 600_000;

async function stage(release: 'auto' | 'when-resumable', limits: GatewayOverrides['limits'] = {}) {
  const effects: string[] = [];
  const working = Promise.withResolvers<void>();
  let closesStream = false;
  const tools: LegacyServerOptions['tools'] = {
    greet: async (call) => {
      const name = askName(call);
      if (closesStream) call.extra.closeSSEStream?.();
      effects.push(await name);
      return `Hello ${effects.at(-1)}`;
    },
    both: async (asking) => {
      const name = await askName(asking);
      return `${name} and ${await askBeside(asking)}`;
    },
    work: async () => {
      await working.promise;
      return 'done';
    },
    look: async () => 'nothing',
  };
  const legacy = await legacyServer({ tools, keepsEvents: true });
  const clock = new ManualClock();
  const gateway = await testGateway(legacy.url, {
    clock,
    identity: { source: 'header', header: 'x-user' },
    parking: { release, ttlMs: TTL_MS },
    limits,
    admin: true,
    sessions: { idleTimeoutMs: IDLE_MS },
  });
  const call = (tool: string, more: object = {}) =>
    advanceUntil(clock, callTool(gateway.url, tool, more, ADA), BACKOFF_MS);
  const answer = (asked: Exchanged, name: string) => call('greet', answersOf(asked, name));
  const ended = () => gateway.log.named('call.ended').map(({ end }) => end);
  const metric = async (name: string) => {
    const metrics = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
    return Number(
      metrics
        .split('\n')
        .find((line) => line.startsWith(`${name} `))
        ?.split(' ')[1],
    );
  };
  const recoveries = () => gateway.log.named('call.resumed').map(({ recoveredBy }) => recoveredBy);
  /** Makes a call whose stream the server closes first, so that its question comes on a resumed one. */
  const learn = async () => {
    closesStream = true;
    const held = await call('greet');
    closesStream = false;
    expect(ended(), 'nothing is known of the server yet').toEqual([]);
    expect(text(await answer(held, 'Ada'))).toBe('Hello Ada');
    expect(gateway.log.named('upstream.resumption')).toEqual([
      { route: 'mcp', delivers: true, cause: 'delivered' },
    ]);
  };
  return {
    effects,
    working,
    legacy,
    clock,
    gateway,
    call,
    answer,
    ended,
    metric,
    recoveries,
    learn,
  };
}

describe('with `parking.release: auto`', () => {
  // Rule time-and-room-12: With `parking.release: auto`, calls are released once the server has delivered a reply on
  // a resumed stream.
  test('a call is released only once its server was seen to deliver', async () => {
    const { effects, legacy, call, answer, ended, recoveries, learn } = await stage('auto');
    await learn();
    const [asked, other] = [await call('greet'), await call('greet')];
    expect(ended()).toEqual(['complete', 'left', 'left']);
    expect(text(await answer(other, 'Eve'))).toBe('Hello Eve');
    expect(text(await answer(asked, 'Joe'))).toBe('Hello Joe');
    expect(recoveries()).toEqual(['here', 'reattach', 'reattach']);
    expect(effects).toEqual(['Ada', 'Eve', 'Joe']);
    expect(legacy.sessions).toBe(1);
  });

  // Rule time-and-room-12.
  test('a call that its server has lost ends with a clear error, and later ones are not released', async () => {
    const { effects, legacy, gateway, call, answer, ended, learn } = await stage('auto');
    await learn();
    const asked = await call('greet');
    await legacy.forget();
    expect(reasonOf(await answer(asked, 'Eve'))).toBe('call_lost');
    expect(gateway.log.named('upstream.resumption').at(-1)).toEqual({
      ...{ route: 'mcp', delivers: false, cause: 'refused' },
    });
    const before = ended();
    const held = await call('greet');
    expect(ended()).toEqual(before);
    expect(text(await answer(held, 'Joe'))).toBe('Hello Joe');
    expect(effects).toEqual(['Ada', 'Joe']);
  });
});

describe('the record of a released call', () => {
  // Rule time-and-room-14: A released call counts towards the limits of parked calls until its retry, or until it
  // expires (`call.release_expired`).
  test.each([
    { maxParkedCalls: 2, maxParkedCallsPerPrincipal: 2 },
    { maxParkedCallsPerPrincipal: 2 },
  ])(
    'counts towards the limits until its client comes back or its time is over: %j',
    async (limits) => {
      const { clock, gateway, call, answer, metric } = await stage('when-resumable', limits);
      const [asked] = [await call('greet'), await call('greet')];
      expect(reasonOf(await call('greet'))).toBe('too_many_parked_calls');
      expect(text(await answer(asked, 'Ada'))).toBe('Hello Ada');
      const left = await call('greet');
      expect(left.response.result.resultType).toBe('input_required');
      expect(reasonOf(await call('greet'))).toBe('too_many_parked_calls');
      expect(await metric('mrtr_gateway_released_calls{route="mcp"}')).toBe(2);
      clock.advance(TTL_MS);
      expect(gateway.log.named('call.release_expired')).toHaveLength(2);
      expect(await metric('mrtr_gateway_released_calls{route="mcp"}')).toBe(0);
      expect(await metric('mrtr_gateway_call_ends_total{route="mcp",end="abandoned"}')).toBe(2);
      expect((await call('greet')).response.result.resultType).toBe('input_required');
    },
  );
});

test('a call that asks beside its stream is kept for a client that comes again with the round before', async () => {
  const { call, ended } = await stage('when-resumable');
  const first = await call('both');
  expect(ended()).toEqual(['left']);
  const retry = () => call('both', answersOf(first, 'Ada'));
  const lost = await retry();
  expect(ended()).toEqual(['left']);
  const again = await retry();
  expect(again.response.result).toEqual(lost.response.result);
  expect(text(await call('both', answersOf(again, 'Eve')))).toBe('Ada and Eve');
});

describe('the session of a released call', () => {
  test('goes on for the other calls of its caller', async () => {
    const { legacy, working, call, answer, recoveries } = await stage('when-resumable');
    expect(text(await answer(await call('greet'), 'Ada'))).toBe('Hello Ada');
    const work = call('work');
    await legacy.saw('tools/call', 2);
    const asked = await call('greet');
    working.resolve();
    expect(text(await work)).toBe('done');
    expect(text(await answer(asked, 'Eve'))).toBe('Hello Eve');
    expect(recoveries()).toEqual(['reattach', 'reattach']);
    expect(legacy.methods().filter((method) => method === 'initialize')).toHaveLength(2);
    expect(legacy.sessions).toBe(1);
  });

  test.each([
    ['another call', async ({ call }: Stage) => text(await call('look')), 'nothing'],
    [
      'another released call',
      async ({ call, answer }: Stage) => text(await answer(await call('greet'), 'Ada')),
      'Hello Ada',
    ],
  ])('is not ended when it is idle after %s', async (_what, use, said) => {
    const staged = await stage('when-resumable');
    const { legacy, clock, call, answer } = staged;
    const asked = await call('greet');
    expect(await use(staged)).toBe(said);
    clock.advance(IDLE_MS);
    await call('look');
    expect(legacy.sessions).toBe(1);
    expect(text(await answer(asked, 'Eve'))).toBe('Hello Eve');
  });
});

type Stage = Awaited<ReturnType<typeof stage>>;
