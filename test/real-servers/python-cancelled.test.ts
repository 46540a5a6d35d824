/**
 * Calls that the gateway ends while a server of the official Python SDK, version 1, waits for an answer.
 * Runs where `MCP_PYTHON` names a Python that has it: `python3 -m venv venv && venv/bin/pip install 'mcp<2'`.
 */
import { describe, expect, test } from 'vitest';
import type { GatewayOverrides } from '../fixtures/gateways/gateway.ts';
import { testGateway } from '../fixtures/gateways/test-gateway.ts';
import { callTool } from '../fixtures/clients/modern-client.ts';
import { startPythonServer } from '../fixtures/real-servers/python/python-server.ts';
import { stopAfterTest } from '../fixtures/stop-after-test.ts';

const CASES = [
  { transport: 'streamable-http', path: '/mcp' },
  { transport: 'sse', path: '/sse' },
] as const;
const TOOLS = ['act_on_any_answer', 'act_without_an_answer'];

describe.each(CASES.flatMap((one) => TOOLS.map((tool) => ({ ...one, tool }))))(
  'over $transport the tool $tool of a Python server',
  { tags: ['long', 'python'] },
  ({ transport, path, tool }) => {
    async function start(overrides: GatewayOverrides = {}) {
      const server = await startPythonServer(transport, 'actors');
      stopAfterTest(() => server.stop());
      const upstream = `${server.origin}${path}`;
      const gateway = await testGateway(upstream, overrides);
      const effects = async () => {
        const other = await testGateway(upstream);
        const { response } = await callTool(other.url, 'effects');
        return response.result.content[0].text;
      };
      return { gateway, effects };
    }

    // Rule closing-2.
    test('does not act when the time of its question is over', async () => {
      const { gateway, effects } = await start({ parking: { ttlMs: 50 } });
      await callTool(gateway.url, tool);
      await gateway.log.saw('call.ended');
      expect(await effects()).toBe('');
    });

    // Rule closing-2.
    test('does not act when there is no room to park its call', async () => {
      const { gateway, effects } = await start({ limits: { maxParkedCallsPerPrincipal: 1 } });
      await callTool(gateway.url, tool);
      const { response } = await callTool(gateway.url, tool);
      expect(response.error.data.reason).toBe('too_many_parked_calls');
      await gateway.log.saw('call.ended');
      expect(await effects()).toBe('');
    });

    // Rule closing-2.
    test('does not act when the gateway drains', async () => {
      const { gateway, effects } = await start();
      await callTool(gateway.url, tool);
      await gateway.drain();
      expect(await effects()).toBe('');
    });
  },
);
