/** How a server is found out, and how its session begins. */
import { describe, expect, test } from 'vitest';
import { EMPTY_PROFILE } from '../../../../src/protocol/translate/client-profile.ts';
import {
  eventStream,
  INITIALIZE_RESULT,
  json,
  legacyServer,
  ScriptedServer,
} from '../../../fixtures/servers/scripted-server.ts';
import { call, open, reply, upstreamOf } from '../../../fixtures/servers/upstream-testbed.ts';
import { httpSseServer } from '../../../fixtures/servers/http-sse-server.ts';

describe('finding out what a server speaks', () => {
  // Rule detection-1 (versioning, "Backward Compatibility with Initialization-Based Versions"): A server that accepts
  // `initialize` with a session id is bridged. Any other is asked for `server/discover`: if that names `2026-07-28`,
  // all requests pass through.
  test('a server that replies to server/discover is modern', async () => {
    const server = await ScriptedServer.start((received, response) => {
      json(response, 200, reply(received.body.id, { supportedVersions: ['2026-07-28'] }));
    });
    expect(await upstreamOf(server).detect({})).toBe('modern');
  });

  // Rule detection-3 (2025-11-25 transports, "Backwards Compatibility"): A server that refuses a POST of `initialize`
  // with 400, 404 or 405 speaks HTTP+SSE if a GET opens its stream. Otherwise requests fail with
  // `upstream_protocol_error`.
  test('a server that takes initialize speaks Streamable HTTP', async () => {
    const upstream = upstreamOf(await legacyServer(() => {}));
    expect(await upstream.detect({})).toBe('streamable-http');
  });

  // Rule detection-3.
  test('a server whose GET names an endpoint speaks HTTP+SSE', async () => {
    const server = await httpSseServer();
    expect(await upstreamOf(server).detect({})).toBe('http-sse');
  });

  // Rule detection-4: 401, 403, 429, 502, 503 and 504 decide nothing: the request fails, and the next one asks again.
  test('refused credentials decide nothing', async () => {
    const server = await ScriptedServer.start((_received, response) => {
      json(response, 401, {}, { 'www-authenticate': 'Bearer realm="x"' });
    });
    const upstream = upstreamOf(server);
    await expect(upstream.detect({})).rejects.toMatchObject({
      code: 'unauthorized',
      details: { wwwAuthenticate: 'Bearer realm="x"' },
    });
    expect(upstream.knownKind).toBeNull();
  });

  // Rule detection-2.
  test('a server that does not reply to an unknown method gets initialize nevertheless', async () => {
    const server = await ScriptedServer.start(({ body }, response) => {
      if (body?.method === 'initialize') json(response, 200, reply(body.id, INITIALIZE_RESULT));
      else if (body !== undefined && body.id === undefined) response.writeHead(202).end();
      else if (body === undefined) response.writeHead(405).end();
    });
    expect(await upstreamOf(server).detect({})).toBe('streamable-http');
  });

  // Rule detection-3.
  test('a server of another kind is named as such', async () => {
    const server = await ScriptedServer.start((_received, response) => {
      response.writeHead(200, { 'content-type': 'text/html' }).end('<h1>hello</h1>');
    });
    await expect(upstreamOf(server).detect({})).rejects.toMatchObject({
      code: 'upstream_protocol_error',
    });
  });
});

describe('the handshake', () => {
  // Rules handshake-8, detection-6, handshake-10.
  test('declares what the client declares, and opens the standalone stream before the first call', async () => {
    const server = await legacyServer(
      (received, response) => json(response, 200, reply(received.body.id)),
      { onGet: (_received, response) => void eventStream(response) },
    );
    const session = await open(upstreamOf(server, { transport: 'streamable-http' }));
    const { heard } = call(session);
    await heard.until('replied');
    const kinds = server.received.map((received) => received.body?.method ?? received.method);
    expect(kinds).toEqual(['initialize', 'notifications/initialized', 'GET', 'tools/call']);
    expect(server.received[0]?.body.params.capabilities).toEqual({
      elicitation: { form: {} },
      roots: {},
    });
    const later = server.received.slice(1);
    expect(later.map((received) => received.headers['mcp-session-id'])).toEqual([
      'session-1',
      'session-1',
      'session-1',
    ]);
    expect(later[0]?.headers['mcp-protocol-version']).toBe('2025-11-25');
  });

  // Rule questions-6 (2025-11-25 transports, "Session Management"): A question of a server without session ids ends
  // its call with -32603, `data.reason` `call_not_answerable` and `data.cause` `no_session_id`.
  // Rule handshake-14.
  test('a server without session ids is greeted as by a client that can do nothing', async () => {
    const server = await legacyServer(() => {}, { sessionId: null });
    const session = await open(upstreamOf(server, { transport: 'streamable-http' }));
    expect(session.interactive).toBe(false);
    const greetings = server.received.filter((received) => received.body?.method === 'initialize');
    expect(greetings.at(-1)?.body.params.capabilities).toEqual({});
  });

  test('an unknown revision is refused', async () => {
    const server = await ScriptedServer.start((received, response) => {
      const result = { ...INITIALIZE_RESULT, protocolVersion: '1999-01-01' };
      json(response, 200, reply(received.body.id, result));
    });
    const upstream = upstreamOf(server, { transport: 'streamable-http' });
    await expect(open(upstream)).rejects.toMatchObject({ code: 'upstream_protocol_error' });
  });

  test('a server that names the versions it supports gets the best of them', async () => {
    const server = await ScriptedServer.start((received, response) => {
      const { id, method, params } = received.body;
      if (method !== 'initialize') return void response.writeHead(202).end();
      if (params.protocolVersion === '2025-03-26') {
        const result = { ...INITIALIZE_RESULT, protocolVersion: '2025-03-26' };
        return json(response, 200, reply(id, result));
      }
      const data = { supported: ['2024-11-05', '2025-03-26'] };
      json(response, 200, { jsonrpc: '2.0', id, error: { code: -32602, message: 'no', data } });
    });
    const upstream = upstreamOf(server, { transport: 'streamable-http' });
    const session = await open(upstream, EMPTY_PROFILE);
    expect(session.initializeResult.protocolVersion).toBe('2025-03-26');
  });
});

describe('a refusal by HTTP status with a JSON-RPC error in it', () => {
  // Rule handshake-2.
  test('of initialize that names versions is followed by a better offer', async () => {
    const offers: string[] = [];
    const server = await ScriptedServer.start(({ method, body }, response) => {
      if (method !== 'POST') return void response.writeHead(405).end();
      if (body.method !== 'initialize') return void response.writeHead(202).end();
      offers.push(body.params.protocolVersion);
      if (body.params.protocolVersion === '2025-06-18') {
        return json(
          response,
          200,
          reply(body.id, { ...INITIALIZE_RESULT, protocolVersion: '2025-06-18' }),
        );
      }
      const error = { code: -32602, message: 'no', data: { supported: ['2025-06-18'] } };
      json(response, 400, { jsonrpc: '2.0', id: null, error });
    });
    const session = await open(upstreamOf(server, { transport: 'streamable-http' }));
    expect(session.initializeResult.protocolVersion).toBe('2025-06-18');
    expect(new Set(offers)).toEqual(new Set(['2025-11-25', '2025-06-18']));
  });

  // Rule errors-2: A JSON-RPC error with a status 4xx other than 401, 403, 404 and 429 counts like one with 200.
  test('of a call is the reply to it', async () => {
    const server = await legacyServer(({ body }, response) => {
      const error = { code: -32602, message: 'no such tool' };
      json(response, 400, { jsonrpc: '2.0', id: body.id, error });
    });
    const { heard } = call(await open(upstreamOf(server)));
    expect(await heard.until('replied')).toEqual([
      'replied',
      { error: { code: -32602, message: 'no such tool' } },
    ]);
  });
});
