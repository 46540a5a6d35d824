/** Calls of one caller that come at the same time, in front of a server over stdio. */
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { callTool } from '../../fixtures/clients/modern-client.ts';
import { startTestGateway } from '../../fixtures/gateways/gateway.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

const SERVER = fileURLToPath(new URL('../../fixtures/servers/stdio-server.js', import.meta.url));

async function testbed() {
  const gateway = await startTestGateway({ command: process.execPath, args: [SERVER, 'plain'] });
  stopAfterTest(() => gateway.close());
  return async (tool: string, args: object = {}, options = {}) =>
    (await callTool(gateway.url, tool, { arguments: args }, options)).response.result;
}

const textOf = (result: { content: [{ text: string }] }) => result.content[0].text;

// Rule sessions-26.
test('run together once their tool has ended without a question', async () => {
  const call = await testbed();
  await call('meet', { alone: true });
  const both = await Promise.all([call('meet'), call('meet')]);
  expect(both.map(textOf)).toEqual(['met', 'met']);
});
