/** Which revision a server and the gateway agree on (lifecycle, "Version Negotiation"), and when on none. */
import { describe, expect, test } from 'vitest';
import { testGateway } from '../fixtures/gateways/test-gateway.ts';
import { callTool, send } from '../fixtures/clients/modern-client.ts';
import { textOf } from '../fixtures/revisions/testbed.ts';
import { before, SERVERS, TITLE, type RevisionShape } from '../fixtures/revisions/table.ts';
import { agreed, wireServer, type WireScript } from '../fixtures/revisions/wire.ts';
import { stopAfterTest } from '../fixtures/stop-after-test.ts';

const OFFER = '2025-11-25';

/** The gateway greets the server at its start and is met; what the test has in mind comes afterwards. */
async function start(shape: RevisionShape, script: WireScript) {
  let started = false;
  const server = await wireServer(shape, {
    request: ({ body }, say) => {
      const content = [{ type: 'text', text: 'called' }];
      say.own({ jsonrpc: '2.0', id: body.id, result: { content } });
    },
    initialize: (params) => (started && script.initialize?.(params)) || agreed(shape),
  });
  stopAfterTest(() => server.stop());
  const { transport } = shape;
  const url = transport === 'http-sse' ? server.url.replace('/mcp', '/sse') : server.url;
  const gateway = await testGateway(url, { transport });
  started = true;
  const first = server.received.length;
  const received = () => server.received.slice(first);
  const offers = () =>
    received()
      .filter(({ body }) => body?.method === 'initialize')
      .map(({ body }) => body.params.protocolVersion);
  const agreedOn = () =>
    received().find(({ body }) => body?.method === 'tools/call')?.headers['mcp-protocol-version'];
  const problems = () => JSON.stringify(gateway.log.named('upstream.failed'));
  return { gateway, url: gateway.url, received, offers, agreedOn, problems };
}

/** Refuses everything but its own revision, and that too when it is the one that is offered first. */
const refuses = ({ revision }: RevisionShape, data: unknown): WireScript => ({
  initialize: ({ protocolVersion }) =>
    protocolVersion === revision && revision !== OFFER
      ? agreed({ revision })
      : { error: { code: -32602, message: 'Unsupported protocol version', data } },
});

describe.each(SERVERS)(TITLE, (shape) => {
  const { revision } = shape;

  // Rule handshake-1.
  test('a server that replies with its own revision is spoken to in that', async () => {
    const { url, offers, agreedOn } = await start(shape, {});
    expect(textOf(await callTool(url, 'any'))).toBe('called');
    expect(offers()).toEqual([OFFER]);
    expect(agreedOn()).toBe(revision);
  });

  // Rule handshake-2.
  test.each([
    { what: 'names nothing that the gateway knows', data: { supported: ['2099-01-01'] } },
    { what: 'names nothing', data: undefined },
  ])('a server that refuses the offer and $what is not offered another', async ({ data }) => {
    const { url, gateway, offers, problems } = await start(shape, refuses(shape, data));
    const { status, response } = await callTool(url, 'any');
    expect(status).toBe(200);
    expect(response.error, problems()).toMatchObject({
      code: -32603,
      data: { reason: 'upstream_protocol_error' },
    });
    expect(new Set(offers())).toEqual(new Set([OFFER]));
    expect(gateway.log.named('upstream.failed').at(0)?.['problem']).toContain('-32602');
  });

  // Rule handshake-1.
  test.each(['2024-10-07', '2026-07-28', '2099-01-01', '', null, 20250326])(
    'a server that answers with %j is left',
    async (protocolVersion) => {
      const { result } = agreed(shape) as { result: object };
      const initialize = () => ({ result: { ...result, protocolVersion } });
      const { received, url, problems } = await start(shape, { initialize });
      const { status, response } = await send(url, 'tools/list');
      expect(status).toBe(200);
      expect(response.error, problems()).toMatchObject({
        code: -32603,
        data: { reason: 'upstream_protocol_error' },
      });
      const asked = received().flatMap(({ body }) => (body === undefined ? [] : [body.method]));
      expect(new Set(asked)).toEqual(new Set(['initialize']));
    },
  );
});

describe.each(before(OFFER))(TITLE, (shape) => {
  const { revision } = shape;
  // Rule handshake-2 (2025-11-25 lifecycle, "Error Handling"): A server that refuses with `data.supported` is offered
  // the newest known revision of it, once.
  test('a server that refuses the offer and names what it supports is offered the best of that', async () => {
    const data = { supported: ['2024-10-07', revision, '2099-01-01'], requested: OFFER };
    const { url, offers, agreedOn } = await start(shape, refuses(shape, data));
    expect(textOf(await callTool(url, 'any'))).toBe('called');
    expect(offers()).toEqual([OFFER, revision]);
    expect(agreedOn()).toBe(revision);
  });
});
