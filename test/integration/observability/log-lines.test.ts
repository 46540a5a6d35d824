/** What the lines of the log have in common, whoever writes them. */
import { expect, test } from 'vitest';
import { callTool } from '../../fixtures/clients/modern-client.ts';
import { gatewayBefore } from '../../fixtures/gateways/test-gateway.ts';
import { LegacyServer } from '../../fixtures/servers/legacy-server.ts';

test('times are whole milliseconds: of a call and of its session', async () => {
  const legacy = await LegacyServer.start({ tools: { hi: async () => ({ content: [] }) } });
  const { gateway } = await gatewayBefore(legacy, { sessions: { scope: 'call' } });
  await callTool(gateway.url, 'hi');
  await gateway.log.saw('session.ended');
  const times = (['call.ended', 'session.ended'] as const).flatMap((name) =>
    gateway.log.named(name),
  );
  expect(times.length).toBeGreaterThanOrEqual(2);
  for (const { ms } of times) expect(Number.isInteger(ms)).toBe(true);
});
