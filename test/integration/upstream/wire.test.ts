/** What goes over the wire to a legacy server and what is taken from it, where servers take liberties. */
import { describe, expect, test } from 'vitest';
import { EMPTY_PROFILE } from '../../../src/protocol/translate/client-profile.ts';
import { serverRequestId, sessionId } from '../../../src/protocol/ids.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';
import {
  eventStream,
  INITIALIZE_RESULT,
  json,
  legacyServer,
  ScriptedServer,
  type Answer,
} from '../../fixtures/servers/scripted-server.ts';
import { call, open, reply, upstreamOf } from '../../fixtures/servers/upstream-testbed.ts';

const HTTP = { transport: 'streamable-http' } as const;
const done: Answer = ({ body }, response) => json(response, 200, reply(body.id));

describe('a reply to a request', () => {
  // Rule wire-5: A request that got 202 is lost after 5 minutes without a reply on another stream, or at once if none
  // is open.
  test('that is only promised with 202 comes on the standalone stream', async () => {
    let standalone: ReturnType<typeof eventStream> | undefined;
    const server = await legacyServer(
      ({ body }, response) => {
        response.writeHead(202).end();
        standalone?.send(reply(body.id));
      },
      { onGet: (_received, response) => void (standalone = eventStream(response)) },
    );
    const { heard } = call(await open(upstreamOf(server, HTTP)));
    expect(await heard.until('replied')).toMatchObject(['replied', { result: {} }]);
  });

  // Rule wire-6.
  test('may come among events of names that nobody knows, which are not read', async () => {
    const server = await legacyServer(({ body }, response) => {
      const stream = eventStream(response);
      const error = { code: 1, message: 'not a message' };
      stream.raw(`event: odd\ndata: ${JSON.stringify({ jsonrpc: '2.0', id: body.id, error })}\n\n`);
      stream.raw('event: ping\ndata: not JSON\n\n');
      stream.send(reply(body.id));
      stream.end();
    });
    const { heard } = call(await open(upstreamOf(server, HTTP)));
    expect(await heard.until('replied')).toMatchObject(['replied', { result: {} }]);
  });

  // Rule envelope-5.
  test('may be given by the server behind a cookie, which is not kept', async () => {
    const server = await legacyServer(({ body }, response) =>
      json(response, 200, reply(body.id), { 'set-cookie': 'route=a' }),
    );
    const session = await open(upstreamOf(server, HTTP));
    await call(session).heard.until('replied');
    await call(session).heard.until('replied');
    for (const { headers } of server.received) expect(headers).not.toHaveProperty('cookie');
  });
});

test.each([100, 20_000, 3_000_000])(
  'a message of some %i bytes arrives whole, with its length, and the session goes on',
  async (bytes) => {
    const server = await legacyServer(done);
    const session = await open(upstreamOf(server, HTTP));
    const argument = 'é'.repeat(bytes / 2);
    for (const attempt of [1, 2]) {
      const { heard } = call(session, { arguments: { argument, attempt } });
      await heard.until('replied');
    }
    const calls = server.received.filter(({ body }) => body?.method === 'tools/call');
    expect(calls.map(({ body }) => body.params.arguments.argument === argument)).toEqual([
      true,
      true,
    ]);
    for (const { headers, text } of calls) {
      expect(headers['content-length']).toBe(String(Buffer.byteLength(text)));
    }
  },
);

describe('ids', () => {
  // Rule wire-3.
  test('of our requests are never used twice in a session, the handshake included', async () => {
    const server = await legacyServer(done);
    const session = await open(upstreamOf(server, HTTP));
    for (let times = 0; times < 3; times += 1) {
      await call(session).heard.until('replied');
      await session.request('tools/list', {}, {});
    }
    const ids = server.received
      .filter(({ body }) => body?.method !== undefined && body.id !== undefined)
      .map(({ body }) => body.id);
    expect(ids).toHaveLength(7);
    expect(new Set(ids).size).toBe(7);
    for (const id of ids) expect(Number.isSafeInteger(id)).toBe(true);
  });

  // Rule wire-3.
  test('of our requests are new in a session that another replica used', async () => {
    const server = await legacyServer(done);
    const owner = { profile: EMPTY_PROFILE, clientInfo: null, headers: {} };
    const point = { sessionId: sessionId('session-1'), revision: '2025-11-25' } as const;
    const session = await upstreamOf(server, HTTP).resumeSession(owner, point);
    const others = await open(upstreamOf(server, HTTP));
    await others.request('ping', {}, {});
    await session.request('ping', {}, {});
    const pings = server.received.filter(({ body }) => body?.method === 'ping');
    const ids = pings.map(({ body }) => body.id);
    expect(ids).toHaveLength(2);
    expect(new Set(ids).size).toBe(2);
  });

  // Rule wire-3.
  test.each([0, -1, '0', 'q', ''])('of the server come back with their type: %j', async (id) => {
    const server = await legacyServer((_received, response) =>
      eventStream(response).send({ jsonrpc: '2.0', id, method: 'roots/list' }),
    );
    const session = await open(upstreamOf(server, HTTP));
    const { heard, exchange } = call(session);
    await heard.until('asked');
    await exchange.respond(serverRequestId(id), { result: { roots: [] } }, {});
    const { body } = await server.saw((received) => received.body?.result !== undefined);
    expect(body).toEqual({ jsonrpc: '2.0', id, result: { roots: [] } });
  });
});

// Rule handshake-8 (2025-11-25 transports, "Protocol Version Header" and "Session Management"): Every message after
// `initialize` has the agreed `MCP-Protocol-Version` and the session id.
test('no initialize names a session or a revision in a header, the second one neither', async () => {
  const server = await legacyServer(done, { sessionId: null });
  await call(await open(upstreamOf(server, HTTP))).heard.until('replied');
  const [first, second, ...later] = server.received.filter(({ method }) => method === 'POST');
  for (const greeting of [first, second]) {
    expect(greeting?.body.method).toBe('initialize');
    expect(greeting?.headers).not.toHaveProperty('mcp-protocol-version');
    expect(greeting?.headers).not.toHaveProperty('mcp-session-id');
  }
  expect(later.map(({ headers }) => headers['mcp-protocol-version'])).toEqual([
    '2025-11-25',
    '2025-11-25',
  ]);
});

// Rule handshake-11.
test('an initialize that has no reply in time is given up, and never cancelled', async () => {
  let answers = false;
  const server = await ScriptedServer.start(({ method, body }, response) => {
    if (method !== 'POST') return void response.writeHead(405).end();
    if (body.method !== 'initialize') return void response.writeHead(202).end();
    if (answers) json(response, 200, reply(body.id, INITIALIZE_RESULT));
  });
  const clock = new ManualClock();
  const upstream = upstreamOf(server, { ...HTTP, headersTimeoutMs: 1_000 }, clock);
  const opening = expect(open(upstream)).rejects.toMatchObject({ code: 'upstream_timeout' });
  await server.saw(({ body }) => body?.method === 'initialize');
  clock.advance(1_000);
  await opening;
  answers = true;
  await open(upstream, EMPTY_PROFILE);
  expect(server.methods()).toEqual(['initialize', 'initialize', 'notifications/initialized']);
});

// Rule handshake-10.
test('a client that declares nothing has the standalone stream, too, so that a server that asks there gets a reply', async () => {
  let standalone: ReturnType<typeof eventStream> | undefined;
  const server = await legacyServer(done, {
    onGet: (_received, response) => void (standalone = eventStream(response)),
  });
  await open(upstreamOf(server, HTTP), EMPTY_PROFILE);
  standalone?.send({ jsonrpc: '2.0', id: 'q', method: 'roots/list' });
  const { body } = await server.saw((received) => received.body?.id === 'q');
  expect(body.result).toEqual({ roots: [] });
});

// Rule handshake-7: `clientInfo` is the `name`, `version` and `title` of the client, or `mrtr-gateway`.
test('a client without a name is introduced as the gateway', async () => {
  const server = await legacyServer(done);
  await open(upstreamOf(server, HTTP), EMPTY_PROFILE);
  const { body } = await server.saw((received) => received.body?.method === 'initialize');
  expect(body.params.clientInfo).toEqual({ name: 'mrtr-gateway', version: '0.0.0' });
});

// Rule handshake-5.
test('a client that visits URLs only is known as that to a server whose revision is not known yet, and as nothing to an older one', async () => {
  const server = await ScriptedServer.start(({ method, body }, response) => {
    if (method !== 'POST') return void response.writeHead(405).end();
    if (body.method !== 'initialize') return void response.writeHead(202).end();
    const result = { ...INITIALIZE_RESULT, protocolVersion: '2025-06-18' };
    json(response, 200, reply(body.id, result), { 'mcp-session-id': 's' });
  });
  const upstream = upstreamOf(server, HTTP);
  const urlOnly = { ...EMPTY_PROFILE, elicitationUrl: true };
  await open(upstream, urlOnly);
  await open(upstream, urlOnly);
  const declared = server.received
    .filter(({ body }) => body?.method === 'initialize')
    .map(({ body }) => body.params.capabilities);
  expect(declared).toEqual([{ elicitation: { url: {} } }, {}]);
});

describe('the level of log messages', () => {
  const levels = (server: ScriptedServer) =>
    server.received
      .filter(({ body }) => body?.method === 'logging/setLevel')
      .map(({ body }) => body.params.level);

  // Rule logs-2.
  test('is set once for all who ask for no more than that', async () => {
    const server = await legacyServer(done);
    const session = await open(upstreamOf(server, HTTP));
    for (const level of ['warning', 'warning', 'error', 'debug', 'info']) {
      await session.ensureLogLevel(level, {});
    }
    expect(levels(server)).toEqual(['warning', 'debug']);
  });

  // Rule logs-2.
  test('is set again after a failure, and not after a refusal', async () => {
    let requests = 0;
    const server = await legacyServer((received, response, request) => {
      if (received.body.method !== 'logging/setLevel') return done(received, response, request);
      requests += 1;
      if (requests === 1) return void response.writeHead(503).end();
      const error = { code: -32602, message: 'no such level' };
      json(response, 200, { jsonrpc: '2.0', id: received.body.id, error });
    });
    const session = await open(upstreamOf(server, HTTP));
    for (let call = 1; call <= 3; call += 1) await session.ensureLogLevel('info', {});
    expect(levels(server)).toEqual(['info', 'info']);
  });

  // Rule logs-2.
  test('is not set at a server that does not log', async () => {
    const server = await ScriptedServer.start(({ method, body }, response) => {
      if (method !== 'POST') return void response.writeHead(405).end();
      if (body.method !== 'initialize') return void response.writeHead(202).end();
      json(response, 200, reply(body.id, { ...INITIALIZE_RESULT, capabilities: {} }));
    });
    const session = await open(upstreamOf(server, HTTP), EMPTY_PROFILE);
    await session.ensureLogLevel('debug', {});
    expect(levels(server)).toEqual([]);
  });

  // Rule logs-2.
  test.each<[string, Answer]>([
    [
      'with an error',
      ({ body }, response) => {
        const error = { code: -32601, message: 'no' };
        json(response, 200, { jsonrpc: '2.0', id: body.id, error });
      },
    ],
    ['by HTTP', (_received, response) => json(response, 500, {})],
  ])(
    'is left alone when the server refuses it %s, and the call goes on',
    async (_title, refuse) => {
      const server = await legacyServer((received, response, request) =>
        (received.body.method === 'logging/setLevel' ? refuse : done)(received, response, request),
      );
      const session = await open(upstreamOf(server, HTTP));
      await session.ensureLogLevel('debug', {});
      await call(session).heard.until('replied');
      expect(levels(server)).toEqual(['debug']);
    },
  );
});
