/** Connections that a legacy server closes in the moment in which they are used again. */
import type { Socket } from 'node:net';
import { describe, expect, test } from 'vitest';
import { systemClock, type Clock } from '../../../src/lib/clock.ts';
import { hurriedClock } from '../../fixtures/hurried-clock.ts';
import { startTestGateway, type GatewayOverrides } from '../../fixtures/gateways/gateway.ts';
import { callTool } from '../../fixtures/clients/modern-client.ts';
import { INITIALIZE_RESULT, json, ScriptedServer } from '../../fixtures/servers/scripted-server.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

type Method = string | undefined;

/** A server in front of which something breaks connections; each call needs a session of its own. */
async function breaking(
  breaks: (
    method: Method,
    socket: { readonly isReused: boolean; readonly socket: Socket },
  ) => boolean,
  upstream: NonNullable<GatewayOverrides['upstream']> = {},
  clock: Clock = systemClock,
) {
  const used = new WeakSet<Socket>();
  let sessions = 0;
  const server = await ScriptedServer.start((received, response, request) => {
    const { socket } = request;
    const isReused = used.has(socket);
    used.add(socket);
    const method: Method = received.body?.method;
    if (breaks(method, { isReused, socket })) return;
    if (received.method === 'GET') return void response.writeHead(405).end();
    if (received.method === 'DELETE') return void response.writeHead(200).end();
    const { id } = received.body;
    if (id === undefined) return void response.writeHead(202).end();
    const result = method === 'initialize' ? INITIALIZE_RESULT : { content: [] };
    const headers = method === 'initialize' ? { 'mcp-session-id': `s-${++sessions}` } : {};
    json(response, 200, { jsonrpc: '2.0', id, result }, headers);
  });
  stopAfterTest(() => server.stop());
  const gateway = await startTestGateway(server.url, {
    transport: 'streamable-http',
    upstream,
    clock,
  });
  stopAfterTest(() => gateway.close());
  const count = (method: string) => server.methods().filter((one) => one === method).length;
  return { url: gateway.url, count, requests: () => server.received.length };
}

describe('a connection that breaks under a request before a response has begun', () => {
  // Rule handshake-13: An `initialize` whose connection breaks before the response is sent once more.
  test.each<[string, (socket: Socket) => void]>([
    ['is reset', (socket) => socket.resetAndDestroy()],
    ['is closed', (socket) => socket.destroy()],
  ])('and %s: initialize goes out once more, on a new one', async (_title, end) => {
    let broken = 0;
    const { url, count } = await breaking((method, { isReused, socket }) => {
      if (method !== 'initialize' || !isReused) return false;
      broken += 1;
      end(socket);
      return true;
    });
    for (let call = 0; call < 5; call += 1) {
      const { response } = await callTool(url, 'any');
      expect(response.result).toMatchObject({ resultType: 'complete' });
    }
    expect(broken).toBeGreaterThan(0);
    expect(count('tools/call')).toBe(5);
  });

  // Rule handshake-13.
  test('is given up for initialize after the second one', async () => {
    let breaks = false;
    const { url, count } = await breaking((method, { socket }) => {
      if (!breaks || method !== 'initialize') return false;
      socket.resetAndDestroy();
      return true;
    });
    const before = count('initialize');
    breaks = true;
    const { response } = await callTool(url, 'any');
    expect(response.error.data.reason).toBe('upstream_unavailable');
    expect(count('initialize') - before).toBe(2);
  });

  // Rule handshake-13.
  test('is never tried again for a call, which may have had effects', async () => {
    const { url, count } = await breaking((method, { socket }) => {
      if (method !== 'tools/call') return false;
      socket.resetAndDestroy();
      return true;
    });
    const { response } = await callTool(url, 'any');
    expect(response.result).toMatchObject({
      isError: true,
      _meta: { 'mrtr-gateway/reason': 'call_lost' },
    });
    expect(count('tools/call')).toBe(1);
  });

  // Rule admission-6.
  test('is not tried again so often that a server in trouble gets more requests than there are calls', async () => {
    const CALLS = 100;
    let breaks = false;
    const { url, requests } = await breaking(
      (_method, { socket }) => {
        if (breaks) socket.resetAndDestroy();
        return breaks;
      },
      { circuitBreaker: { consecutiveFailures: 5 } },
      hurriedClock(1 / 60),
    );
    const before = requests();
    breaks = true;
    for (let call = 0; call < CALLS; call += 1) {
      const { response } = await callTool(url, 'any');
      expect(['upstream_unavailable', 'circuit_open']).toContain(response.error.data.reason);
    }
    expect(requests() - before).toBeLessThanOrEqual(CALLS * 1.2);
  });
});
