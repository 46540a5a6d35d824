/** How servers over stdio start: what the gateway and its clients wait for, and what they are told of a start that is delayed. */
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { callTool, send } from '../../fixtures/clients/modern-client.ts';
import type { GatewayOverrides, TestGateway } from '../../fixtures/gateways/gateway.ts';
import { testGateway } from '../../fixtures/gateways/test-gateway.ts';
import { isRunning, pidFile, until } from '../../fixtures/process-ids.ts';

const SERVER = fileURLToPath(new URL('../../fixtures/servers/stdio-server.js', import.meta.url));
const ALICE = { headers: { authorization: 'Bearer alice' } };
const BOB = { headers: { authorization: 'Bearer bob' } };

async function gatewayFor(
  manner: string,
  pids: { readonly path: string },
  overrides: GatewayOverrides = {},
): Promise<TestGateway> {
  const env = { PIDS: pids.path };
  const server = { command: process.execPath, args: [SERVER, manner], env };
  const gateway = await testGateway(server, overrides);
  return gateway;
}

describe('the process of the greeting', () => {
  test('has to reply, and not to end, before the gateway serves', async () => {
    const pids = await pidFile();
    await gatewayFor('stubborn', pids);
    const greeted = await pids.all();
    expect(greeted.every(isRunning)).toBe(true);
    await until(() => !greeted.some(isRunning));
  });

  test('answers server/discover for all callers', async () => {
    const pids = await pidFile();
    const gateway = await gatewayFor('plain', pids);
    for (const caller of [{}, ALICE]) {
      const { response } = await send(gateway.url, 'server/discover', {}, caller);
      expect(response.result.capabilities.tools).toEqual({ listChanged: true });
    }
    expect(await pids.all()).toHaveLength(1);
  });

  test('counts until it has ended, and callers wait for that', async () => {
    const pids = await pidFile();
    const gateway = await gatewayFor('stubborn', pids, { sessions: { max: 2 } });
    const [one, other] = await Promise.all([
      callTool(gateway.url, 'pid', {}, ALICE),
      callTool(gateway.url, 'pid', {}, BOB),
    ]);
    const served = [one, other].map(({ response }) => Number(response.result.content[0].text));
    expect(served.every(isRunning)).toBe(true);
    // Each has started another process, which is noted, too.
    expect((await pids.all()).filter(isRunning)).toHaveLength(4);
  });
});

// Rule stdio-4.
test('a call that may not start a process yet is told when one may start', async () => {
  const gateway = await gatewayFor('plain', await pidFile());
  for (let call = 0; call < 2; call += 1) await callTool(gateway.url, 'exit');
  const { response } = await callTool(gateway.url, 'pid');
  expect(response.error.data).toMatchObject({ reason: 'upstream_unavailable', mayHaveActed: 'no' });
  const { retryAfterMs } = response.error.data;
  expect(retryAfterMs).toBeGreaterThan(0);
  await new Promise((resolve) => setTimeout(resolve, retryAfterMs));
  const next = await callTool(gateway.url, 'pid');
  expect(next.response.result.content[0].text).toMatch(/^\d+$/);
});
