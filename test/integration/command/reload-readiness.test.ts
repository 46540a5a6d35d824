/** What `/readyz` says after a reload: a new route takes no gateway out of the load balancer. Real processes. */
import { expect, test } from 'vitest';
import { callTool } from '../../fixtures/clients/modern-client.ts';
import type { GatewayProcess } from '../../fixtures/gateways/gateway-process.ts';
import { greeter, legacyServer, replica } from '../../fixtures/gateways/replica-testbed.ts';
import { freePort } from '../../fixtures/processes.ts';

async function readiness({ adminUrl }: GatewayProcess) {
  const answer = await fetch(`${adminUrl}/readyz`);
  return { status: answer.status, body: await answer.json() };
}

/** The URL of a server that is not there. */
async function deadUrl(): Promise<string> {
  return `http://127.0.0.1:${await freePort()}/mcp`;
}

const oneAndTwo = (one: string, two: string) => [
  { path: '/one', upstream: { url: one } },
  { path: '/two', upstream: { url: two } },
];

const UNAVAILABLE = expect.stringMatching(/^upstream_unavailable: /);

// Rule reload-12: A route that a reload adds or changes does not end readiness.
test('a route that is added, with a server that is down, leaves the gateway ready', async () => {
  const server = await legacyServer({ tools: greeter().tools });
  const dead = await deadUrl();
  const gateway = await replica(server, {
    relay: false,
    config: { routes: oneAndTwo(server.url, server.url) },
  });
  expect((await readiness(gateway)).status).toBe(200);
  const routes = [...oneAndTwo(server.url, dead), { path: '/three', upstream: { url: dead } }];
  expect(await gateway.reload({ relay: false, config: { routes } })).toMatchObject({
    ...{ event: 'config.reloaded', added: 'three', changed: 'two' },
  });
  expect(await readiness(gateway)).toEqual({
    status: 200,
    body: {
      status: 'ready',
      routes: { one: 'streamable-http', two: UNAVAILABLE, three: UNAVAILABLE },
    },
  });
  const called = await callTool(new URL('/one', gateway.url).href, 'greet');
  expect(called.response.result.resultType).toBe('input_required');
});

// Rule reload-12.
test('a gateway that nobody probed before the reload stays ready, too', async () => {
  const server = await legacyServer({ tools: greeter().tools });
  const gateway = await replica(server, { relay: false });
  await gateway.reload({ upstream: await deadUrl() });
  expect(await readiness(gateway)).toEqual({
    status: 200,
    body: { status: 'ready', routes: { mcp: UNAVAILABLE } },
  });
});

// Rule reload-12.
test('a gateway that was never ready waits for the routes of a reload, too', async () => {
  const server = await legacyServer({ tools: greeter().tools });
  const [dead, other] = [await deadUrl(), await deadUrl()];
  const gateway = await replica(server, {
    relay: false,
    config: { routes: oneAndTwo(server.url, dead) },
  });
  expect((await readiness(gateway)).status).toBe(503);
  await gateway.reload({ relay: false, config: { routes: oneAndTwo(server.url, other) } });
  expect(await readiness(gateway)).toMatchObject({
    status: 503,
    body: { status: 'not ready', routes: { one: 'streamable-http', two: UNAVAILABLE } },
  });
  await gateway.reload({ relay: false, config: { routes: oneAndTwo(server.url, server.url) } });
  expect((await readiness(gateway)).status).toBe(200);
});

// Rule reload-12.
test('workers that are replaced after the reload leave the gateway ready', async () => {
  const server = await legacyServer({ tools: greeter().tools });
  const gateway = await replica(server, { relay: false, config: { workers: 2 } });
  await gateway.reload({ config: { workers: 2 }, upstream: await deadUrl() });
  expect((await readiness(gateway)).status).toBe(200);
  for (const { pid } of gateway.named('worker.started')) process.kill(Number(pid), 'SIGKILL');
  await gateway.saw('worker.started', 4);
  expect(await readiness(gateway)).toEqual({
    status: 200,
    body: { status: 'ready', routes: { mcp: UNAVAILABLE } },
  });
});
