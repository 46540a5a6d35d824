/** What a scrape tells: a real gateway process, its legacy server, and the text of /metrics. */
import { expect, test } from 'vitest';
import { callTool, send } from '../../fixtures/clients/modern-client.ts';
import type { GatewayProcess } from '../../fixtures/gateways/gateway-process.ts';
import { askName, type LegacyServerOptions } from '../../fixtures/servers/legacy-server.ts';
import {
  answersOf,
  legacyServer,
  replica,
  replicas,
} from '../../fixtures/gateways/replica-testbed.ts';

const tools: LegacyServerOptions['tools'] = {
  greet: async (call) => `Hello ${await askName(call)}`,
  fail: async () => ({ isError: true, content: [{ type: 'text', text: 'no' }] }),
  ask: async (call) => askName(call),
};

/** Reads the samples of a scrape whose lines begin so, by their labels. */
async function scrape({ adminUrl }: GatewayProcess, name: string): Promise<Map<string, number>> {
  const text = await (await fetch(`${adminUrl}/metrics`)).text();
  const lines = text
    .split('\n')
    .filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `));
  return new Map(
    lines.map((line) => {
      const at = line.lastIndexOf(' ');
      const labels = line
        .slice(name.length, at)
        .replace(/[{}]/g, '')
        .replaceAll(/\b\w+=""(?:,|$)/g, '');
      return [labels.replace(/,$/, ''), Number(line.slice(at))];
    }),
  );
}

// Rule metrics-1 (conventions, "Metrics"): Requests of clients and requests to the server are histograms by method
// and tool. A result with `isError` is a `tool_error`.
// Rule metrics-5.
test('metrics tell work from waiting, our errors from those of clients, and which calls were abandoned', async () => {
  const legacy = await legacyServer({ tools });
  const route = { parking: { ttl: '3s' }, sessions: { scope: 'call' } };
  const gateway = await replica(legacy, { route, relay: false });
  await send(gateway.url, 'tools/list');
  const asked = await callTool(gateway.url, 'greet');
  await callTool(gateway.url, 'greet', answersOf(asked, 'Ada'));
  await callTool(gateway.url, 'fail');
  await callTool(gateway.url, 'made-up');
  await callTool(gateway.url, 'greet', { requestState: 'no pointer' });
  await callTool(gateway.url, 'ask');
  await gateway.saw('call.ended', 4);

  const server = await scrape(gateway, 'mcp_server_operation_duration_seconds_count');
  const greet = 'mcp_method_name="tools/call",gen_ai_tool_name="greet",route="mcp"';
  expect(server.get(greet)).toBe(2);
  expect(server.get(`${greet},rpc_response_status_code="-32602"`)).toBe(1);
  const fail = 'mcp_method_name="tools/call",gen_ai_tool_name="fail",route="mcp"';
  expect(server.get(`${fail},error_type="tool_error"`)).toBe(1);
  const made = [...server].filter(([labels]) => labels.includes('gen_ai_tool_name="other"'));
  expect(made.map(([, count]) => count)).toEqual([1]);

  const client = await scrape(gateway, 'mcp_client_operation_duration_seconds_count');
  expect(client.get(greet)).toBe(1);
  expect(client.get(`${fail},error_type="tool_error"`)).toBe(1);
  expect(client.get('mcp_method_name="tools/list",route="mcp"')).toBeGreaterThan(0);
  const abandoned =
    'mcp_method_name="tools/call",gen_ai_tool_name="ask",route="mcp",error_type="expired"';
  expect(client.get(abandoned)).toBe(1);
  const worked = await scrape(gateway, 'mcp_client_operation_duration_seconds_sum');
  expect(worked.get(abandoned), 'the time of waiting is not in it').toBeLessThan(3);

  expect(
    (await scrape(gateway, 'mrtr_gateway_answer_duration_seconds_count')).get('route="mcp"'),
  ).toBe(1);
  const ends = await scrape(gateway, 'mrtr_gateway_call_ends_total');
  expect(ends.get('route="mcp",end="abandoned"')).toBe(1);
  expect(ends.get('route="mcp",end="complete"')).toBe(2);
  expect(ends.get('route="mcp",end="failed"')).toBe(1);
  expect(ends.get('route="mcp",end="lost"')).toBe(0);
  const failures = await scrape(gateway, 'mrtr_gateway_failures_total');
  expect(failures.get('route="mcp",reason="invalid_request_state"')).toBe(1);
  expect(
    (await scrape(gateway, 'mcp_client_session_duration_seconds_count')).get('route="mcp"'),
  ).toBeGreaterThan(0);
});

// Rule metrics-4: A scrape shows each server's state, running calls with their limits, passed-through requests and
// HTTP statuses.
test('metrics tell the state of the server, limits, and what was passed through', async () => {
  const legacy = await legacyServer({ tools });
  const gateway = await replica(legacy, {
    config: { limits: { maxRunningCalls: 7 } },
    relay: false,
  });
  const value = async (name: string, labels = '') => (await scrape(gateway, name)).get(labels);
  expect(await value('mrtr_gateway_upstream_up', 'route="mcp"')).toBe(1);
  expect(await value('mrtr_gateway_limit', 'limit="maxRunningCalls"')).toBe(7);
  expect(await value('mrtr_gateway_running_calls')).toBe(0);

  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' });
  await fetch(gateway.url, {
    method: 'POST',
    body,
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
  });
  expect(await value('mrtr_gateway_passed_requests_total', 'route="mcp"')).toBe(1);
  await fetch(gateway.url, {
    method: 'POST',
    body: '{',
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
  });
  expect(await value('mrtr_gateway_http_responses_total', 'status="400"')).toBeGreaterThan(0);

  await legacy.stop();
  await callTool(gateway.url, 'fail');
  expect(await value('mrtr_gateway_upstream_up', 'route="mcp"')).toBe(0);
  expect(
    await value('mrtr_gateway_failures_total', 'route="mcp",reason="upstream_unavailable"'),
  ).toBe(1);
});

test('metrics tell each hop to another replica', async () => {
  const legacy = await legacyServer({ tools });
  const [owner, other] = await replicas(legacy, 2);
  const asked = await callTool(owner.url, 'greet');
  await callTool(other.url, 'greet', answersOf(asked, 'Ada'));
  const hops = await scrape(other, 'mrtr_gateway_relay_hops_total');
  expect([...hops].filter(([, count]) => count > 0)).toEqual([
    ['route="mcp",outcome="replied"', 1],
  ]);
});

test('metrics forget a server that is down once a reload has taken it away', async () => {
  const servers = [await legacyServer({ tools }), await legacyServer({ tools })] as const;
  const [first, second] = servers;
  const routeTo = (id: string, { url }: { readonly url: string }) => ({
    id,
    path: `/${id}`,
    upstream: { url, circuitBreaker: { consecutiveFailures: 1 } },
  });
  const config = { routes: [routeTo('kept', first), routeTo('removed', second)] };
  const gateway = await replica(first, { config, relay: false });
  const { origin } = new URL(gateway.url);
  await Promise.all(servers.map((server) => server.stop()));
  const gauges = ['mrtr_gateway_upstream_up', 'mrtr_gateway_circuit_open'] as const;
  const shown = async () =>
    Promise.all(gauges.map(async (name) => Object.fromEntries(await scrape(gateway, name))));
  for (const id of ['kept', 'removed']) {
    await send(`${origin}/${id}`, 'tools/list');
    await send(`${origin}/${id}`, 'tools/list');
  }
  expect(await shown()).toEqual([
    { 'route="kept"': 0, 'route="removed"': 0 },
    { 'route="kept"': 1, 'route="removed"': 1 },
  ]);

  const other = await legacyServer({ tools });
  const next = { config: { routes: [routeTo('kept', other)] } };
  expect(await gateway.reload(next)).toMatchObject({ event: 'config.reloaded' });
  expect(await shown()).toEqual([{ 'route="kept"': 1 }, { 'route="kept"': 0 }]);
});
