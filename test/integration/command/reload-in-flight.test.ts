/** What ends while another configuration is prepared, which can take seconds: the gateway waits for its servers. */
import { expect, test } from 'vitest';
import { callTool } from '../../fixtures/clients/modern-client.ts';
import { testConfig } from '../../fixtures/gateways/gateway.ts';
import { testGateway } from '../../fixtures/gateways/test-gateway.ts';
import { answersOf } from '../../fixtures/gateways/replica-testbed.ts';
import { advanceUntil, ManualClock } from '../../fixtures/manual-clock.ts';
import { countingServer } from '../../fixtures/servers/counting-server.ts';
import { ScriptedServer } from '../../fixtures/servers/scripted-server.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

const LIFE_MS = 60_000;
/** How long a reload waits for a server that does not respond. */
const WAIT_MS = 5_000;

// Rule reload-4.
test('a former route that ends while another configuration is prepared is not served by that one', async () => {
  const { server } = await countingServer();
  const silent = await ScriptedServer.start(() => {});
  stopAfterTest(() => silent.stop());
  const clock = new ManualClock();
  const overrides = {
    parking: { ttlMs: 10_000, callTtlMs: LIFE_MS },
    tasks: { promote: 'never' },
  } as const;
  const gateway = await testGateway(server.url, { ...overrides, clock });
  const reload = (...added: readonly (readonly [id: string, url: string])[]) =>
    gateway.reload(() => {
      const config = testConfig(server.url, overrides);
      const routes = added.flatMap(([id, url]) =>
        testConfig(url, overrides).routes.map((route) => ({ ...route, id, path: `/${id}` })),
      );
      return { ...config, listen: { host: '127.0.0.1', port: 0 }, routes };
    });
  const asked = await advanceUntil(clock, callTool(gateway.url, 'ask'));
  const retry = () => advanceUntil(clock, callTool(gateway.url, 'ask', answersOf(asked, 'Ada')));
  await advanceUntil(clock, reload(['two', server.url]));
  expect((await retry()).status).toBe(200);
  clock.advance(LIFE_MS - WAIT_MS / 2);
  const reloading = reload(['two', server.url], ['three', silent.url]);
  await silent.saw(() => true);
  clock.advance(WAIT_MS / 2 + 1);
  await advanceUntil(clock, reloading, WAIT_MS);
  expect(gateway.log.named('config.reloaded')).toHaveLength(2);
  expect((await retry()).status).toBe(404);
});
