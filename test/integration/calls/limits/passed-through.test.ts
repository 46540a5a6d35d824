/** How limits hold for requests that are passed through. */
import { gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { ManualClock } from '../../../fixtures/manual-clock.ts';
import { startTestGateway, type GatewayOverrides } from '../../../fixtures/gateways/gateway.ts';
import { callTool } from '../../../fixtures/clients/modern-client.ts';
import { ChangingServer } from '../../../fixtures/servers/changing-server.ts';
import { stopAfterTest } from '../../../fixtures/stop-after-test.ts';
import {
  limitedGateway,
  rate,
  refusals,
  tool,
} from '../../../fixtures/gateways/limited-gateway.ts';

describe('requests that are passed through', () => {
  /** A modern server behind a gateway with limits. */
  const modern = async (routeLimits: GatewayOverrides['routeLimits'] & object) => {
    const server = await ChangingServer.start('modern');
    const gateway = await startTestGateway(server.url, { routeLimits });
    stopAfterTest(() => gateway.close());
    const calls = () =>
      server.scripted.methods().filter((method) => method === 'tools/call').length;
    return { url: gateway.url, calls };
  };
  const post = (url: string, body: object, headers: Record<string, string> = {}) =>
    fetch(url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        ...headers,
      },
      body: JSON.stringify(body),
    });
  const call = { jsonrpc: '2.0', id: 7, method: 'tools/call', params: { name: 'plain' } };
  const where = JSON.stringify({ ...call, params: { name: 'where' } });

  // Rule admission-8: Passed-through requests count as well: beyond a rate they get 429, and 503 if the server is
  // down or the process overloaded. Both have `Retry-After`.
  test('get 429 with Retry-After, and answers of legacy clients pass', async () => {
    const { url, server, gateway } = await limitedGateway({
      routeLimits: { ratePerPrincipal: rate(1) },
    });
    const asked = await post(url, { ...call, params: { name: 'ask' } });
    const refused = await post(url, call);
    expect(refused.status).toBe(429);
    const seconds = Number(refused.headers.get('retry-after'));
    expect(seconds).toBeGreaterThan(0);
    expect(seconds).toBeLessThanOrEqual(60);
    expect(await refused.json()).toMatchObject({
      id: 7,
      error: { code: -32603, data: { reason: 'rate_limited', mayHaveActed: 'no' } },
    });
    const answer = { jsonrpc: '2.0', id: 'q', result: { action: 'decline' } };
    expect((await post(url, answer)).status).toBe(202);
    expect(await asked.text()).toContain('done');
    expect(server.methods().filter((method) => method === 'tools/call')).toHaveLength(1);
    expect(await refusals(gateway)).toEqual(['limits.ratePerPrincipal 1']);
  });

  // Rule admission-8.
  test.each(['/mcp/', '/MCP', '/messages?session=1'])(
    'count on every path of the server: %s evades no limit, and forms pass there',
    async (target) => {
      const { url, calls } = await limitedGateway({ routeLimits: { ratePerPrincipal: rate(1) } });
      const other = new URL(target, url).href;
      expect((await post(url, call)).status).toBe(200);
      expect((await post(other, call)).status).toBe(429);
      expect((await post(other, [call])).status).toBe(429);
      expect(calls()).toBe(1);
      // What the gateway cannot read, since a member is there twice. As a form it is none of the messages.
      const body =
        '{"jsonrpc":"2.0","method":"notifications/initialized","method":"notifications/initialized"}';
      const sent = (type: string) =>
        fetch(other, { method: 'POST', headers: { 'content-type': type }, body });
      expect((await sent('application/json')).status).toBe(429);
      expect((await sent('application/x-www-form-urlencoded')).status).not.toBe(429);
    },
  );

  // Rule admission-8.
  test('of legacy clients count with the member of retries as well', async () => {
    const { url, calls } = await limitedGateway({ routeLimits: { ratePerPrincipal: rate(1) } });
    const params = { name: 'plain', requestState: 'any' };
    expect((await post(url, { ...call, params })).status).toBe(200);
    expect((await post(url, { ...call, params })).status).toBe(429);
    expect(calls()).toBe(1);
  });

  // Rule admission-8.
  test('of a modern server count with a requestState as well, which only that server could check', async () => {
    const { url, calls } = await modern({ ratePerPrincipal: rate(1) });
    expect((await callTool(url, 'where')).status).toBe(200);
    const retry = { requestState: 'made-up', inputResponses: {} };
    expect((await callTool(url, 'where', retry)).status).toBe(429);
    expect(calls()).toBe(1);
  });

  // Rule admission-8.
  test('count each for itself in a batch, which is passed as a whole or not at all', async () => {
    const tools = { plain: { ...tool, rate: rate(1) } };
    const { url, server } = await limitedGateway({ routeLimits: { tools } });
    const ping = { jsonrpc: '2.0', id: 6, method: 'ping' };
    const refused = await post(url, [ping, call, { ...call, id: 8 }]);
    expect(refused.status).toBe(429);
    expect(await refused.json()).toMatchObject({ id: 8, error: { code: -32603 } });
    expect(server.received.filter(({ body }) => Array.isArray(body))).toEqual([]);
  });

  // Rule admission-8.
  test('give their places back when a long batch is refused, without a warning', async () => {
    const warnings: string[] = [];
    const onWarning = ({ message }: Error) => void warnings.push(message);
    process.on('warning', onWarning);
    stopAfterTest(async () => void process.off('warning', onWarning));
    const tools = { plain: { ...tool, maxRunning: 30 } };
    const { url, calls } = await limitedGateway({ routeLimits: { tools } });
    const batch = Array.from({ length: 31 }, (_, id) => ({ ...call, id }));
    for (let times = 0; times < 2; times += 1) {
      const refused = await post(url, batch);
      expect(await refused.json()).toMatchObject({ id: 30, error: { code: -32603 } });
    }
    expect(calls()).toBe(0);
    expect(warnings).toEqual([]);
  });

  // Rule admission-8.
  test('of a modern server count when only the server could read them', async () => {
    const { url } = await modern({ ratePerPrincipal: rate(1) });
    expect((await callTool(url, 'where')).status).toBe(200);
    const compressed = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'content-encoding': 'gzip' },
      body: gzipSync(JSON.stringify(call)),
    });
    expect(compressed.status).toBe(429);
    expect(await compressed.json()).toMatchObject({ error: { data: { reason: 'rate_limited' } } });
  });

  // Rule admission-8.
  test.each([
    ['compressed', gzipSync(where), { 'content-encoding': 'gzip' }],
    ['in UTF-16', Buffer.from(`\ufeff${where}`, 'utf16le'), {}],
    ['with two names', where.replace('{"name"', '{"name":"other","name"'), {}],
    ['with a list for a name', where.replace('"where"', '["where"]'), {}],
    [
      'with a name that is not a string',
      where.replace('"where"', '{"toString":1,"valueOf":1}'),
      {},
    ],
  ])('of a modern server get 415 where tools are limited: %s', async (_how, body, headers) => {
    const { url, calls } = await modern({ tools: { where: { ...tool, maxRunning: 1 } } });
    const response = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body,
    });
    expect(response.status).toBe(415);
    expect(await response.json()).toMatchObject({ error: { code: -32600 } });
    expect(calls()).toBe(0);
  });

  // Rule admission-8.
  test('get 503 with Retry-After while the server is down', async () => {
    const circuitBreaker = { consecutiveFailures: 5 };
    const { url } = await limitedGateway(
      { upstream: { circuitBreaker }, clock: new ManualClock() },
      (_received, response) => void response.writeHead(503).end(),
    );
    for (let index = 0; index < 5; index += 1) {
      const failed = await post(url, call);
      expect([failed.status, failed.headers.get('retry-after')]).toEqual([503, null]);
    }
    const refused = await post(url, call);
    expect(refused.status).toBe(503);
    const { error } = (await refused.json()) as { error: { data: Record<string, unknown> } };
    expect(error.data).toMatchObject({ reason: 'circuit_open', mayHaveActed: 'no' });
    const waitMs = Number(error.data['retryAfterMs']);
    expect(waitMs).toBeGreaterThan(0);
    expect(refused.headers.get('retry-after')).toBe(String(Math.ceil(waitMs / 1_000)));
  });
});
