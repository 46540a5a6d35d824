/** An operator sees that a client is not bridged: a modern one can negotiate a legacy revision without a word. */
import { expect, test } from 'vitest';
import { gatewayBefore } from '../../fixtures/gateways/test-gateway.ts';
import { legacyServer } from '../../fixtures/servers/scripted-server.ts';

test('the first request of a legacy client is a line in the log, once for each route', async () => {
  const server = await legacyServer(() => {});
  const { gateway } = await gatewayBefore(server);
  await fetch(new URL('/.well-known/any', gateway.url));
  expect(gateway.log.named('route.legacy_client')).toEqual([]);
  for (let id = 1; id <= 2; id += 1) {
    const params = {
      protocolVersion: '2025-11-25',
      capabilities: {},
      clientInfo: { name: 'old', version: '1' },
    };
    const response = await fetch(gateway.url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
      },
      body: JSON.stringify({ jsonrpc: '2.0', id, method: 'initialize', params }),
    });
    expect(response.status).toBe(200);
    await response.text();
  }
  expect(gateway.log.named('route.legacy_client')).toEqual([{ route: 'mcp' }]);
});
