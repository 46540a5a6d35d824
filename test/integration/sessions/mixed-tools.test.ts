/** A server with tools that ask on the streams of their calls, and tools that ask beside them. */
import { expect, test } from 'vitest';
import { accept, callTool } from '../../fixtures/clients/modern-client.ts';
import type { GatewayOverrides } from '../../fixtures/gateways/gateway.ts';
import { testGateway } from '../../fixtures/gateways/test-gateway.ts';
import { advanceUntil, ManualClock, turnsUntil } from '../../fixtures/manual-clock.ts';
import { countingServer } from '../../fixtures/servers/counting-server.ts';

async function testbed(overrides: GatewayOverrides = {}) {
  const { server, open } = await countingServer();
  const gateway = await testGateway(server.url, {
    transport: 'streamable-http',
    ...overrides,
  });
  const call = async (name: string) => (await callTool(gateway.url, name)).response.result;
  const answer = async (
    name: string,
    { requestState, inputRequests }: { requestState: string; inputRequests: object },
  ) => {
    const keys = Object.keys(inputRequests);
    const inputResponses = Object.fromEntries(keys.map((key) => [key, accept({ name: 'Ada' })]));
    const retried = await callTool(gateway.url, name, { requestState, inputResponses });
    return retried.response.result.content[0].text;
  };
  return { server, open, call, answer };
}

// Rule concurrent-1.
test('a question beside the streams is asked while a call that has just asked on its stream is parked', async () => {
  const { call, answer } = await testbed();
  const onStream = await call('ask');
  const beside = await call('ask-uncorrelated');
  expect(Object.keys(beside.inputRequests)).toHaveLength(1);
  expect(await answer('ask', onStream)).toBe('Ada 1');
  expect(await answer('ask-uncorrelated', beside)).toBe('Ada 2');
});

// Rule concurrent-1.
test('a call does not wait for one that has just asked on its stream, in front of a server that also asks beside them', async () => {
  const clock = new ManualClock();
  const { server, call, answer } = await testbed({ clock });
  const beside = await advanceUntil(clock, call('ask-uncorrelated'));
  await advanceUntil(clock, answer('ask-uncorrelated', beside));
  await advanceUntil(clock, call('ask'));
  const calls = () => server.received.filter(({ method }) => method === 'tools/call').length;
  const before = calls();
  // No time passes.
  const second = call('ask');
  await turnsUntil(() => calls() === before + 1);
  expect(Object.keys((await advanceUntil(clock, second)).inputRequests)).toHaveLength(1);
});

// Rule sessions-26.
test('a tool that was seen to ask nothing is served while a call of the same caller runs, in front of a server that asks beside the streams', async () => {
  const { server, open, call, answer } = await testbed();
  await answer('ask-uncorrelated', await call('ask-uncorrelated'));
  await call('count');
  const calls = () => server.received.filter(({ method }) => method === 'tools/call').length;
  const before = calls();
  const slow = call('slow');
  await turnsUntil(() => calls() === before + 1);
  expect((await call('count')).content[0].text).toBe('4');
  open();
  expect((await slow).content[0].text).toBe('3');
});
