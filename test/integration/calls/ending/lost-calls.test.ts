/** Calls whose server forgot them while a client was disconnected, or waited: told so, or made anew where that is allowed. */
import { expect, test } from 'vitest';
import { systemClock, type Clock } from '../../../../src/lib/clock.ts';
import { reasonOf, text } from '../../../fixtures/gateways/replica-testbed.ts';
import { startTestGateway, type GatewayOverrides } from '../../../fixtures/gateways/gateway.ts';
import type { Tool } from '../../../fixtures/servers/legacy/tools.ts';
import { askName, LegacyServer } from '../../../fixtures/servers/legacy-server.ts';
import { accept, callTool, type Exchanged } from '../../../fixtures/clients/modern-client.ts';
import { stopAfterTest } from '../../../fixtures/stop-after-test.ts';

const REPLAYED: GatewayOverrides = {
  continuation: { replay: { tools: ['greet'], annotated: false } },
};

async function start(greet: Tool, overrides: GatewayOverrides) {
  const server = await LegacyServer.start({ tools: { greet } });
  stopAfterTest(() => server.stop());
  const gateway = await startTestGateway(server.url, overrides);
  stopAfterTest(() => gateway.close());
  const calls = () => server.methods().filter((method) => method === 'tools/call').length;
  const forget = async () => {
    await server.forget();
    server.cut();
  };
  return { server, gateway, url: gateway.url, calls, forget };
}

const greet: Tool = async (call) => `Hello ${await askName(call)}`;
const answers = ({ response }: Exchanged, answer: unknown = accept({ name: 'Ada' })) => {
  const { requestState, inputRequests } = response.result;
  return {
    requestState,
    inputResponses: Object.fromEntries(Object.keys(inputRequests).map((key) => [key, answer])),
  };
};

// Rule replay-2: A lost call is replayed once for all of its retries, at all replicas with Redis.
test('a call that several retries wait for is replayed once, and they share its outcome', async () => {
  const first = Promise.withResolvers<never>();
  const finishing = Promise.withResolvers<void>();
  let made = 0;
  const { server, gateway, url, calls, forget } = await start(async (call) => {
    made += 1;
    const isFirst = made === 1;
    const name = await askName(call);
    await (isFirst ? first.promise : finishing.promise);
    return `Hello ${name}`;
  }, REPLAYED);
  const retry = answers(await callTool(url, 'greet'));
  const retries = [1, 2, 3].map(() => callTool(url, 'greet', retry));
  await server.saw('response');
  await forget();
  await server.saw('response', 2);
  finishing.resolve();
  const outcomes = await Promise.all(retries);
  expect(outcomes.map(text)).toEqual(['Hello Ada', 'Hello Ada', 'Hello Ada']);
  expect(calls()).toBe(2);
  expect(
    gateway.log.named('call.resumed').filter(({ recoveredBy }) => recoveredBy === 'replay'),
  ).toHaveLength(1);
});

// Rule replay-2.
test('a malformed answer loses nothing: the corrected one replays the call', async () => {
  const { gateway, url, calls, forget } = await start(greet, REPLAYED);
  const asked = await callTool(url, 'greet');
  await forget();
  await gateway.log.saw('call.ended');
  const refused = await callTool(url, 'greet', answers(asked, { action: 'perhaps' }));
  expect(refused.response.error.data.reason).toBe('invalid_input_response');
  expect(gateway.log.named('call.resumed')).toEqual([]);
  expect(text(await callTool(url, 'greet', answers(asked)))).toBe('Hello Ada');
  expect(calls()).toBe(2);
});

/** Outcomes, which are kept for two minutes, are forgotten at once. */
const FORGETFUL: Clock = {
  ...systemClock,
  setTimer: (afterMs, callback) =>
    systemClock.setTimer(afterMs === 120_000 ? 0 : afterMs, callback),
};

// Rule lost-3: A retry of a lost call gets `call_lost` for as long as its pointer is valid.
test('a call that was lost long ago is called lost, and not its pointer invalid', async () => {
  const { gateway, url, calls, forget } = await start(greet, { clock: FORGETFUL });
  const asked = await callTool(url, 'greet');
  await forget();
  await gateway.log.saw('call.ended');
  expect(reasonOf(await callTool(url, 'greet', answers(asked)))).toBe('call_lost');
  expect(calls()).toBe(1);
});

// Rule lost-3.
test('a call that was lost long ago is replayed where that is allowed', async () => {
  const { gateway, url, calls, forget } = await start(greet, {
    ...REPLAYED,
    clock: FORGETFUL,
  });
  const asked = await callTool(url, 'greet');
  await forget();
  await gateway.log.saw('call.ended');
  expect(text(await callTool(url, 'greet', answers(asked)))).toBe('Hello Ada');
  expect(calls()).toBe(2);
});
