/** A parked call whose server is unreachable: how long it waits for the server. docs/operate/errors.md promises the same. */
import { expect, test } from 'vitest';
import { callTool } from '../../../fixtures/clients/modern-client.ts';
import { testGateway } from '../../../fixtures/gateways/test-gateway.ts';
import {
  answersOf,
  greeter,
  legacyServer,
  reasonOf,
} from '../../../fixtures/gateways/replica-testbed.ts';
import { hurriedClock } from '../../../fixtures/hurried-clock.ts';

// Rule lost-4: A parked call whose connection broke waits for its server for about 15 s, and is then lost.
test('a parked call is lost if its server is unreachable for longer than the tries take', async () => {
  const server = await legacyServer({ tools: greeter().tools, keepsEvents: true });
  const clock = hurriedClock(20);
  const gateway = await testGateway(server.url, { clock });
  const asked = await callTool(gateway.url, 'greet');
  const brokeAtMs = clock.elapsed();
  await server.stop();
  await gateway.log.saw('call.ended');
  const tookMs = clock.elapsed() - brokeAtMs;
  expect(gateway.log.named('call.ended')).toMatchObject([{ target: 'greet', end: 'lost' }]);
  expect(tookMs).toBeGreaterThan(15_000);
  const retried = await callTool(gateway.url, 'greet', answersOf(asked, 'Ada'));
  expect(reasonOf(retried)).toBe('call_lost');
});
