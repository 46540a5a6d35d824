/** Servers that support both protocol versions, and servers that change their era while the gateway runs. */
import { describe, expect, test } from 'vitest';
import { LegacyHttpClient } from '../../fixtures/clients/legacy-http.ts';
import { callTool, send } from '../../fixtures/clients/modern-client.ts';
import type { GatewayOverrides } from '../../fixtures/gateways/gateway.ts';
import { testGateway } from '../../fixtures/gateways/test-gateway.ts';
import { advanceUntil, ManualClock } from '../../fixtures/manual-clock.ts';
import { ChangingServer, type ServerEra } from '../../fixtures/servers/changing-server.ts';

async function stage(era: ServerEra, overrides: GatewayOverrides = {}) {
  const server = await ChangingServer.start(era);
  const gateway = await testGateway(server.url, overrides);
  const called = async (name: string) => {
    const { response } = await callTool(gateway.url, name);
    return response.result?.content?.[0]?.text ?? response;
  };
  return { server, gateway, called, detected: () => gateway.log.named('upstream.detected') };
}

describe('a server that supports both protocol versions', () => {
  // Rule eras-13: With `upstream.era: auto`, a server of both versions is bridged if it keeps legacy sessions.
  test('is bridged, so that a tool that asks in the legacy way can ask', async () => {
    const { gateway, detected } = await stage('both');
    const asked = await callTool(gateway.url, 'ask');
    const { resultType, inputRequests, requestState } = asked.response.result;
    expect(resultType).toBe('input_required');
    const [key] = Object.keys(inputRequests);
    const inputResponses = { [key ?? '']: { action: 'accept', content: { name: 'Ada' } } };
    const answered = await send(gateway.url, 'tools/call', {
      name: 'ask',
      inputResponses,
      requestState,
    });
    expect(answered.response.result.content[0].text).toBe('legacy, Ada');
    expect(detected()).toEqual([{ route: 'mcp', kind: 'streamable-http', cause: 'sessions' }]);
  });

  // Rule eras-14: What a bridged server offers only in the modern version is logged once at the start.
  test('is compared, and what only modern clients see is logged by name', async () => {
    const { gateway } = await stage('both');
    await gateway.log.saw('upstream.only_modern', 2);
    expect(gateway.log.named('upstream.only_modern')).toEqual([
      { route: 'mcp', what: 'capabilities', names: 'tools.listChanged' },
      { route: 'mcp', what: 'tools', names: 'modern_only' },
    ]);
  });

  // Rule eras-13.
  test('is passed through with era: modern', async () => {
    const { called, detected } = await stage('both', { upstream: { era: 'modern' } });
    expect(await called('where')).toBe('modern');
    expect(detected()).toEqual([{ route: 'mcp', kind: 'modern', cause: 'configured' }]);
  });

  // Rule eras-13.
  test('is not asked for the modern era with era: legacy', async () => {
    const { server, called } = await stage('both', { upstream: { era: 'legacy' } });
    expect(await called('where')).toBe('legacy');
    expect(server.scripted.methods()).not.toContain('server/discover');
  });

  // Rule eras-15: A `requestState` that the server issued itself is refused with -32602 and `data.cause`
  // `not_issued_here`.
  test('gets no requestState of its own back, and the client is told', async () => {
    const { gateway } = await stage('both', { upstream: { era: 'legacy' } });
    const { response } = await send(gateway.url, 'tools/call', {
      name: 'ask',
      requestState: 'issued-by-the-server',
      inputResponses: {},
    });
    expect(response.error).toMatchObject({
      code: -32602,
      message: expect.stringContaining('this gateway did not issue it'),
      data: { reason: 'invalid_request_state', cause: 'not_issued_here' },
    });
    expect(gateway.log.named('pointer.refused')).toMatchObject([
      { reason: 'malformed', problem: 'the server may have issued it' },
    ]);
  });
});

describe('a server that speaks one era only', () => {
  // Rule eras-15.
  test('and the legacy one cannot have issued a requestState', async () => {
    const { gateway } = await stage('legacy');
    const params = { name: 'ask', requestState: 'made-up', inputResponses: {} };
    const { response } = await send(gateway.url, 'tools/call', params);
    expect(response.error.data).not.toHaveProperty('cause');
  });

  // Rule eras-13.
  test('and the modern one is passed through', async () => {
    const { called, detected } = await stage('modern');
    expect(await called('modern_only')).toBe('modern');
    expect(detected()).toEqual([{ route: 'mcp', kind: 'modern', cause: 'only_modern' }]);
  });

  test('and not that of upstream.era keeps the gateway from starting', async () => {
    await expect(stage('legacy', { upstream: { era: 'modern' } })).rejects.toMatchObject({
      code: 'upstream_not_mcp',
      message: expect.stringContaining('upstream.era is modern'),
    });
  });
});

// Rule eras-16.
test('a call whose response has begun is told that the server has changed', async () => {
  const clock = new ManualClock();
  const { server, gateway } = await stage('legacy', { clock });
  server.change('modern');
  clock.advance(1_000);
  const { refusing, release } = server.holdRefusals();
  const called = callTool(gateway.url, 'where');
  await refusing;
  clock.advance(5_000);
  release();
  const { response, streamed } = await advanceUntil(clock, called);
  expect(streamed).toBe(true);
  expect(response.error.data).toEqual({
    reason: 'upstream_changed',
    mayHaveActed: 'no',
    help: 'mrtr-gateway/docs/operate/errors.md#upstream_changed',
  });
  expect((await callTool(gateway.url, 'where')).response.result.content[0].text).toBe('modern');
});

// Rule eras-16.
test('a call whose path is spelled in another way is served in the other way, too', async () => {
  const clock = new ManualClock();
  const { server, gateway } = await stage('legacy', { clock });
  server.change('modern');
  clock.advance(1_000);
  const url = gateway.url.replace('/mcp', '/%6dcp');
  // It is refused at first, and the session of the greeting may be on its way out.
  const { response } = await advanceUntil(clock, callTool(url, 'where'));
  expect(response.result.content[0].text).toBe('modern');
  expect((await callTool(url, 'where')).response.result.content[0].text).toBe('modern');
});

// Rule eras-16: A server that changes its version is detected by its replies. A request that cannot be passed on any
// more gets -32603 with `data.reason` `upstream_changed`.
describe.each<[ServerEra, ServerEra, string]>([
  ['legacy', 'both', 'legacy'],
  ['legacy', 'modern', 'modern'],
  ['both', 'modern', 'modern'],
  ['both', 'legacy', 'legacy'],
  ['modern', 'both', 'modern'],
  ['modern', 'legacy', 'legacy'],
])('a server that changes from %s to %s', (before, after, kind) => {
  test('serves calls and lists as before', async () => {
    const clock = new ManualClock();
    const { server, gateway, called, detected } = await stage(before, { clock });
    expect(await called('where')).toBe(before === 'modern' ? 'modern' : 'legacy');
    const changes = detected().length;
    server.change(after);
    clock.advance(1_000);
    expect(await called('where')).toBe(kind);
    const { response } = await send(gateway.url, 'tools/list');
    expect(response.result.tools[0].name).toBe('where');
    const isOther = (before === 'modern') !== (kind === 'modern');
    expect(detected()).toHaveLength(changes + (isOther ? 1 : 0));
  });
});

test('a session of a legacy client ends where its server speaks a legacy revision by now', async () => {
  const clock = new ManualClock();
  const { server, gateway } = await stage('modern', { clock });
  const client = await LegacyHttpClient.open(gateway.url);
  expect(await client.text('where')).toBe('modern');
  server.change('legacy');
  clock.advance(1_000);
  const { body } = await client.call('where');
  expect(body.error.message).toBe('Bad Request: Server not initialized');
  expect((await client.call('where')).status).toBe(404);
  const next = await LegacyHttpClient.open(gateway.url);
  expect(await next.text('where')).toBe('legacy');
});
