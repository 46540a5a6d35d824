/** The official conformance suite of 2025-11-25, run against the gateway as a legacy client in front of servers that it could not use. */
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { startLegacyConformance } from '../fixtures/conformance/process.ts';
import { GatewayProcess } from '../fixtures/gateways/gateway-process.ts';
import { stopAfterTest } from '../fixtures/stop-after-test.ts';
import { readRequirements, runSuite, SUITE_TEST_MS } from './suite.ts';

const SERVER = fileURLToPath(
  new URL('../fixtures/conformance/legacy-conformance.ts', import.meta.url),
);

const ASKING = { transport: 'streamable-http', asks: 'related', ids: 'string' } as const;

// Rule face-26: The gateway meets all requirements of 2025-11-25 for a server, in front of modern servers and of
// servers over stdio.
test(
  'all that 2025-11-25 requires of a server is done in front of one over stdio',
  { timeout: SUITE_TEST_MS },
  async () => {
    const upstream = { command: process.execPath, args: [SERVER, '--transport', 'stdio'] };
    const gateway = await GatewayProcess.start({ upstream: '', relay: false, route: { upstream } });
    stopAfterTest(() => gateway.kill());
    await expectAll(gateway.url);
  },
);

// Rule face-26.
test('all that 2025-11-25 requires of a server is done in front of a modern server', async () => {
  const legacy = await startLegacyConformance(ASKING);
  stopAfterTest(legacy.stop);
  // The modern server is a gateway, whose legacy server has what the suite wants to use.
  const modern = await GatewayProcess.start({
    ...{ upstream: legacy.url, relay: false },
    config: { edge: { legacyClients: 'reject' } },
  });
  stopAfterTest(() => modern.kill());
  const gateway = await GatewayProcess.start({ upstream: modern.url, relay: false });
  stopAfterTest(() => gateway.kill());
  await expectAll(gateway.url);
});

async function expectAll(url: string): Promise<void> {
  const { required } = await readRequirements('2025-11-25');
  const { scenarios } = await runSuite(url, null, '2025-11-25');
  const results = required.map((scenario) => {
    const checks = scenarios.get(scenario) ?? [];
    const failed = checks.filter(({ status }) => status === 'FAILURE');
    return [scenario, checks.length > 0, failed.map(({ id, errorMessage }) => [id, errorMessage])];
  });
  expect(results).toEqual(required.map((scenario) => [scenario, true, []]));
  expect(required).toHaveLength(30);
}
