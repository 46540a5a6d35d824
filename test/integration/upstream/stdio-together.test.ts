/** Calls of one caller that come at the same time, in front of a server over stdio. */
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { accept, callTool } from '../../fixtures/clients/modern-client.ts';
import { startTestGateway, type GatewayOverrides } from '../../fixtures/gateways/gateway.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

const SERVER = fileURLToPath(new URL('../../fixtures/servers/stdio-server.js', import.meta.url));

async function testbed(overrides: GatewayOverrides = {}) {
  const server = { command: process.execPath, args: [SERVER, 'plain'] };
  const gateway = await startTestGateway(server, overrides);
  stopAfterTest(() => gateway.close());
  return async (tool: string, args: object = {}, retry = {}) =>
    (await callTool(gateway.url, tool, { arguments: args, ...retry })).response.result;
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

// Rule keep-alive-6.
test('are not lost because one of them keeps the server from replying to pings', async () => {
  const call = await testbed({ upstream: { pingIntervalMs: 100, headersTimeoutMs: 500 } });
  const { requestState, inputRequests } = await call('ask');
  expect(textOf(await call('block', { ms: 2_500 }))).toBe('done');
  const inputResponses = { [String(Object.keys(inputRequests)[0])]: accept({ name: 'Ada' }) };
  expect(textOf(await call('ask', {}, { requestState, inputResponses }))).toBe('Ada');
});
