/** The official conformance suite of 2025-11-25, run against the gateway in front of a server over stdio, as a legacy client of it. */
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { GatewayProcess } from '../fixtures/gateways/gateway-process.ts';
import { stopAfterTest } from '../fixtures/stop-after-test.ts';
import { readRequirements, runSuite } from './suite.ts';

const SERVER = fileURLToPath(
  new URL('../fixtures/conformance/legacy-conformance.ts', import.meta.url),
);

// Rule face-26: What 2025-11-25 requires of a server over Streamable HTTP, the gateway does in front of one over stdio.
test('all that 2025-11-25 requires of a server is done in front of one over stdio', async () => {
  const upstream = { command: process.execPath, args: [SERVER, '--transport', 'stdio'] };
  const gateway = await GatewayProcess.start({ upstream: '', relay: false, route: { upstream } });
  stopAfterTest(() => gateway.kill());
  const { required } = await readRequirements('2025-11-25');
  const { scenarios } = await runSuite(gateway.url, null, '2025-11-25');
  const results = required.map((scenario) => {
    const checks = scenarios.get(scenario) ?? [];
    const failed = checks.filter(({ status }) => status === 'FAILURE');
    return [scenario, checks.length > 0, failed.map(({ id, errorMessage }) => [id, errorMessage])];
  });
  expect(results).toEqual(required.map((scenario) => [scenario, true, []]));
  expect(required).toHaveLength(30);
});
