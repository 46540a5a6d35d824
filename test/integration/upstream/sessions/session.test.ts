/** Sessions with legacy servers that behave in every way that was seen or must be feared. */
import { gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { serverRequestId } from '../../../../src/protocol/ids.ts';
import { systemClock } from '../../../../src/lib/clock.ts';
import { WriteBurst } from '../../../../src/lib/http.ts';
import { HttpClient } from '../../../../src/upstream/http/client.ts';
import { StatusReader } from '../../../../src/upstream/http/readers.ts';
import {
  eventStream,
  json,
  legacyServer,
  ScriptedServer,
} from '../../../fixtures/servers/scripted-server.ts';
import { call, open, reply, upstreamOf } from '../../../fixtures/servers/upstream-testbed.ts';
import { hurriedClock } from '../../../fixtures/hurried-clock.ts';
import { httpSseServer } from '../../../fixtures/servers/http-sse-server.ts';

describe('whose question it is', () => {
  // Rule questions-1 (2025-11-25 transports, "Sending Messages to the Server"): A question on the event stream of a
  // call is a question of that call.
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

  // Rule questions-2: A question on the standalone stream, or on that of HTTP+SSE, belongs to the only call of its
  // session. Calls never get questions or answers of each other.
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

  // Rule questions-3 (MRTR, "Supported Requests"): A question in a session without a call is never shown. Over
  // Streamable HTTP, elicitation and sampling get -32602, and `roots/list` an empty list.
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
  ];
  test.each(bodies)('%s', async (_name, script) => {
    const server = await legacyServer(({ body }, response) => script(response, body.id));
    const { heard } = call(await open(upstreamOf(server)));
    expect(await heard.until('lost')).toEqual(['lost', 'upstream_protocol_error']);
  });
});

describe('HTTP+SSE', () => {
  // Rule wire-10 (2024-11-05 transports, "HTTP with SSE"): The endpoint of an HTTP+SSE server must have the same
  // origin, and come within 5 s.
  test('an endpoint on another origin is refused and never contacted', async () => {
    for (const endpoint of ['http://127.0.0.1:1/', '//example.invalid/x', 'data:text/plain,x']) {
      const server = await httpSseServer({ endpoint });
      await expect(open(upstreamOf(server, { transport: 'http-sse' }))).rejects.toMatchObject({
        code: 'upstream_protocol_error',
      });
    }
  });

  // Rule resumption-7 (2024-11-05 transports, "HTTP with SSE"): Over HTTP+SSE the end of the stream ends the session
  // and its calls.
  // Rule resumption-4.
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

// Rule sessions-9.
describe('a reply that is on its way when its session ends', () => {
  /** A server that has pinged, and has not taken the reply yet. */
  async function repliedTo(clock = systemClock) {
    const told: string[] = [];
    const mayTake = Promise.withResolvers<void>();
    const server = await legacyServer(() => {}, {
      onGet: (_received, response) => {
        eventStream(response).send({ jsonrpc: '2.0', id: 1, method: 'ping' });
      },
      onResponse: async (_received, response) => {
        await mayTake.promise;
        told.push('taken');
        response.writeHead(202).end();
      },
      onDelete: (_received, response) => {
        told.push('ended');
        response.writeHead(200).end();
        mayTake.resolve();
      },
    });
    const known = { era: 'legacy', transport: 'streamable-http' } as const;
    const session = await open(upstreamOf(server, known, clock));
    await server.saw(({ body }) => body?.result !== undefined);
    return { session, told, take: mayTake.resolve };
  }

  test('arrives before the end', async () => {
    const { session, told, take } = await repliedTo();
    // Time enough for a DELETE that does not wait.
    setTimeout(take, 200);
    await session.close();
    expect(told).toEqual(['taken', 'ended']);
  });

  test('does not keep it for longer than a second', async () => {
    const { session, told } = await repliedTo(hurriedClock(20));
    await session.close();
    expect(told).toEqual(['ended', 'taken']);
  });
});

// Rule sessions-16.
test('a standalone stream that was replaced is not opened again if another process has the session', async () => {
  const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<string>()];
  const gets: unknown[] = [];
  const server = await legacyServer(
    (received, response) => json(response, 200, reply(received.body.id)),
    {
      onGet: async (received, response) => {
        gets.push(received);
        const stream = eventStream(response);
        if (gets.length > 1) return second.resolve('opened again');
        await first.promise;
        stream.end();
      },
    },
  );
  const known = { era: 'legacy', transport: 'streamable-http' } as const;
  const session = await open(upstreamOf(server, known, hurriedClock(20)));
  const asked = Promise.withResolvers<string>();
  session.questions.confirm = async () => {
    session.closeStandaloneStream();
    asked.resolve('asked');
  };
  first.resolve();
  expect(await Promise.race([asked.promise, second.promise])).toBe('asked');
  await call(session).heard.until('replied');
  expect(gets).toHaveLength(1);
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
