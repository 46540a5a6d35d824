/** Calls of one caller that come at the same time, in front of a server over stdio. */
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { accept, callTool } from '../../fixtures/clients/modern-client.ts';
import type { GatewayOverrides } from '../../fixtures/gateways/gateway.ts';
import { testGateway } from '../../fixtures/gateways/test-gateway.ts';
import { advanceUntil, ManualClock, turnsUntil } from '../../fixtures/manual-clock.ts';

const SERVER = fileURLToPath(new URL('../../fixtures/servers/stdio-server.js', import.meta.url));

async function testbed(overrides: GatewayOverrides = {}) {
  const server = { command: process.execPath, args: [SERVER, 'plain'] };
  const gateway = await testGateway(server, overrides);
  return async (tool: string, args: object = {}, retry = {}) =>
    (await callTool(gateway.url, tool, { arguments: args, ...retry })).response.result;
}

/** Time enough for what does not wait for the clock. */
async function nextTurns() {
  let turns = 0;
  await turnsUntil(() => (turns += 1) > 200);
  return 'runs';
}

const textOf = (result: { content: [{ text: string }] }) => result.content[0].text;

// Rule sessions-26.
test('run together once their tool has ended without a question', async () => {
  const call = await testbed();
  await call('meet', { alone: true });
  const both = await Promise.all([call('meet'), call('meet')]);
  expect(both.map(textOf)).toEqual(['met', 'met']);
});

// Rule sessions-26.
test('a tool that was seen to ask nothing is served while another call of the caller does not end', async () => {
  const call = await testbed();
  await call('echo', { said: 'first' });
  const hanging = call('hang').catch(() => 'ended with the gateway');
  expect(textOf(await call('echo', { said: 'beside it' }))).toBe('beside it');
  await expect(Promise.race([hanging, Promise.resolve('runs')])).resolves.toBe('runs');
});

/** Calls run behind a clock that the test moves, until the server has begun with each. */
async function held(first: string) {
  const clock = new ManualClock();
  const call = await testbed({ clock });
  const calls = [advanceUntil(clock, call('echo', { said: 'the process has started' }))];
  await calls[0];
  const running = call(first);
  running.catch(() => {});
  return { clock, call, running };
}

// Rule sessions-26.
test('a tool that nobody has seen is served after 2 s while another call of the caller does not end', async () => {
  const { clock, call } = await held('hang');
  const said = call('open');
  await turnsUntil(() => clock.nextInMs === 2_000);
  clock.advance(1_999);
  await expect(Promise.race([said, nextTurns()])).resolves.toBe('runs');
  clock.advance(1);
  expect(textOf(await said)).toBe('open');
});

// Rule concurrent-2.
test('the question of a tool that nobody has seen is held, and asked when the other call ends', async () => {
  const { clock, call, running } = await held('wait');
  const asked = call('ask');
  await turnsUntil(() => clock.nextInMs === 2_000);
  clock.advance(2_000);
  // Its result comes after the question.
  expect(textOf(await call('echo', { said: 'beside it' }))).toBe('beside it');
  clock.advance(25_000);
  const opened = advanceUntil(clock, call('open'), 2_000);
  expect(textOf(await running)).toBe('over');
  const { requestState, inputRequests } = await advanceUntil(clock, asked);
  await opened;
  const inputResponses = { [String(Object.keys(inputRequests)[0])]: accept({ name: 'Ada' }) };
  expect(textOf(await call('ask', {}, { requestState, inputResponses }))).toBe('Ada');
});

// Rules concurrent-2, sessions-26.
test('tools that can have asked a question which was declined wait for each other from then on', async () => {
  const { clock, call, running } = await held('wait');
  const declined = call('ask');
  await turnsUntil(() => clock.nextInMs === 2_000);
  clock.advance(2_000);
  // Its result comes after the question.
  await call('echo', { said: 'beside it' });
  clock.advance(30_000);
  expect(textOf(await declined)).toBe('undefined');
  const asked = call('ask');
  await expect(Promise.race([asked, nextTurns()])).resolves.toBe('runs');
  clock.advance(10_000);
  await expect(Promise.race([asked, nextTurns()])).resolves.toBe('runs');
  await advanceUntil(clock, call('open'), 2_000);
  expect(textOf(await running)).toBe('over');
  expect(Object.keys((await advanceUntil(clock, asked)).inputRequests)).toHaveLength(1);
});

/** Calls of tools that ask, behind a clock that moves for questions of one moment only. */
async function asking(...tools: readonly string[]) {
  const clock = new ManualClock();
  const call = await testbed({ clock });
  const soon = (tool: string, retry = {}) => advanceUntil(clock, call(tool, {}, retry), 1);
  const answer = (tool: string, { requestState, inputRequests }: Asked, name: string) => {
    const keys = Object.keys(inputRequests);
    const inputResponses = Object.fromEntries(keys.map((key) => [key, accept({ name })]));
    return soon(tool, { requestState, inputResponses });
  };
  await advanceUntil(clock, call('echo', { said: 'the process has started' }));
  for (const tool of tools) await answer(tool, await soon(tool), 'known');
  return { clock, soon, answer };
}

interface Asked {
  readonly requestState: string;
  readonly inputRequests: object;
}

// Rule sessions-26.
test('are asked one after the other, and none of them waits for the clock', async () => {
  const { clock, soon, answer } = await asking('ask');
  const beganMs = clock.now();
  const names = Array.from({ length: 16 }, (_, index) => `user ${index}`);
  const results = await Promise.all(
    names.map(async (name) => answer('ask', await soon('ask'), name)),
  );
  expect(results.map(textOf)).toEqual(names);
  expect(clock.now() - beganMs).toBeLessThan(100);
});

// Rules concurrent-1, sessions-26.
test('are each asked their own questions where one of them asks several at once', async () => {
  const { soon } = await asking('several', 'ask');
  const asked = await Promise.all(['several', 'ask', 'several', 'ask'].map((tool) => soon(tool)));
  const messagesOf = ({ inputRequests }: Asked) =>
    Object.values(inputRequests).map(({ params }) => params.message);
  const both = ['Who are you?', 'And how old are you?'];
  expect(asked.map(messagesOf)).toEqual([both, ['Who are you?'], both, ['Who are you?']]);
});

// Rule keep-alive-2.
test('are not lost because one of them keeps the server from replying to pings', async () => {
  const call = await testbed({ upstream: { pingIntervalMs: 100, headersTimeoutMs: 500 } });
  const { requestState, inputRequests } = await call('ask');
  expect(textOf(await call('block', { ms: 2_500 }))).toBe('done');
  const inputResponses = { [String(Object.keys(inputRequests)[0])]: accept({ name: 'Ada' }) };
  expect(textOf(await call('ask', {}, { requestState, inputResponses }))).toBe('Ada');
});
