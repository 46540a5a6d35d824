/** How a session with a server of each revision begins, what each of its messages carries, and how it ends. */
import { describe, expect, test } from 'vitest';
import { callTool, send } from '../fixtures/clients/modern-client.ts';
import { selfOf } from '../fixtures/revisions/content.ts';
import { revisionStage, textOf } from '../fixtures/revisions/testbed.ts';
import { SERVERS, since, TITLE } from '../fixtures/revisions/table.ts';

describe.each(SERVERS)(TITLE, (shape) => {
  const { revision, transport } = shape;
  const stage = revisionStage(shape);
  const self = selfOf(revision);

  // Rule discover-2.
  test('server/discover tells what the server said of itself, in modern terms', async () => {
    const { response } = await send(stage.url, 'server/discover');
    const { experimental: _ofNobody, ...capabilities } = self.capabilities;
    expect(response.result).toMatchObject({
      resultType: 'complete',
      capabilities,
      instructions: self.instructions,
      _meta: { 'io.modelcontextprotocol/serverInfo': self.serverInfo },
    });
    expect(response.result.supportedVersions).toContain('2026-07-28');
    expect(Object.keys(response.result.capabilities)).toEqual([
      ...Object.keys(capabilities),
      // The tasks of the gateway itself.
      'extensions',
    ]);
    expect(response.result).not.toHaveProperty('protocolVersion');
  });

  // Rule handshake-1 (2025-11-25 lifecycle, "Version Negotiation"): The gateway offers `2025-11-25`, and accepts
  // `2025-06-18`, `2025-03-26` and `2024-11-05`. Any other revision fails with `upstream_protocol_error`.
  // Rules envelope-2, handshake-3, handshake-7.
  test('the newest legacy revision is offered, with what the client declares and who it is', async () => {
    const capabilities = { elicitation: { form: {} }, roots: { listChanged: true } };
    await callTool(stage.url, 'echo', {}, { capabilities });
    const [initialize] = stage.server.all('initialize');
    expect(initialize?.body.params).toEqual({
      protocolVersion: '2025-11-25',
      capabilities: { elicitation: { form: {} }, roots: {} },
      clientInfo: { name: 'test', version: '1.0.0' },
    });
  });

  // Rule handshake-8.
  test('what was agreed stands in the header of every later message, and of none before', async () => {
    await callTool(stage.url, 'echo');
    const all = stage.server.received.map(({ method, headers }) => [
      method,
      headers['mcp-protocol-version'],
    ]);
    // Over HTTP+SSE a ping in a session of its own shows whether the server keeps sessions apart.
    const [pings, sent] = [
      all.filter(([method]) => method === 'ping'),
      all.filter(([method]) => method !== 'ping'),
    ];
    expect(pings).toEqual(pings.map(() => ['ping', revision]));
    expect(sent).toEqual([
      ['initialize', undefined],
      ['notifications/initialized', revision],
      ['tools/call', revision],
    ]);
  });

  // Rule wire-1 (2025-11-25 transports, "Sending Messages to the Server"): Every POST accepts JSON, and over
  // Streamable HTTP also an event stream. A reply can come as either.
  test('every message says what responses it takes', async () => {
    await callTool(stage.url, 'echo');
    const accepts = new Set(stage.server.received.map(({ headers }) => headers.accept));
    const both = 'application/json, text/event-stream';
    expect([...accepts]).toEqual([transport === 'http-sse' ? 'application/json' : both]);
  });

  // Rule sessions-9 (2025-11-25 transports, "Session Management"): A session ends with DELETE, or with its HTTP+SSE
  // stream. The server has 2 s to respond.
  // Rule sessions-4.
  test('the session ends with the call', async () => {
    await callTool(stage.url, 'echo');
    const [call] = stage.server.all('tools/call');
    const carried = call?.session ?? '';
    expect(carried).not.toBe('');
    await stage.server.until(() => !stage.server.sessions.has(carried));
    expect(stage.server.all('initialize')).toHaveLength(1);
  });
});

describe.each(since('2025-03-26').filter(({ transport }) => transport === 'streamable-http'))(
  `${TITLE} without session ids`,
  (shape) => {
    describe('as far as the gateway knows in several processes,', () => {
      const stage = revisionStage({ ...shape, sessionIds: 'none' });

      // Rule handshake-14 (2025-11-25 transports, "Session Management"): A server without session ids sees no
      // capabilities, and so cannot ask, unless `upstream.statefulWithoutSessionId` is `true`. The handshake is
      // repeated once a minute.
      test('serves calls without a handshake for each', async () => {
        expect(textOf(await callTool(stage.url, 'echo', { arguments: { a: 1 } }))).toContain(
          '"a":1',
        );
        expect(stage.server.all('initialize')).toEqual([]);
        for (const { headers } of stage.server.received) {
          expect(headers).not.toHaveProperty('mcp-session-id');
        }
      });

      test('is still sent the revision that it agreed to', async () => {
        await callTool(stage.url, 'echo');
        const [call] = stage.server.all('tools/call');
        expect(call?.headers['mcp-protocol-version']).toBe(shape.revision);
      });

      // Rule handshake-14.
      test('lists and reads', async () => {
        const tools = await send(stage.url, 'tools/list');
        expect(tools.response.result.tools.length).toBeGreaterThan(1);
        const read = await send(stage.url, 'resources/read', { uri: 'test://one' });
        expect(read.response.result.contents).toHaveLength(2);
      });
    });

    describe('that is declared to be one process', () => {
      const upstream = { statefulWithoutSessionId: true };
      const stage = revisionStage({ ...shape, sessionIds: 'none' }, { upstream });

      // Rule handshake-14.
      test('is greeted by a client that can be asked what it declares', async () => {
        await callTool(stage.url, 'echo', {}, { capabilities: { elicitation: { form: {} } } });
        const declared = stage.server.all('initialize').map(({ body }) => body.params.capabilities);
        expect(declared.at(-1)).toEqual({ elicitation: { form: {} } });
      });
    });
  },
);
