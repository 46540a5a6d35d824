/**
 * Five incidents, made with real processes, and what gives each away: a metric, a line of the log, what the live page shows, and
 * a span.
 * docs/operate/incidents.md says the same to the engineer on call.
 */
import { expect, test } from 'vitest';
import { callTool } from '../../fixtures/clients/modern-client.ts';
import type {
  GatewayProcess,
  GatewayProcessOptions,
} from '../../fixtures/gateways/gateway-process.ts';
import { look } from '../../fixtures/gateways/live.ts';
import {
  answersOf,
  greeter,
  legacyServer,
  reasonOf,
  replica,
  text,
} from '../../fixtures/gateways/replica-testbed.ts';
import type { LegacyServerOptions } from '../../fixtures/servers/legacy-server.ts';
import { collectorFor } from '../../fixtures/servers/trace-collector.ts';
import { screenOf } from '../../../src/cli/top-screen.ts';

async function stage(
  tools: LegacyServerOptions['tools'] = {},
  options: Partial<GatewayProcessOptions> = {},
) {
  const { collector, env } = await collectorFor();
  const legacy = await legacyServer({ tools });
  const start = (more: Partial<GatewayProcessOptions> = {}) =>
    replica(legacy, { env, ...options, ...more });
  const gateway = await start();
  /** The spans that a gateway exports, which it does at its end at the latest. */
  const spansOf = async (...gateways: GatewayProcess[]) => {
    await Promise.all(gateways.map((one) => one.drain()));
    return collector;
  };
  return { legacy, gateway, start, spansOf };
}

/** The cause of a failure at a port that is closed. */
const REFUSED = {
  code: 'upstream_unavailable',
  problem: expect.stringMatching(/^connection failed: .*ECONNREFUSED/),
};

/** Waits until the first screen of `mrtr-gateway top`, which shows what the live page shows, matches each of these. */
async function shows(gateway: GatewayProcess, ...texts: readonly RegExp[]): Promise<void> {
  const size = { columns: 200, rows: 50, isColored: false };
  const screen = async () => screenOf(await look(gateway), size).join('\n');
  for (const one of texts) await expect.poll(screen, { timeout: 20_000 }).toMatch(one);
}

test('a server that stopped responding', async () => {
  const { legacy, gateway, spansOf } = await stage({ work: async () => 'done' });
  expect(text(await callTool(gateway.url, 'work'))).toBe('done');
  expect(await gateway.metric('mrtr_gateway_upstream_up{route="mcp"}')).toBe(1);
  await legacy.stop();
  while (gateway.named('upstream.circuit_opened').length === 0) {
    const failed = await callTool(gateway.url, 'work');
    expect(failed.response.error).toBeDefined();
  }
  expect(reasonOf(await callTool(gateway.url, 'work'))).toBe('circuit_open');

  expect(await gateway.metric('mrtr_gateway_upstream_up{route="mcp"}')).toBe(0);
  expect(await gateway.metric('mrtr_gateway_circuit_open{route="mcp"}')).toBe(1);
  const line = { level: 'warn', route: 'mcp', ...REFUSED };
  expect(gateway.named('upstream.failed')[0]).toMatchObject(line);
  expect(gateway.named('upstream.circuit_opened')).toMatchObject([{ ...line, url: legacy.url }]);
  await shows(gateway, /\b1 server down/, /down \(/);
  const { spans } = await spansOf(gateway);
  const trace = gateway.named('upstream.failed')[0]?.['trace'];
  expect(spans.filter(({ traceId }) => traceId === trace)).toMatchObject([
    { kind: 'CLIENT', status: 'ERROR', attributes: { 'mcp.method.name': 'tools/call' } },
    { kind: 'SERVER', status: 'ERROR', attributes: { 'error.type': '-32603' } },
  ]);
});

test('a replica with the wrong key', async () => {
  const { tools } = greeter();
  const { gateway, start, spansOf } = await stage(tools);
  const keys = [{ kid: 'other', key: Buffer.alloc(32, 8).toString('base64url') }];
  const apart = await start({ config: { seal: { audience: 'fault-tests', keys } } });
  const asked = await callTool(gateway.url, 'greet');
  const refused = await callTool(apart.url, 'greet', answersOf(asked, 'Ada'));
  expect(refused.response.error.data.reason).toBe('invalid_request_state');

  const refusals = 'mrtr_gateway_seal_rejections_total{reason="unknown-key"}';
  expect(await apart.metric(refusals)).toBe(1);
  expect(apart.named('pointer.refused')).toMatchObject([
    { level: 'warn', route: 'mcp', reason: 'unknown-key' },
  ]);
  await shows(apart, /\b1 refused/);
  const collector = await spansOf(gateway, apart);
  const span = collector.one('SERVER', 'tools/call greet', ({ attributes }) =>
    Object.hasOwn(attributes, 'rpc.response.status_code'),
  );
  expect(span.attributes['rpc.response.status_code']).toBe('-32602');
  expect(collector.spans.filter(({ parentSpanId }) => parentSpanId === span.spanId)).toEqual([]);
});

test('a client that drops questions', async () => {
  const { tools } = greeter();
  const { gateway, spansOf } = await stage(tools, { route: { parking: { ttl: '1s' } } });
  const asked = await callTool(gateway.url, 'greet');
  expect(asked.response.result.resultType).toBe('input_required');
  const [ended] = await gateway.saw('call.ended');

  expect(ended).toMatchObject({ route: 'mcp', target: 'greet', end: 'expired' });
  expect(await gateway.metric('mrtr_gateway_call_ends_total{route="mcp",end="abandoned"}')).toBe(1);
  await shows(gateway, /\b1 abandoned/);
  const collector = await spansOf(gateway);
  const round = collector.one('SERVER', 'tools/call greet');
  expect(round.attributes).toMatchObject({ 'mrtr_gateway.outcome': 'input_required' });
  expect(collector.spans.flatMap(({ links }) => links)).toEqual([]);
});

test('a caller that hits a limit', async () => {
  const { gateway, spansOf } = await stage(
    { work: async () => 'done' },
    { route: { limits: { rate: '1/1h' } } },
  );
  expect(text(await callTool(gateway.url, 'work'))).toBe('done');
  expect(reasonOf(await callTool(gateway.url, 'work', {}, { id: 'limited' }))).toBe('rate_limited');

  const limited = 'mrtr_gateway_limited_requests_total{route="mcp",limit="limits.rate"}';
  expect(await gateway.metric(limited)).toBe(1);
  expect(gateway.named('request.limited')).toMatchObject([
    { level: 'warn', route: 'mcp', limit: 'limits.rate', refused: 1 },
  ]);
  await shows(gateway, /\b1 succeeded/, /\b1 refused/);
  const collector = await spansOf(gateway);
  const span = collector.one('SERVER', 'tools/call work', ({ attributes }) =>
    Object.is(attributes['jsonrpc.request.id'], 'limited'),
  );
  expect(span).toMatchObject({
    status: 'ERROR',
    attributes: { 'rpc.response.status_code': '-32603' },
  });
  expect(collector.spans.filter(({ parentSpanId }) => parentSpanId === span.spanId)).toEqual([]);
});

test('a slow tool', async () => {
  const SLOW_MS = 1_200;
  const { gateway, spansOf } = await stage({
    slow: () => new Promise((resolve) => setTimeout(() => resolve('done'), SLOW_MS)),
  });
  expect(text(await callTool(gateway.url, 'slow'))).toBe('done');

  const metrics = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
  const seconds =
    /^mcp_client_operation_duration_seconds_sum\{.*gen_ai_tool_name="slow".*\} (\S+)$/m.exec(
      metrics,
    );
  expect(Number(seconds?.[1]) * 1_000).toBeGreaterThanOrEqual(SLOW_MS - 1);
  const peopleTime = /^mrtr_gateway_answer_duration_seconds_count\{.*\} [1-9]/m.exec(metrics);
  expect(peopleTime).toBeNull();
  await shows(gateway, /\b1 succeeded/, /people 0s, servers [1-9]/);
  const [ended] = await gateway.saw('call.ended');
  expect(ended).toMatchObject({ target: 'slow', end: 'complete' });
  expect(ended?.['workMs']).toBeGreaterThanOrEqual(SLOW_MS - 1);
  const collector = await spansOf(gateway);
  const { startMs, endMs } = collector.one('CLIENT', 'tools/call slow');
  expect(endMs - startMs).toBeGreaterThanOrEqual(SLOW_MS - 1);
});
