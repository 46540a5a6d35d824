/** What the gateway exports of a request to an OpenTelemetry collector: real processes, OTLP over HTTP. */
import { expect, test } from 'vitest';
import { LegacyHttpClient } from '../../fixtures/clients/legacy-http.ts';
import { callTool, send } from '../../fixtures/clients/modern-client.ts';
import { stdioGateways } from '../../fixtures/gateways/stdio-gateways.ts';
import { askName } from '../../fixtures/servers/legacy-server.ts';
import { collectorFor } from '../../fixtures/servers/trace-collector.ts';
import {
  answersOf,
  greeter,
  legacyServer,
  replica,
  replicas,
  text,
} from '../../fixtures/gateways/replica-testbed.ts';

const [TRACE_1, TRACE_2] = ['1'.repeat(32), '2'.repeat(32)];
const [PARENT_1, PARENT_2] = ['a'.repeat(16), 'b'.repeat(16)];

// Rule traces-1 (conventions, "Server"): A request of a client is a server span. Its parent is `traceparent` of
// `_meta`.
// Rule traces-2 (conventions, "Client"): Work of the server is a client span, whose context goes to the server. It
// has no time of users.
// Rule traces-3: A retry is linked to the first request of its call, on any replica.
test('a call of two rounds over two replicas is two traces, which are linked', async () => {
  const { collector, env } = await collectorFor();
  const { tools } = greeter();
  const legacy = await legacyServer({ tools });
  const [owner, other] = await replicas(legacy, 2, { env });

  const asked = await callTool(
    owner.url,
    'greet',
    {},
    {
      id: 'first',
      meta: { traceparent: `00-${TRACE_1}-${PARENT_1}-01`, tracestate: 'vendor=1', baggage: 'a=b' },
      headers: { traceparent: `00-${TRACE_2}-${PARENT_2}-01` },
    },
  );
  const done = await callTool(other.url, 'greet', answersOf(asked, 'Ada'), {
    meta: { traceparent: `00-${TRACE_2}-${PARENT_2}-01` },
  });
  expect(text(done)).toBe('Hello Ada');
  await Promise.all([owner.drain(), other.drain()]);

  const first = collector.one('SERVER', 'tools/call greet', ({ traceId }) => traceId === TRACE_1);
  expect(first).toMatchObject({
    ...{ parentSpanId: PARENT_1, traceState: 'vendor=1', status: 'UNSET' },
    // The context of the HTTP request, which differs.
    links: [{ traceId: TRACE_2, spanId: PARENT_2 }],
    attributes: {
      'mcp.method.name': 'tools/call',
      'gen_ai.operation.name': 'execute_tool',
      'gen_ai.tool.name': 'greet',
      'mcp.protocol.version': '2026-07-28',
      'jsonrpc.request.id': 'first',
      'network.transport': 'tcp',
      'mrtr_gateway.outcome': 'input_required',
    },
    resource: {
      'service.name': 'mrtr-gateway',
      'telemetry.sdk.language': 'nodejs',
      'deployment.environment.name': 'test',
    },
  });
  expect(first.attributes).not.toHaveProperty('mcp.session.id');

  const asking = collector.one('CLIENT', 'tools/call greet', ({ traceId }) => traceId === TRACE_1);
  expect(asking).toMatchObject({
    parentSpanId: first.spanId,
    attributes: {
      'gen_ai.tool.name': 'greet',
      'mcp.protocol.version': '2025-11-25',
      'server.address': '127.0.0.1',
      'server.port': Number(new URL(legacy.url).port),
      'mrtr_gateway.round': 1,
    },
  });
  const upstream = legacy.received.find(({ method }) => method === 'tools/call');
  const context = { traceparent: `00-${TRACE_1}-${asking.spanId}-01`, tracestate: 'vendor=1' };
  expect(upstream?.body.params._meta).toMatchObject({ ...context, baggage: 'a=b' });
  expect(upstream?.headers).toMatchObject(context);

  const retry = collector.one('SERVER', 'tools/call greet', ({ traceId }) => traceId === TRACE_2);
  expect(retry).toMatchObject({
    parentSpanId: PARENT_2,
    links: [{ traceId: TRACE_1, spanId: first.spanId }],
    attributes: {
      'mrtr_gateway.round': 1,
      'mrtr_gateway.recovered_by': 'relay',
      'mrtr_gateway.outcome': 'complete',
    },
  });
  const sent = collector.one('CLIENT', 'mrtr_gateway.relay');
  const arrived = collector.one('SERVER', 'mrtr_gateway.relay');
  const finishing = collector.one(
    'CLIENT',
    'tools/call greet',
    ({ traceId }) => traceId === TRACE_2,
  );
  expect(sent).toMatchObject({ traceId: TRACE_2, parentSpanId: retry.spanId });
  expect(arrived).toMatchObject({
    ...{ traceId: TRACE_2, parentSpanId: sent.spanId },
    links: [{ traceId: TRACE_1, spanId: first.spanId }],
  });
  expect(finishing).toMatchObject({ parentSpanId: arrived.spanId });
  expect(asking.endMs, 'the time of the user is in no span').toBeLessThanOrEqual(retry.startMs);
  const ids = (spans: readonly { resource: Readonly<Record<string, unknown>> }[]) =>
    new Set(spans.map(({ resource }) => resource['service.instance.id'])).size;
  expect([ids([first, asking, arrived, finishing]), ids([retry, sent])]).toEqual([1, 1]);
  expect(collector.headers[0]).toMatchObject({ 'x-tenant': 'blue' });

  // Every line about the call says in which trace it is.
  const traces = (lines: readonly object[], event: string) =>
    lines
      .filter((line) => 'event' in line && line.event === event)
      .map((line) => (({ ...line }) as { trace?: string }).trace);
  for (const gateway of [owner, other]) await gateway.written('call.resumed');
  expect(traces(owner.lines(), 'call.parked')).toEqual([TRACE_1]);
  expect(traces(owner.lines(), 'call.resumed')).toEqual([TRACE_2]);
  expect(traces(owner.lines(), 'call.ended')).toEqual([TRACE_2]);
  expect(traces(other.lines(), 'call.resumed')).toEqual([TRACE_2]);
  expect(traces(other.lines(), 'edge.request')).toEqual([TRACE_2]);
});

// Rule traces-4 (conventions, "Server"): A fault of the client is no error of the span. A result with `isError` is a
// `tool_error`.
test('errors of the server and of tools are errors of a span, faults of the client are not', async () => {
  const { collector, env } = await collectorFor();
  const legacy = await legacyServer({
    tools: { fails: async () => ({ isError: true, content: [{ type: 'text', text: 'no' }] }) },
  });
  const gateway = await replica(legacy, { env, relay: false });
  await callTool(gateway.url, 'fails');
  await send(gateway.url, 'prompts/get', { name: 'unknown' });
  await send(gateway.url, 'tools/list');
  await gateway.drain();

  for (const kind of ['SERVER', 'CLIENT']) {
    expect(collector.one(kind, 'tools/call fails')).toMatchObject({
      status: 'ERROR',
      attributes: { 'error.type': 'tool_error' },
    });
  }
  const refused = collector.one('SERVER', 'prompts/get unknown');
  expect(refused.status).toBe('UNSET');
  expect(refused.attributes).toMatchObject({ 'gen_ai.prompt.name': 'unknown' });
  expect(refused.attributes['rpc.response.status_code']).toMatch(/^-326\d\d$/);
  const list = collector.one('CLIENT', 'tools/list');
  expect(list.parentSpanId).toBe(collector.one('SERVER', 'tools/list').spanId);
});

// Rule traces-5: An unreachable collector fails no call, and delays the end of the process by at most 2 s.
test('a collector that is unreachable fails no call', async () => {
  const legacy = await legacyServer({ tools: { greet: (call) => askName(call) } });
  const gateway = await replica(legacy, {
    relay: false,
    env: { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9', OTEL_EXPORTER_OTLP_TIMEOUT: '100' },
  });
  const asked = await callTool(gateway.url, 'greet');
  const done = await callTool(gateway.url, 'greet', answersOf(asked, 'Ada'));
  expect(text(done)).toBe('Ada');
  expect(await gateway.drain()).toBe(0);
  expect(gateway.named('traces.not_exported')).toHaveLength(1);
});

// Rule traces-6: Without an endpoint nothing is exported. The client's trace context still goes to the server and
// into the log.
test('without an endpoint the log still names the trace', async () => {
  const legacy = await legacyServer({ tools: { greet: async () => 'hello' } });
  const gateway = await replica(legacy, { relay: false });
  const traceparent = `00-${TRACE_1}-${PARENT_1}-01`;
  await callTool(gateway.url, 'greet', {}, { meta: { traceparent } });
  expect(await gateway.saw('call.ended')).toMatchObject([{ trace: TRACE_1 }]);
  const upstream = legacy.received.find(({ method }) => method === 'tools/call');
  expect(upstream?.body.params._meta).toMatchObject({ traceparent });
});

// Rule traces-8: A request of a legacy client to a server over stdio is a server span. Its content is not read.
test('a request of a legacy client in front of a server over stdio is a span', async () => {
  const { collector, env } = await collectorFor();
  const { started } = await stdioGateways(1, { env, relay: false });
  const [gateway] = started;
  const client = await LegacyHttpClient.open(gateway!.url);
  const { params, ...call } = client.callOf('pid');
  const traceparent = `00-${TRACE_1}-${PARENT_1}-01`;
  const headers = { 'mcp-protocol-version': '2025-11-25' };
  await client.post({ ...call, params: { ...params, _meta: { traceparent } } }, headers);
  await client.delete();
  await gateway!.drain();
  const span = collector.one('SERVER', 'tools/call pid');
  expect(span).toMatchObject({
    ...{ traceId: TRACE_1, parentSpanId: PARENT_1, status: 'UNSET' },
    attributes: { 'gen_ai.tool.name': 'pid', 'mcp.protocol.version': '2025-11-25' },
  });
  expect(span.attributes).not.toHaveProperty('mcp.session.id');
  expect(collector.one('SERVER', 'initialize').attributes).not.toHaveProperty(
    'mcp.protocol.version',
  );
});
