/** A server that is down is left alone for a while. */
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { hurriedClock } from '../../../fixtures/hurried-clock.ts';
import { startTestGateway, type TestGateway } from '../../../fixtures/gateways/gateway.ts';
import { answersOf } from '../../../fixtures/gateways/replica-testbed.ts';
import { callTool } from '../../../fixtures/clients/modern-client.ts';
import { freePort } from '../../../fixtures/processes.ts';
import { textOf } from '../../../fixtures/wire/asked-calls.ts';
import { stopAfterTest } from '../../../fixtures/stop-after-test.ts';
import { limitedGateway, refusals } from '../../../fixtures/gateways/limited-gateway.ts';

describe('a server that is down', () => {
  /** @param factor of the clock: it is left alone for a second of that at first, which is longer than a test takes, or short */
  const breaker = (factor: number) => ({
    clock: hurriedClock(factor),
    upstream: { circuitBreaker: { consecutiveFailures: 3 } },
  });

  // Rule admission-6: After `upstream.circuitBreaker.consecutiveFailures`, new requests get -32603 with `data.reason`
  // `circuit_open`. Then one request is tried. Parked calls go on.
  // Rule admission-2.
  test('is left alone, while its parked calls go on', async () => {
    const { gateway, url, calls, server } = await limitedGateway(
      breaker(1 / 30),
      (_received, response) => {
        response.writeHead(503, { 'content-type': 'text/plain' }).end('no database');
      },
    );
    const asked = await callTool(url, 'ask');
    for (let index = 0; index < 3; index += 1) {
      expect((await callTool(url, 'plain')).response.error.data.reason).toBe('upstream_busy');
    }
    for (let index = 0; index < 5; index += 1) {
      const { status, headers, response } = await callTool(url, 'plain');
      // The header means nothing with a success (RFC 9110, section 10.2.3).
      expect([status, headers.get('retry-after')]).toEqual([200, null]);
      expect(response.error.data).toMatchObject({ reason: 'circuit_open', mayHaveActed: 'no' });
      expect(response.error.data.retryAfterMs).toBeLessThanOrEqual(1_250);
    }
    expect(calls()).toBe(4);
    expect(await open(gateway)).toBe('1');
    expect(await up(gateway)).toBe('0');
    expect(await refusals(gateway)).toEqual(['upstream.circuitBreaker 5']);
    expect(gateway.log.named('upstream.circuit_opened')).toEqual([
      {
        ...{ route: 'mcp', url: server.url },
        ...{ code: 'upstream_busy', problem: 'the server is busy: HTTP 503' },
      },
    ]);
    expect(textOf(await callTool(url, 'ask', answersOf(asked, 'Ada')))).toBe('done');
  });

  // Rule admission-6.
  test('is used again when it responds', async () => {
    let isDown = true;
    const { gateway, url } = await limitedGateway(breaker(10), (_received, response) => {
      if (isDown) response.writeHead(503).end();
    });
    for (let index = 0; index < 3; index += 1) await callTool(url, 'plain');
    await gateway.log.saw('upstream.circuit_opened');
    isDown = false;
    while ((await callTool(url, 'plain')).response.error !== undefined) await sleep(20);
    expect(await open(gateway)).toBe('0');
    expect(await up(gateway)).toBe('1');
    expect(gateway.log.named('upstream.circuit_closed')).toEqual([{ route: 'mcp' }]);
  });

  // Rule admission-6.
  test('is found by requests that are passed through, too, and its line has no secret', async () => {
    const url = `http://127.0.0.1:${await freePort()}/mcp`;
    const gateway = await startTestGateway(`${url}?key=hidden`, breaker(1 / 30));
    stopAfterTest(() => gateway.close());
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' });
    const headers = { 'content-type': 'application/json', 'mcp-protocol-version': '2025-06-18' };
    while (gateway.log.named('upstream.circuit_opened').length === 0) {
      expect((await fetch(gateway.url, { method: 'POST', headers, body })).status).toBe(502);
    }
    const problem = expect.stringMatching(/^connection failed: .*ECONNREFUSED/);
    expect(gateway.log.named('upstream.circuit_opened')).toEqual([
      { route: 'mcp', url, code: 'upstream_unavailable', problem },
    ]);
  });

  // Rule admission-6.
  test('is one whose port is closed', async () => {
    const { server, url } = await limitedGateway(breaker(1 / 30));
    await server.stop();
    const reasons: unknown[] = [];
    for (let index = 0; index < 5; index += 1) {
      reasons.push((await callTool(url, 'plain')).response.error.data.reason);
    }
    expect(reasons.slice(0, 1)).toEqual(['upstream_unavailable']);
    expect(reasons.slice(3)).toEqual(['circuit_open', 'circuit_open']);
  });

  // Rule admission-6.
  test('is one that accepts connections and replies to no initialize', async () => {
    const server = createServer();
    await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
    const sockets = new Set<Socket>();
    server.on('connection', (socket) => sockets.add(socket));
    stopAfterTest(async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
    });
    const { port } = server.address() as AddressInfo;
    const { upstream, clock } = breaker(1 / 30);
    const gateway = await startTestGateway(`http://127.0.0.1:${port}/mcp`, {
      transport: 'streamable-http',
      clock,
      upstream: { ...upstream, headersTimeoutMs: 200 },
      admin: true,
    });
    stopAfterTest(() => gateway.close());
    for (let index = 0; index < 3; index += 1) await callTool(gateway.url, 'plain');
    const { response } = await callTool(gateway.url, 'plain');
    expect(response.error.data).toMatchObject({ reason: 'circuit_open', mayHaveActed: 'no' });
    expect(await up(gateway)).toBe('0');
    expect(gateway.log.named('upstream.circuit_opened')).toMatchObject([
      { code: 'upstream_timeout', problem: expect.stringMatching(/ within 200 ms$/) },
    ]);
  });

  const open = (gateway: TestGateway) => gauge(gateway, 'mrtr_gateway_circuit_open');
  const up = (gateway: TestGateway) => gauge(gateway, 'mrtr_gateway_upstream_up');

  async function gauge({ adminUrl }: TestGateway, name: string): Promise<string | undefined> {
    const metrics = await (await fetch(`${adminUrl}/metrics`)).text();
    return new RegExp(`^${name}\\{route="mcp"\\} (\\d)`, 'm').exec(metrics)?.[1];
  }
});
