/** An operator sees that a client is refused for its legacy revision: such a client itself only says that the versions differ. */
import { expect, test } from 'vitest';
import { legacyRefusalLog } from '../../../src/front/edge-route.ts';
import { modernBody, modernHeaders } from '../../fixtures/clients/modern-client.ts';
import { RecordedLog } from '../../fixtures/gateways/gateway.ts';
import { ground } from '../../fixtures/gateways/survival-testbed.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';

const REJECT = { edge: { legacyClients: 'reject' } } as const;

async function post(url: string, body: object, headers: Record<string, string> = {}) {
  const response = await fetch(url, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...headers,
    },
    body: JSON.stringify(body),
  });
  return { status: response.status, body: await response.json() };
}

const INITIALIZE = {
  ...{ jsonrpc: '2.0', id: 1, method: 'initialize' },
  params: {
    protocolVersion: '2025-11-25',
    capabilities: {},
    clientInfo: { name: 'old', version: '1' },
  },
};
const ADVICE = 'pin 2026-07-28 in the client, or use a client that speaks it';
const LIST = { jsonrpc: '2.0', id: 2, method: 'tools/list' };

// Rule rejections-2.
test('a legacy client that is refused is a warning', async () => {
  const { gateway } = await ground(REJECT);
  const message = `Unsupported protocol version: expected 2026-07-28; ${ADVICE}`;
  expect(await post(gateway.url, INITIALIZE)).toMatchObject({
    status: 400,
    body: { error: { code: -32022, message } },
  });
  const event = await fetch(gateway.url, { headers: { accept: 'text/event-stream' } });
  expect([event.status, event.headers.get('allow'), await event.json()]).toMatchObject([
    405,
    'POST',
    { error: { message: `GET is not part of protocol revision 2026-07-28; ${ADVICE}` } },
  ]);
  const header = { 'mcp-protocol-version': '2025-06-18' };
  expect((await post(gateway.url, LIST, header)).status).toBe(400);
  expect(gateway.log.named('route.legacy_refused')).toEqual([
    { route: 'mcp', client: '127.0.0.1', requests: 1 },
  ]);
});

// Rule rejections-2.
test('a request that is refused for another reason is no such warning', async () => {
  const { gateway } = await ground(REJECT);
  const body = modernBody('tools/list', {});
  const headers = modernHeaders('tools/list', {});
  const next = JSON.parse(JSON.stringify(body).replaceAll('2026-07-28', '2027-01-01'));
  expect(
    await post(gateway.url, next, { ...headers, 'mcp-protocol-version': '2027-01-01' }),
  ).toMatchObject({ status: 400, body: { error: { code: -32022 } } });
  const contradiction = { 'mcp-protocol-version': '2026-07-28' };
  expect((await post(gateway.url, INITIALIZE, contradiction)).status).toBe(400);
  expect((await post(gateway.url, body, headers)).status).toBe(200);
  expect(gateway.log.named('route.legacy_refused')).toEqual([]);
});

// Rule rejections-2.
test('refused requests within a minute are counted in the next warning', () => {
  const clock = new ManualClock();
  const log = new RecordedLog();
  const refused = legacyRefusalLog('mcp', { clock, log });
  for (const client of ['10.0.0.1', '10.0.0.2', '10.0.0.3']) refused(client);
  clock.advance(60_000);
  refused(undefined);
  const line = { route: 'mcp' };
  expect(log.named('route.legacy_refused')).toEqual([
    { ...line, client: '10.0.0.1', requests: 1 },
    { ...line, requests: 3 },
  ]);
});
