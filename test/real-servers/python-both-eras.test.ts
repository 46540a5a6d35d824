/**
 * Servers that support both protocol versions behind the defaults of the gateway: version 2 of the official Python SDK, and fastmcp 4.
 * Runs where `MCP_PYTHON_2` names a Python that has them: `pip install 'fastmcp>=4,<5'`.
 */
import { describe, expect, test } from 'vitest';
import { connectAskedClient, type Answers } from '../fixtures/real-servers/asked-client.ts';
import { askedStage } from '../fixtures/real-servers/asked-testbed.ts';
import {
  startPython2Server,
  startPythonServer,
} from '../fixtures/real-servers/python/python-server.ts';
import { sampled } from '../fixtures/real-servers/sampled.ts';
import { onlyText } from '../fixtures/real-servers/tool-text.ts';
import { travelPromises } from '../fixtures/real-servers/travel-promises.ts';
import { testGateway } from '../fixtures/gateways/test-gateway.ts';
import { stopAfterTest } from '../fixtures/stop-after-test.ts';

const BOOK: Answers = { elicitation: () => ({ action: 'accept', content: { city: 'Oslo' } }) };
const BOOKED = '2 nights in Oslo, breakfast: true';

// Rule eras-13.
describe('a server of version 2 of the Python SDK', { tags: ['python-2'] }, () => {
  travelPromises(askedStage(() => startPython2Server('python_server'), '/mcp'));
});

// Rule eras-13.
describe('a server of fastmcp 4', { tags: ['python-2'] }, () => {
  const stage = askedStage(() => startPython2Server('fastmcp_server'), '/mcp');

  test('asks for a form, samples, and lists roots', async () => {
    const { client } = await stage.connect({
      elicitation: () => ({ action: 'accept', content: { value: 'Ada' } }),
      sampling: () => sampled('an old pond'),
      roots: [{ uri: 'file:///home' }],
    });
    expect(onlyText(await client.callTool({ name: 'greet' }))).toBe('Hello, Ada');
    const haiku = await client.callTool({ name: 'haiku', arguments: { about: 'a pond' } });
    expect(onlyText(haiku)).toBe('an old pond');
    expect(onlyText(await client.callTool({ name: 'roots' }))).toBe('file:///home');
  });
});

// Rule eras-16.
describe('a server of the Python SDK', { tags: ['python', 'python-2'] }, () => {
  test('goes on to ask when it is upgraded in place, and when the upgrade is taken back', async () => {
    const first = await startPythonServer('streamable-http');
    stopAfterTest(() => first.stop());
    const gateway = await testGateway(`${first.origin}/mcp`);
    const asked = await connectAskedClient(gateway.url, BOOK);
    stopAfterTest(() => asked.close());
    const book = async () => onlyText(await asked.client.callTool({ name: 'book' }));
    expect(await book()).toBe(BOOKED);
    await first.stop();
    const upgraded = await startPython2Server('python_server', first.port);
    stopAfterTest(() => upgraded.stop());
    expect(await book()).toBe(BOOKED);
    await upgraded.stop();
    const back = await startPythonServer('streamable-http', 'server', first.port);
    stopAfterTest(() => back.stop());
    expect(await book()).toBe(BOOKED);
  });
});
