/** Sessions with legacy servers that behave in every way that was seen or must be feared. */
import { gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { EMPTY_PROFILE } from '../../../../src/protocol/translate/client-profile.ts';
import { serverRequestId, sessionId, upstreamRequestId } from '../../../../src/protocol/ids.ts';
import { systemClock } from '../../../../src/lib/clock.ts';
import { WriteBurst } from '../../../../src/lib/http.ts';
import { HttpClient } from '../../../../src/upstream/http/client.ts';
import { StatusReader } from '../../../../src/upstream/http/readers.ts';
import {
  eventStream,
  INITIALIZE_RESULT,
  json,
  legacyServer,
  ScriptedServer,
} from '../../../fixtures/servers/scripted-server.ts';
import {
  ASKING,
  call,
  closeAfterTest,
  Heard,
  open,
  reply,
  upstreamOf,
} from '../../../fixtures/servers/upstream-testbed.ts';

describe('finding out what a server speaks', () => {
  // Rule detection-1 (versioning, "Backward Compatibility with Initialization-Based Versions"): A server that takes
  // `initialize` and gives a session id is bridged, whatever else it speaks. One that refuses `initialize`, or gives
  // no session id, is asked for `server/discover`: a result that names `2026-07-28`, or one of the errors -32020,
  // -32021 and -32022, means that every request is passed through as it came, and nothing is translated.
  test('a server that replies to server/discover is modern', async () => {
    const server = await ScriptedServer.start((received, response) => {
      json(response, 200, reply(received.body.id, { supportedVersions: ['2026-07-28'] }));
    });
    expect(await upstreamOf(server).detect({})).toBe('modern');
  });

  // Rule detection-3 (2025-11-25 transports, "Backwards Compatibility"): A legacy server that takes
  // `initialize` in a POST speaks Streamable HTTP. One that refuses it with 400, 404 or 405 is asked with a
  // GET, and speaks HTTP+SSE when that opens a stream which names an endpoint. No other status leads to that
  // try; a server that then still speaks nothing of MCP is an error `upstream_protocol_error`.
  test('a server that takes initialize speaks Streamable HTTP', async () => {
    const upstream = upstreamOf(await legacyServer(() => {}));
    expect(await upstream.detect({})).toBe('streamable-http');
  });

  // Rule detection-3.
  test('a server whose GET names an endpoint speaks HTTP+SSE', async () => {
    const server = await httpSseServer();
    expect(await upstreamOf(server).detect({})).toBe('http-sse');
  });

  // Rule detection-4: 401, 403, 429, 502, 503 and 504 say nothing of what a server speaks, and nor does any 5xx to
  // `server/discover`: the request fails, and the next one asks again. A caller is never refused for the credentials of another one who asked at the
  // same time.
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
  // Rule handshake-9 (2025-11-25 transports, "Session Management"): The session id that the server gave goes
  // with every later message, with the DELETE at the end too.
  // Rules detection-6, handshake-10.
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

  // Rule questions-6 (2025-11-25 transports, "Session Management"): A server that gave no session id could not be
  // answered, since the answer may reach another process. It is greeted by a client that declares nothing, unless
  // `upstream.statefulWithoutSessionId` is set; a question that it asks nevertheless ends the call at once with error
  // -32603, `data.reason` `call_not_answerable` and `data.cause` `no_session_id`, and the call is cancelled at the
  // server.
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

  // Rule errors-2: A JSON-RPC error that comes with a status of refusal (4xx other than 401, 403, 404 and
  // 429) counts like one that comes with 200.
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

describe('whose question it is', () => {
  // Rule questions-1 (2025-11-25 transports, "Sending Messages to the Server"): A question on the event
  // stream of a call is a question of that call.
  test('one on the stream of the call is the call’s', async () => {
    const server = await legacyServer((received, response) => {
      const stream = eventStream(response);
      stream.send({ jsonrpc: '2.0', id: 0, method: 'elicitation/create', params: {} });
      stream.send(reply(received.body.id));
      stream.end();
    });
    const { heard } = call(await open(upstreamOf(server)));
    await heard.until('replied');
    expect(heard.events[0]).toEqual(['asked', 0, 'elicitation/create']);
  });

  // Rule questions-2: A question on the standalone GET stream, or on the one stream of HTTP+SSE, is one of
  // the only call that its session carries; see below for several. Calls that wait at the same time never get questions or answers
  // of each other.
  test('one on the standalone stream is the only running call’s', async () => {
    let standalone: ReturnType<typeof eventStream> | undefined;
    const server = await legacyServer(
      (received, response) => {
        standalone?.send({ jsonrpc: '2.0', id: 'q', method: 'elicitation/create', params: {} });
        const stream = eventStream(response);
        answerCall = () => (stream.send(reply(received.body.id)), stream.end());
      },
      { onGet: (_received, response) => void (standalone = eventStream(response)) },
    );
    let answerCall = () => {};
    const session = await open(upstreamOf(server));
    const { heard, exchange } = call(session);
    expect(await heard.until('asked')).toEqual(['asked', 'q', 'elicitation/create']);
    await exchange.respond(serverRequestId('q'), { result: { action: 'accept' } }, {});
    const answer = await server.saw((received) => received.body?.result !== undefined);
    expect(answer.body).toEqual({ jsonrpc: '2.0', id: 'q', result: { action: 'accept' } });
    answerCall();
    await heard.until('replied');
  });

  // Rule questions-3 (MRTR, "Supported Requests"): A question that comes while its session carries no call is
  // never shown to anybody, now or later. On Streamable HTTP, where the stream is the session's own, the
  // server is answered at once: `roots/list` with an empty list (some servers ask for it right after the
  // handshake), elicitation and sampling with error -32602. On HTTP+SSE it is left alone, since bridges send
  // the questions of all clients to everybody.
  test('one that comes while no call runs is answered here, and no later call sees it', async () => {
    const server = await legacyServer(
      (received, response) => json(response, 200, reply(received.body.id)),
      {
        onGet: (_received, response) => {
          const stream = eventStream(response);
          stream.send({ jsonrpc: '2.0', id: 0, method: 'roots/list' });
          stream.send({ jsonrpc: '2.0', id: 1, method: 'elicitation/create', params: {} });
          stream.send({ jsonrpc: '2.0', id: 2, method: 'ping' });
          stream.send({ jsonrpc: '2.0', method: 'ping' });
          stream.send({ jsonrpc: '2.0', id: 3, method: 'vendor/thing' });
        },
      },
    );
    const session = await open(upstreamOf(server));
    await server.saw((received) => received.body?.id === 3);
    const answers = server.received.filter(
      (received) => received.body?.result !== undefined || received.body?.error !== undefined,
    );
    const byId = new Map(answers.map((answer) => [answer.body.id, answer.body]));
    expect(byId.get(0).result).toEqual({ roots: [] });
    expect(byId.get(1).error.code).toBe(-32602);
    expect(byId.get(2).result).toEqual({});
    expect(byId.get(3).error.code).toBe(-32601);
    const { heard } = call(session);
    await heard.until('replied');
    expect(heard.events.map(([name]) => name)).toEqual(['replied']);
  });
});

describe('a stream that ends too early', () => {
  // Rule streams-2 (2025-11-25 transports, "Resumability and Redelivery"): A stream whose events have no ids
  // is gone when it breaks, as is every stream of HTTP+SSE, and one that the server does not give back.
  // Rule resumption-4.
  test('is lost when its events have no ids', async () => {
    const server = await legacyServer((_received, response) => {
      const stream = eventStream(response);
      stream.raw(': hello\n\n');
      stream.end();
    });
    const { heard } = call(await open(upstreamOf(server)));
    expect(await heard.until('lost')).toEqual(['lost', 'upstream_unavailable']);
  });

  // Rule resumption-4.
  test('is lost when the last id is empty, and is not taken for the standalone stream', async () => {
    const server = await legacyServer(
      (_received, response) => {
        const stream = eventStream(response);
        stream.raw('id: e1\nretry: 100\ndata:\n\nid:\ndata:\n\n');
        stream.end();
      },
      { onGet: (_received, response) => void eventStream(response) },
    );
    const { heard } = call(await open(upstreamOf(server)));
    expect(await heard.until('lost')).toEqual(['lost', 'upstream_unavailable']);
    expect(server.received.filter(({ headers }) => 'last-event-id' in headers)).toEqual([]);
  });

  // Rule resumption-1 (2025-11-25 transports, "Resumability and Redelivery"): A stream of a call that ends
  // without a response, behind an event with an id, is resumed by GET with `Last-Event-ID`; a server that
  // closes it on purpose is polled in this way. What had come before is not shown again.
  // Rule streams-1.
  test('is resumed behind the last event when they have', async () => {
    let callId: unknown;
    const server = await legacyServer(
      (received, response) => {
        callId = received.body.id;
        const stream = eventStream(response);
        stream.raw('id: e1\nretry: 100\ndata:\n\n');
        stream.end();
      },
      {
        onGet: (received, response) => {
          const stream = eventStream(response);
          if (received.headers['last-event-id'] !== 'e1') return;
          stream.send(reply(callId), 'e2');
          stream.end();
        },
      },
    );
    const { heard } = call(await open(upstreamOf(server)));
    await heard.until('replied');
    expect(heard.events.map(([name]) => name)).toEqual(['interrupted', 'resumed', 'replied']);
  });

  // Rules questions-7, resumption-1.
  test('that brings a question once more, when it is resumed, asks it once', async () => {
    let callId: unknown;
    const question = { jsonrpc: '2.0', id: 'q', method: 'roots/list' };
    const server = await legacyServer(
      (received, response) => {
        callId = received.body.id;
        const stream = eventStream(response);
        stream.send(question, 'e1');
        stream.end();
      },
      {
        onGet: (received, response) => {
          const stream = eventStream(response);
          if (received.headers['last-event-id'] !== 'e1') return;
          stream.send(question, 'e1');
          stream.send(reply(callId), 'e2');
          stream.end();
        },
      },
    );
    const { heard } = call(await open(upstreamOf(server)));
    await heard.until('replied');
    expect(heard.events.map(([name]) => name)).toEqual([
      'asked',
      'interrupted',
      'resumed',
      'replied',
    ]);
  });

  // Rule questions-7.
  test('that is resumed from another replica asks what is new, and reports what is withdrawn', async () => {
    const again = { jsonrpc: '2.0', id: 'old', method: 'roots/list' };
    const withdrawal = {
      jsonrpc: '2.0',
      method: 'notifications/cancelled',
      params: { requestId: 'old' },
    };
    const server = await legacyServer(() => {}, {
      onGet: (received, response) => {
        const stream = eventStream(response);
        if (received.headers['last-event-id'] !== 'e1') return;
        stream.send(again, 'e2');
        stream.send(withdrawal, 'e3');
        stream.send({ ...again, id: 'new' }, 'e4');
        stream.send(reply(7), 'e5');
      },
    });
    const upstream = upstreamOf(server);
    const owner = { profile: ASKING, clientInfo: null, headers: {} };
    const adopted = { sessionId: sessionId('session-1'), revision: '2025-11-25' } as const;
    const session = await upstream.adoptSession(owner, adopted);
    closeAfterTest(() => session.close());
    const heard = new Heard();
    const point = {
      sessionId: sessionId('session-1'),
      revision: '2025-11-25',
      lastEventId: 'e1',
    } as const;
    session.resumeCall(upstreamRequestId(7), point, heard, {}, [serverRequestId('old')]);
    await heard.until('replied');
    expect(heard.events.slice(1, 3)).toEqual([
      ['withdrawn', 'old'],
      ['asked', 'new', 'roots/list'],
    ]);
  });

  // Rules streams-2, resumption-4.
  test('is lost when the server no longer knows it', async () => {
    const server = await legacyServer(
      (_received, response) => {
        const stream = eventStream(response);
        stream.raw('id: e1\nretry: 100\ndata:\n\n');
        stream.end();
      },
      {
        onGet: (received, response) => {
          if (received.headers['last-event-id'] === undefined) return void eventStream(response);
          json(response, 404, { error: { code: -32001, message: 'Session not found' } });
        },
      },
    );
    const { heard } = call(await open(upstreamOf(server)));
    expect(await heard.until('lost')).toEqual(['lost', 'session_gone']);
  });
});

describe('odd responses end in a clear failure', () => {
  const cases: [string, string, (id: unknown) => Parameters<typeof legacyServer>[0]][] = [
    [
      'HTML with status 200',
      'upstream_protocol_error',
      () => (_r, response) => {
        response.writeHead(200, { 'content-type': 'text/html' }).end('<html>');
      },
    ],
    [
      'a redirect, which is not followed',
      'upstream_protocol_error',
      () => (_r, response) => {
        response.writeHead(307, { location: 'http://127.0.0.1:1/elsewhere' }).end();
      },
    ],
    [
      'a compressed body',
      'upstream_protocol_error',
      () => (_r, response) => {
        response.writeHead(200, {
          'content-type': 'application/json',
          'content-encoding': 'gzip',
        });
        response.end(gzipSync('{}'));
      },
    ],
    ['503', 'upstream_busy', () => (_r, response) => json(response, 503, {}, { 'retry-after': 2 })],
    ['500', 'upstream_unavailable', () => (_r, response) => json(response, 500, {})],
    ['403', 'unauthorized', () => (_r, response) => json(response, 403, {})],
    ['an unknown session', 'session_gone', () => (_r, response) => json(response, 404, {})],
    [
      'a connection that is cut',
      'upstream_unavailable',
      () => (_r, _response, request) => void request.socket.destroy(),
    ],
  ];
  test.each(cases)('%s', async (_name, code, script) => {
    const session = await open(upstreamOf(await legacyServer(script(null))));
    const { exchange } = call(session);
    await expect(exchange.accepted).rejects.toMatchObject({ code });
  });

  const bodies: [string, (response: Parameters<typeof eventStream>[0], id: number) => void][] = [
    [
      'an event beyond the limit',
      (response) => eventStream(response).raw(`data: ${'x'.repeat(20_000)}`),
    ],
    ['an event that is not JSON', (response) => eventStream(response).raw('data: {nope\n\n')],
    [
      'a body that is not JSON',
      (response) => void response.writeHead(200, { 'content-type': 'application/json' }).end('{'),
    ],
    ['a body beyond the limit', (response) => json(response, 200, { a: 'x'.repeat(100_000) })],
    [
      'a member that reaches for the prototype',
      (response, id) =>
        void response
          .writeHead(200, { 'content-type': 'application/json' })
          .end(`{"jsonrpc":"2.0","id":${id},"result":{"__proto__":{"polluted":true}}}`),
    ],
  ];
  test.each(bodies)('%s', async (_name, script) => {
    const server = await legacyServer(({ body }, response) => script(response, body.id));
    const { heard } = call(await open(upstreamOf(server)));
    expect(await heard.until('lost')).toEqual(['lost', 'upstream_protocol_error']);
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  });
});

describe('HTTP+SSE', () => {
  // Rule wire-10 (2024-11-05 transports, "HTTP with SSE"): The endpoint that an HTTP+SSE server names is
  // resolved against the URL of its stream, and must be on the same origin: another one is refused and never
  // contacted. It has 5 seconds to name one, and is held to the first.
  test('an endpoint on another origin is refused and never contacted', async () => {
    for (const endpoint of ['http://127.0.0.1:1/', '//example.invalid/x', 'data:text/plain,x']) {
      const server = await httpSseServer({ endpoint });
      await expect(open(upstreamOf(server, { transport: 'http-sse' }))).rejects.toMatchObject({
        code: 'upstream_protocol_error',
      });
    }
  });

  // Rule resumption-7 (2024-11-05 transports, "HTTP with SSE"): The one stream of HTTP+SSE is the session:
  // when it ends, the session and its call are lost.
  // Rule streams-2.
  test('the call is lost with the stream, since there is no resumption', async () => {
    const server = await httpSseServer();
    const session = await open(upstreamOf(server, { transport: 'http-sse' }));
    const { heard, exchange } = call(session);
    await exchange.accepted;
    server.cut();
    expect(await heard.until('lost')).toEqual(['lost', 'upstream_unavailable']);
    expect(session.dead).toBe(true);
  });
});

test('a batch of 2025-03-26 is taken apart', async () => {
  const server = await legacyServer((received, response) => {
    const progress = {
      jsonrpc: '2.0',
      method: 'notifications/progress',
      params: { progressToken: received.body.id, progress: 1 },
    };
    json(response, 200, [progress, reply(received.body.id)]);
  });
  const { heard } = call(await open(upstreamOf(server)));
  await heard.until('replied');
  expect(heard.events.map(([name]) => name)).toEqual(['notified', 'replied']);
});

// Rule limits-1.
test('a client never asks for compressed responses', async () => {
  const server = await legacyServer((received, response) =>
    json(response, 200, reply(received.body.id)),
  );
  await call(await open(upstreamOf(server))).heard.until('replied');
  const encodings = server.received.map((received) => received.headers['accept-encoding']);
  expect(new Set(encodings)).toEqual(new Set(['identity']));
});

test('nothing is left open when a client is closed', async () => {
  const server = await legacyServer(() => {});
  const http = httpClientOf(server);
  await http.close();
  const reader = new StatusReader();
  http.send({ method: 'GET', headers: {} }, reader);
  await expect(reader.done).rejects.toMatchObject({
    code: 'upstream_unavailable',
  });
  await server.stop();
});

test('a request that is aborted before its burst is written never reaches the server', async () => {
  const server = await ScriptedServer.start((_received, response) => {
    response.writeHead(204).end();
  });
  const http = httpClientOf(server, new WriteBurst(() => false));
  http.send({ method: 'DELETE', headers: {} }, new StatusReader()).abort();
  await http.sendForStatus({ method: 'GET', headers: {} });
  expect(server.received.map(({ method }) => method)).toEqual(['GET']);
  await http.close();
});

test('a request whose burst is written after its client was closed fails', async () => {
  const server = await legacyServer(() => {});
  const http = httpClientOf(server, new WriteBurst(() => false));
  const sent = http.sendForStatus({ method: 'GET', headers: {} });
  const closed = http.close();
  await expect(sent).rejects.toMatchObject({ code: 'upstream_unavailable' });
  await closed;
  expect(server.received).toEqual([]);
});

function httpClientOf({ url }: ScriptedServer, writes?: WriteBurst): HttpClient {
  return new HttpClient(
    {
      url: new URL(url),
      headers: {},
      connectTimeoutMs: 1_000,
      headersTimeoutMs: 1_000,
      maxBodyBytes: 1024,
      maxEventBytes: 1024,
      ...(writes !== undefined && { writes }),
    },
    systemClock,
  );
}

/** A server of 2024-11-05 whose calls are never answered. */
function httpSseServer(options: { endpoint?: string } = {}): Promise<ScriptedServer> {
  let stream: ReturnType<typeof eventStream> | undefined;
  return ScriptedServer.start((received, response) => {
    if (received.method === 'GET') {
      stream = eventStream(response);
      stream.raw(`event: endpoint\ndata: ${options.endpoint ?? '/message?sessionId=abc'}\n\n`);
      return;
    }
    if (received.path === '/mcp') return void response.writeHead(404).end('Not found');
    response.writeHead(202).end('Accepted');
    const { id, method } = received.body;
    if (method === 'initialize') {
      stream?.send(reply(id, { ...INITIALIZE_RESULT, protocolVersion: '2024-11-05' }));
    }
  });
}
