/** What goes over the wire to a legacy server of HTTP+SSE (2024-11-05). */
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { describe, expect, test } from 'vitest';
import { serverRequestId } from '../../../src/protocol/ids.ts';
import { ManualClock, turnsUntil } from '../../fixtures/manual-clock.ts';
import {
  eventStream,
  INITIALIZE_RESULT,
  ScriptedServer,
  type Answer,
  type Received,
} from '../../fixtures/servers/scripted-server.ts';
import { call, open, reply, upstreamOf } from '../../fixtures/servers/upstream-testbed.ts';

describe('a server of the oldest transport', () => {
  /** Answers the GET as the test says and takes every POST with 202. */
  const sse = (onGet: Answer, taken: (received: Received) => void = () => {}) =>
    ScriptedServer.start((received, response, request) => {
      if (received.method === 'GET') return onGet(received, response, request);
      response.writeHead(202).end('Accepted');
      taken(received);
    });

  // Rule wire-10.
  test('that names no endpoint within five seconds is given up', async () => {
    const server = await sse((_received, response) => void eventStream(response));
    const clock = new ManualClock();
    const opening = open(upstreamOf(server, { transport: 'http-sse' }, clock));
    const refused = expect(opening).rejects.toMatchObject({ code: 'upstream_protocol_error' });
    await turnsUntil(() => clock.pending > 0);
    clock.advance(5_000);
    await refused;
  });

  // Rule wire-10.
  test('that names its endpoint twice gets messages at the first only', async () => {
    let stream: ReturnType<typeof eventStream> | undefined;
    const server = await sse(
      (_received, response) => {
        stream = eventStream(response);
        stream.raw('event: endpoint\ndata: ../one?sessionId=abc\n\n');
        stream.raw('event: endpoint\ndata: /two\n\n');
      },
      ({ body }) => {
        if (body.id === undefined) return;
        stream?.send(reply(body.id, { ...INITIALIZE_RESULT, protocolVersion: '2024-11-05' }));
      },
    );
    await open(upstreamOf(server, { transport: 'http-sse' }));
    const paths = server.received.flatMap(({ method, path }) => (method === 'POST' ? [path] : []));
    expect(new Set(paths)).toEqual(new Set(['/one?sessionId=abc']));
    expect(server.received.filter(({ method }) => method === 'GET')).toHaveLength(1);
  });

  /** Takes every POST but those that the test holds, and replies to the handshake. */
  async function holding(isHeld: (body: Received['body']) => boolean) {
    let stream: ReturnType<typeof eventStream> | undefined;
    const held: ServerResponse[] = [];
    const server = await ScriptedServer.start(({ method, body }, response) => {
      if (method === 'GET') {
        stream = eventStream(response);
        return void stream.raw('event: endpoint\ndata: /message\n\n');
      }
      if (isHeld(body)) return void held.push(response);
      response.writeHead(202).end();
      if (body.method !== 'initialize') return;
      stream?.send(reply(body.id, { ...INITIALIZE_RESULT, protocolVersion: '2024-11-05' }));
    });
    const clock = new ManualClock();
    const options = { transport: 'http-sse', headersTimeoutMs: 60_000 } as const;
    const { heard, exchange } = call(await open(upstreamOf(server, options, clock)));
    const { body } = await server.saw((received) => received.body?.method === 'tools/call');
    const send = (message: object) => stream?.send(message);
    return { server, held, clock, heard, exchange, send, id: body.id };
  }

  // Rule limits-7 (2025-11-25 lifecycle, "Timeouts"): Any other request has `upstream.headersTimeout` (60 s by
  // default). An answer or notification over HTTP+SSE has 10 s.
  test('that does not take an answer within ten seconds has not taken it', async () => {
    const { server, clock, heard, exchange, send } = await holding(
      (body) => body.method === undefined,
    );
    send({ jsonrpc: '2.0', id: 'q', method: 'roots/list' });
    await heard.until('asked');
    const given = exchange.respond(serverRequestId('q'), { result: { roots: [] } }, {});
    const refused = expect(given).rejects.toMatchObject({
      code: 'upstream_timeout',
      details: { mayHaveActed: true },
    });
    await server.saw(({ body }) => body?.id === 'q');
    clock.advance(10_000);
    await refused;
  });

  // Rule limits-6.
  test('can respond to the POST of a call when the call has ended, as servers of the Java SDK do', async () => {
    const { held, clock, heard, exchange, send, id } = await holding(
      (body) => body.method === 'tools/call',
    );
    clock.advance(3_600_000);
    send(reply(id));
    expect(await heard.until('replied')).toMatchObject(['replied', { result: {} }]);
    held[0]?.writeHead(200).end();
    await exchange.accepted;
  });

  // Rule limits-7.
  test('that does not respond to the POST within ten seconds of the end of the call is not waited for', async () => {
    const { held, clock, heard, exchange, send, id } = await holding(
      (body) => body.method === 'tools/call',
    );
    send(reply(id));
    await heard.until('replied');
    const closed = once(held[0]!, 'close');
    exchange.abandon();
    clock.advance(10_000);
    await closed;
  });

  // Rule limits-10.
  test('whose reply to one call is too large keeps the other one, and the session', async () => {
    let stream: ReturnType<typeof eventStream> | undefined;
    const server = await sse(
      (_received, response) => {
        stream = eventStream(response);
        stream.raw('event: endpoint\ndata: /message\n\n');
      },
      ({ body }) => {
        if (body.method === 'initialize') stream?.send(reply(body.id, INITIALIZE_RESULT));
      },
    );
    const session = await open(upstreamOf(server, { transport: 'http-sse' }));
    const [one, other] = [call(session), call(session)];
    await server.saw(({ body }) => body?.id === other.exchange.id);
    const large = { content: [{ type: 'text', text: 'x'.repeat(20_000) }] };
    stream?.send(reply(one.exchange.id, large));
    expect(await one.heard.until('lost')).toEqual(['lost', 'upstream_protocol_error']);
    // A late reply to a call that has ended, and one to nobody.
    stream?.send(reply(one.exchange.id, large));
    stream?.send(reply('nobody', large));
    stream?.send(reply(other.exchange.id));
    expect(await other.heard.until('replied')).toMatchObject(['replied', { result: {} }]);
    expect(session.dead).toBe(false);
  });
});
