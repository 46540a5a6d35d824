/** What clients get that speak no modern version, where the operator rejects them. */
import { describe, expect, test } from 'vitest';
import { callTool, send } from '../../fixtures/clients/modern-client.ts';
import { ground } from '../../fixtures/gateways/survival-testbed.ts';
import {
  initialize,
  LEGACY,
  passedTo,
  post,
  REJECT,
} from '../../fixtures/gateways/eras-testbed.ts';

describe('where legacy clients are rejected', () => {
  const supported = ['2026-07-28'];
  const listTools = { jsonrpc: '2.0', id: 'x', method: 'tools/list' };
  // Rule eras-5 (streamable-http, "Protocol Version Header"; versioning, "Protocol Version Negotiation"): With
  // `edge.legacyClients: reject`, a request with a legacy version gets 400, -32022, with `supported` and `requested`.
  // One without a version gets 400, -32020.
  // Rule eras-6.
  test.each<[string, unknown, Record<string, string>, object]>([
    [
      'initialize',
      initialize('x'),
      {},
      { id: 'x', error: { code: -32022, data: { supported, requested: LEGACY } } },
    ],
    [
      'a request in a session',
      listTools,
      { 'mcp-protocol-version': LEGACY, 'mcp-session-id': 'session-1' },
      { id: 'x', error: { code: -32022, data: { supported, requested: LEGACY } } },
    ],
    [
      'a request that names no version',
      listTools,
      {},
      { id: 'x', error: { code: -32020, data: { supported } } },
    ],
    [
      'a response',
      { jsonrpc: '2.0', id: 'x', result: {} },
      { 'mcp-protocol-version': LEGACY },
      { error: { code: -32600 } },
    ],
    ['a batch', [listTools], {}, { error: { code: -32600 } }],
  ])('%s gets 400 and an error that a modern client knows', async (_what, body, headers, error) => {
    const field = await ground(REJECT);
    const answer = await post(field.url, body, { ...headers, 'x-from': 'client' });
    expect(answer.status).toBe(400);
    expect(answer.body).toMatchObject(error);
    expect(passedTo(field)).toEqual([]);
    const served = await callTool(field.url, 'echo');
    expect(served.status, 'modern clients are served').toBe(200);
  });

  // Rule eras-6 (streamable-http, "Sending Messages" 4 and 5): With `edge.legacyClients: reject`, a notification gets
  // 202 and is dropped, and a response gets 400, -32600.
  test('a notification is accepted and dropped', async () => {
    const field = await ground(REJECT);
    const notification = { jsonrpc: '2.0', method: 'notifications/initialized' };
    const answer = await post(field.url, notification, { 'x-from': 'client' });
    expect([answer.status, answer.text]).toEqual([202, '']);
    expect(passedTo(field)).toEqual([]);
  });

  // Rule eras-8.
  test.each(['GET', 'DELETE'])('%s is not allowed', async (method) => {
    const field = await ground(REJECT);
    const headers = { 'mcp-protocol-version': LEGACY, 'mcp-session-id': 'session-1' };
    const answer = await fetch(field.url, { method, headers });
    expect([answer.status, answer.headers.get('allow')]).toEqual([405, 'POST']);
  });

  // Rule discover-1 (versioning, "Backward Compatibility with Initialization-Based Versions"; server/discover,
  // "DiscoverResult"): `supportedVersions` is `2026-07-28` and, if legacy clients pass through, the revision of the
  // server.
  test('server/discover names our version only', async () => {
    const field = await ground(REJECT);
    const { response } = await send(field.url, 'server/discover');
    expect(response.result.supportedVersions).toEqual(supported);
  });
});
