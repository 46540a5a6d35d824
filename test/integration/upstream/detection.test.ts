/** What answers say which transport a server speaks, and callers who come while it is being found out. */
import type { ServerResponse } from 'node:http';
import { describe, expect, test } from 'vitest';
import { recordedLog } from '../../fixtures/recorded-log.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';
import {
  eventStream,
  INITIALIZE_RESULT,
  json,
  ScriptedServer,
  type Received,
} from '../../fixtures/servers/scripted-server.ts';
import { reply, upstreamOf } from '../../fixtures/servers/upstream-testbed.ts';

const as = (name: string) => ({ authorization: `Bearer ${name}` });

/** How a server that speaks 2026-07-28 only takes a legacy request. */
const refused = (response: ServerResponse, id: unknown) =>
  json(response, 400, { jsonrpc: '2.0', id, error: { code: -32022, message: 'm' } });

/** A server that lets `good` in, and keeps the first of all requests waiting until it is told. */
async function guarded() {
  const held = Promise.withResolvers<() => void>();
  let first = true;
  const answer = ({ headers, body }: Received, response: ServerResponse) => {
    const { authorization } = headers;
    if (authorization === 'Bearer good') {
      if (body.method === 'initialize') return refused(response, body.id);
      json(response, 200, reply(body.id, { supportedVersions: ['2026-07-28'] }));
    } else {
      json(response, 401, {}, { 'www-authenticate': `Bearer realm="for ${authorization}"` });
    }
  };
  const server = await ScriptedServer.start((received, response) => {
    if (!first) return answer(received, response);
    first = false;
    held.resolve(() => answer(received, response));
  });
  return { server, upstream: upstreamOf(server), held: held.promise };
}

// Rule detection-4.
test('a caller is not refused for the credentials of another one', async () => {
  const { upstream, held } = await guarded();
  const bad = expect(upstream.detect(as('bad'))).rejects.toMatchObject({ code: 'unauthorized' });
  const good = upstream.detect(as('good'));
  (await held)();
  expect(await good).toBe('modern');
  await bad;
});

// Rule detection-4.
test('each caller is told what the server wants of that caller', async () => {
  const { upstream, held } = await guarded();
  const told = ['one', 'other'].map((name) =>
    upstream.detect(as(name)).catch((error: unknown) => error),
  );
  (await held)();
  expect(await Promise.all(told)).toMatchObject([
    { details: { wwwAuthenticate: 'Bearer realm="for Bearer one"' } },
    { details: { wwwAuthenticate: 'Bearer realm="for Bearer other"' } },
  ]);
});

// Rule detection-6: Requests during a detection share its outcome. A configured transport is not probed.
test('requests that come during a detection share its outcome', async () => {
  const { server, upstream, held } = await guarded();
  const kinds = [as('good'), as('other'), as('good')].map((headers) => upstream.detect(headers));
  (await held)();
  expect(await Promise.all(kinds)).toEqual(['modern', 'modern', 'modern']);
  expect(server.methods()).toEqual(['initialize', 'server/discover']);
});

describe('the reply to the probe for the modern era', () => {
  /** Answers the probe as the test says, and takes an `initialize` as legacy servers do. */
  const probed = (answer: (received: Received, response: ServerResponse) => void) =>
    ScriptedServer.start((received, response) => {
      if (received.method !== 'POST') return void response.writeHead(405).end();
      const { id, method } = received.body;
      if (method === 'server/discover') return answer(received, response);
      if (method === 'initialize') return json(response, 200, reply(id, INITIALIZE_RESULT));
      response.writeHead(202).end();
    });

  // Rule detection-1.
  test.each([-32020, -32021, -32022])('decides for it with the error %i', async (code) => {
    const server = await probed(({ body }, response) => {
      json(response, 400, { jsonrpc: '2.0', id: body.id, error: { code, message: 'm' } });
    });
    expect(await upstreamOf(server).detect({})).toBe('modern');
    expect(server.methods()).toEqual([
      'initialize',
      'notifications/initialized',
      'server/discover',
    ]);
  });

  // Rule detection-2 (versioning, "Backward Compatibility with Initialization-Based Versions"): Any other reply to
  // `server/discover`, or none within 3 s, means a legacy server. After a refused `initialize` the limit is
  // `upstream.headersTimeout`.
  test.each<[string, number, object]>([
    ['an error of a legacy server', 400, { error: { code: -32600, message: 'm' } }],
    ['a result for everything', 200, { result: {} }],
    ['a modern result of another revision', 200, { result: { supportedVersions: ['2099-01-01'] } }],
    [
      'an error that names other revisions only',
      400,
      { error: { code: -32022, message: 'm', data: { supported: ['2099-01-01', '2025-11-25'] } } },
    ],
  ])('decides against it with %s', async (_title, status, said) => {
    const server = await probed(({ body }, response) => {
      json(response, status, { jsonrpc: '2.0', id: body.id, ...said });
    });
    expect(await upstreamOf(server).detect({})).toBe('streamable-http');
  });

  // Rule detection-10: A legacy server without sessions is asked for `server/discover` again after 10 s, then with
  // growing pauses.
  test.each([401, 403, 429, 500, 502, 503])('means legacy for now with HTTP %i', async (status) => {
    let refusing = true;
    const server = await probed(({ body }, response) => {
      if (refusing) return json(response, status, {});
      json(response, 200, reply(body.id, { supportedVersions: ['2026-07-28'] }));
    });
    const clock = new ManualClock();
    const modern = Promise.withResolvers<void>();
    const detected: unknown[] = [];
    const log = recordedLog((_event, { kind, cause }) => {
      detected.push([kind, cause]);
      if (kind === 'modern') modern.resolve();
    });
    const upstream = upstreamOf(server, { log }, clock);
    expect(await upstream.detect({})).toBe('streamable-http');
    refusing = false;
    upstream.askAgain({});
    expect(upstream.knownKind).toBe('streamable-http');
    clock.advance(10_000);
    upstream.askAgain({});
    await modern.promise;
    expect(detected).toEqual([
      ['streamable-http', 'legacy_for_now'],
      ['modern', 'no_sessions'],
    ]);
  });

  // Rule detection-10.
  test('is asked for less and less often while it decides nothing', async () => {
    const server = await probed((_received, response) => json(response, 500, {}));
    const clock = new ManualClock();
    const upstream = upstreamOf(server, {}, clock);
    await upstream.detect({});
    const probes = () => server.methods().filter((method) => method === 'server/discover').length;
    for (const [seconds, asked] of [
      [10, 2],
      [5, 2],
      [5, 3],
      [10, 3],
      [10, 4],
    ] as const) {
      clock.advance(seconds * 1000);
      upstream.askAgain({});
      await server.saw(() => probes() >= asked);
      // The timer of a probe lasts until its reply has come.
      while (clock.pending > 0) await new Promise(setImmediate);
      expect(probes()).toBe(asked);
    }
  });

  // Rule detection-10.
  test.each([401, 500])('leads on to the oldest transport with HTTP %i', async (status) => {
    let stream: ReturnType<typeof eventStream> | undefined;
    const server = await ScriptedServer.start(({ method, path, body }, response) => {
      if (method === 'GET') {
        stream = eventStream(response);
        return void stream.raw('event: endpoint\ndata: /message\n\n');
      }
      if (path === '/mcp') return json(response, body.method === 'initialize' ? 405 : status, {});
      response.writeHead(202).end();
      const result = { ...INITIALIZE_RESULT, protocolVersion: '2024-11-05' };
      if (body.method === 'initialize') stream?.send(reply(body.id, result));
    });
    expect(await upstreamOf(server).detect({})).toBe('http-sse');
  });

  // Rule detection-4.
  test.each([401, 403, 429, 500, 503])(
    'decides nothing with HTTP %i where a legacy handshake is refused too',
    async (status) => {
      let refusing = true;
      const server = await ScriptedServer.start(({ method, body }, response) => {
        if (method !== 'POST') return void response.writeHead(405).end();
        if (body.method === 'initialize') return refused(response, body.id);
        if (refusing) return json(response, status, {});
        json(response, 200, reply(body.id, { supportedVersions: ['2026-07-28'] }));
      });
      const upstream = upstreamOf(server);
      await expect(upstream.detect({})).rejects.toMatchObject({ details: { httpStatus: status } });
      expect(upstream.knownKind).toBeNull();
      refusing = false;
      expect(await upstream.detect({})).toBe('modern');
    },
  );
});

describe('the refusal of initialize', () => {
  const refusing = (status: number) =>
    ScriptedServer.start(({ method, path, body }, response) => {
      if (method === 'GET') {
        stream = eventStream(response);
        return void stream.raw('event: endpoint\ndata: /message\n\n');
      }
      if (path === '/mcp') return json(response, status, {});
      response.writeHead(202).end();
      const result = { ...INITIALIZE_RESULT, protocolVersion: '2024-11-05' };
      if (body.method === 'initialize') stream?.send(reply(body.id, result));
    });
  let stream: ReturnType<typeof eventStream> | undefined;

  // Rule detection-3.
  test.each([400, 404, 405])('with HTTP %i means the oldest transport', async (status) => {
    expect(await upstreamOf(await refusing(status)).detect({})).toBe('http-sse');
  });

  // Rule detection-3.
  test.each([406, 415, 422])('with HTTP %i does not mean that', async (status) => {
    const server = await refusing(status);
    await expect(upstreamOf(server).detect({})).rejects.toMatchObject({
      code: 'upstream_protocol_error',
    });
    expect(server.received.map(({ method }) => method)).not.toContain('GET');
  });
});
