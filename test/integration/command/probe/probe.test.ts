import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, test } from 'vitest';
import { run } from '../../../../src/cli/run.ts';
import type { ProbeReport } from '../../../../src/probe/report.ts';
import { httpSse, streamableHttp } from '../../../fixtures/conformance/sessions.ts';
import {
  askName,
  LegacyServer,
  type LegacyServerOptions,
} from '../../../fixtures/servers/legacy-server.ts';
import { startEverything } from '../../../fixtures/processes.ts';
import {
  eventStream,
  json,
  legacyServer,
  ScriptedServer,
  INITIALIZE_RESULT,
  type Answer,
} from '../../../fixtures/servers/scripted-server.ts';
import { testHost } from '../../../unit/cli/test-host.ts';

const root = fileURLToPath(new URL('../../../..', import.meta.url));
const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean();
});

function kept<Server extends { stop(): Promise<void> }>(server: Server): Server {
  cleanups.push(() => server.stop());
  return server;
}

const neverServe = () => Promise.reject(new Error('a probe serves nothing'));

async function probing(url: string, ...flags: string[]) {
  const host = testHost();
  const code = await run(['probe', url, ...flags], host, neverServe);
  return { code, out: host.stdout.text, err: host.stderr.text };
}

async function report(url: string, ...flags: string[]): Promise<ProbeReport> {
  const { code, out, err } = await probing(url, '--json', ...flags);
  expect({ code, err }).toEqual({ code: 0, err: '' });
  return JSON.parse(out) as ProbeReport;
}

async function legacy(options: LegacyServerOptions = {}): Promise<LegacyServer> {
  return kept(await LegacyServer.start({ tools: { hello: async () => 'hello' }, ...options }));
}

async function listening(listener: Parameters<typeof createServer>[1]): Promise<string> {
  const server = createServer(listener).listen(0, '127.0.0.1');
  await once(server, 'listening');
  cleanups.push(() => {
    server.closeAllConnections();
    return new Promise((done) => server.close(done));
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** What a legacy server may be sent that has no side effects. */
const HARMLESS = new Set([
  'server/discover',
  'initialize',
  'notifications/initialized',
  'ping',
  'tools/list',
  'prompts/list',
  'resources/list',
  'resources/templates/list',
]);

describe('a server of the official SDK', () => {
  test('is described by its handshake and its lists', async () => {
    const server = await legacy({
      prompts: { greet: async () => 'hi' },
      resources: { 'file:///a': async () => 'a' },
    });
    expect(await report(server.url)).toMatchObject({
      format: 1,
      url: server.url,
      modern: false,
      transport: 'streamable-http',
      revision: '2025-11-25',
      supportedRevisions: null,
      server: { name: 'legacy', title: null, version: '1.2.3' },
      capabilities: { tools: {}, logging: {}, prompts: {}, resources: {} },
      sessions: { kind: 'session-id', withoutId: 'refused', deleteStatus: 200 },
      standaloneStream: { offered: 'yes', httpStatus: 200 },
      tools: { items: [{ name: 'hello', readOnly: false }], problem: null },
      prompts: { items: [{ name: 'greet' }] },
      resources: { items: [{ uri: 'file:///a', name: 'file:///a' }] },
      resourceTemplates: { declared: true, items: [], problem: null },
    });
  });

  test('that keeps its events resumes a stream after any of them', async () => {
    const server = await legacy({ keepsEvents: true });
    const { resumption, advice } = await report(server.url);
    expect(resumption).toMatchObject({ eventIds: 'seen', httpStatus: 200 });
    // Its example of a store sorts what comes within one millisecond at random.
    expect(['replayed', 'opened']).toContain(resumption.lastEventId);
    expect(advice.releaseWhenResumable).not.toBe('impossible');
  });

  test('that keeps no events cannot', async () => {
    const server = await legacy();
    expect(await report(server.url)).toMatchObject({
      resumption: { eventIds: 'not-seen', lastEventId: 'not-tried' },
      advice: { releaseWhenResumable: 'impossible' },
    });
  });

  test.each(['streamable-http', 'http-sse'] as const)(
    'is sent nothing with side effects, and is left with no session (%s)',
    async (transport) => {
      const server = await legacy({ transport, keepsEvents: true });
      const { transport: found } = await report(server.url);
      expect(found).toBe(transport);
      expect(server.methods().filter((method) => !HARMLESS.has(method))).toEqual([]);
      if (transport === 'streamable-http') expect(server.sessions).toBe(0);
    },
  );
});

describe('the conformance server', () => {
  const options = { asks: 'related', ids: 'numeric' } as const;

  test('over Streamable HTTP', async () => {
    const url = `${await listening(streamableHttp(options))}/mcp`;
    const found = await report(url);
    expect(found).toMatchObject({
      transport: 'streamable-http',
      server: { name: 'legacy-conformance' },
      resourceTemplates: { items: [{ uri: 'test://template/{id}/data' }] },
    });
    expect(found.tools.items.map(({ name }) => name)).toContain('test_simple_text');
  });

  test('over HTTP+SSE', async () => {
    const url = `${await listening(httpSse(options))}/sse`;
    expect(await report(url)).toMatchObject({
      transport: 'http-sse',
      sessions: { kind: 'stream', withoutId: 'not-tried', deleteStatus: null },
      standaloneStream: { offered: 'built-in' },
      resumption: { eventIds: 'not-tried', lastEventId: 'not-tried' },
      advice: {
        releaseWhenResumable: 'impossible',
        config: { routes: [{ upstream: { transport: 'http-sse' } }] },
      },
    });
  });
});

test('the reference server is seen as a client sees it that can be asked', async () => {
  const server = kept(await startEverything('streamableHttp'));
  const found = await report(`${server.origin}/mcp`);
  expect(found).toMatchObject({
    server: { name: 'mcp-servers/everything' },
    resumption: { eventIds: 'seen', httpStatus: 200 },
  });
  expect(found.tools.items.map(({ name }) => name)).toContain('trigger-elicitation-request');
  expect(found.advice.annotatedTools).toContain('echo');
});

describe('a call that the operator named', () => {
  const call = ['--call', 'ask'];

  test('is left at its question and resumed, and the advice says how long its answer took', async () => {
    const server = await legacy({ tools: { ask: askName }, keepsEvents: true });
    const { realCall, advice } = await report(server.url, ...call);
    expect(realCall).toMatchObject({ tool: 'ask', outcome: 'resumed' });
    expect(JSON.stringify(advice.config)).toContain('when-resumable');
    expect(server.sessions).toBe(0);
  });

  test('verifies nothing where it asks nothing', async () => {
    const server = await legacy({ tools: { ask: async () => 'nobody' }, keepsEvents: true });
    expect((await report(server.url, ...call)).realCall?.outcome).toBe('not-asked');
  });

  test.each([
    ['aks', 'did you mean "ask"?'],
    ['nosuch', 'without --call, the probe lists its tools'],
  ])('is not made if the server does not list its tool (%s)', async (tool, wayOut) => {
    const server = await legacy({ tools: { ask: askName }, keepsEvents: true });
    expect(await probing(server.url, '--call', tool)).toEqual({
      code: 64,
      out: '',
      err: `mrtr-gateway: --call: the server has no tool "${tool}"; ${wayOut}\n`,
    });
    expect(server.methods()).not.toContain('tools/call');
    expect(server.sessions).toBe(0);
  });

  test('is made if the list of tools cannot be read in full', async () => {
    const server = kept(
      await legacyServer(({ body }, response) => {
        const error = { code: -32603, message: 'no \u001b[2Jlist' };
        json(response, 200, { jsonrpc: '2.0', id: body.id, error });
      }),
    );
    expect((await report(server.url, ...call)).realCall).toEqual({
      tool: 'ask',
      outcome: 'failed',
      answerMs: null,
      problem: 'no  [2Jlist',
    });
  });

  test('that the tool ends with an error is not taken for one that asked nothing', async () => {
    const text = `Invalid arguments\u001b[2J${' for ask'.repeat(40)}`;
    const ask = async () => ({ isError: true, content: [{ type: 'text', text }] });
    const server = await legacy({ tools: { ask }, keepsEvents: true });
    const { realCall, advice } = await report(server.url, ...call);
    expect(realCall).toMatchObject({ outcome: 'tool-error', answerMs: null });
    expect(realCall?.problem).toMatch(/^Invalid arguments \[2J for ask.*…$/);
    expect(realCall?.problem).toHaveLength(160);
    expect(advice.notes.join(' ')).toContain('Invalid arguments');
  });

  test('shows that the result of server-everything is late on a resumed stream', async () => {
    const server = kept(await startEverything('streamableHttp'));
    const url = `${server.origin}/mcp`;
    const { realCall, advice } = await report(url, '--call', 'trigger-elicitation-request');
    expect(realCall).toMatchObject({ outcome: 'late', answerMs: null });
    expect(JSON.stringify(advice.config)).not.toContain('when-resumable');
  });
});

describe('odd servers', () => {
  /** Answers pings and lists with events or JSON, and GETs with `Last-Event-ID` as the test says. */
  const answering: Answer = ({ body }, response) =>
    json(response, 200, { jsonrpc: '2.0', id: body.id, result: { tools: [] } });

  test('that responds with JSON has no events to resume', async () => {
    const server = kept(await legacyServer(answering));
    expect(await report(server.url)).toMatchObject({
      sessions: { kind: 'session-id', withoutId: 'accepted' },
      standaloneStream: { offered: 'no', httpStatus: 405 },
      resumption: { eventIds: 'no-events', lastEventId: 'not-tried' },
    });
  });

  const withEvents: Answer = ({ body }, response) => {
    const stream = eventStream(response);
    stream.send({ jsonrpc: '2.0', id: body.id, result: { tools: [] } }, `event-of-${body.id}`);
    stream.end();
  };

  test('that gives ids and refuses to resume is not called resumable', async () => {
    const server = kept(await legacyServer(withEvents));
    expect(await report(server.url)).toMatchObject({
      resumption: { eventIds: 'seen', lastEventId: 'refused', httpStatus: 405 },
      advice: { releaseWhenResumable: 'impossible' },
    });
  });

  test('that repeats what was missed is resumable, and the advice says what that allows', async () => {
    const replies = new Map<string, unknown>();
    const primed: Answer = ({ body }, response) => {
      const reply = { jsonrpc: '2.0', id: body.id, result: { tools: [] } };
      replies.set(`before-${body.id}`, reply);
      const stream = eventStream(response);
      stream.raw(`id: before-${body.id}\ndata:\n\n`);
      stream.send(reply, `event-of-${body.id}`);
      stream.end();
    };
    const onGet: Answer = ({ headers }, response) => {
      const missed = replies.get(String(headers['last-event-id']));
      if (missed === undefined) return void response.writeHead(405).end();
      eventStream(response).send(missed);
    };
    const server = kept(await legacyServer(primed, { onGet }));
    expect(await report(server.url)).toMatchObject({
      resumption: { eventIds: 'seen', lastEventId: 'replayed', httpStatus: 200 },
      advice: {
        gatewayNeeded: true,
        releaseWhenResumable: 'possible',
        config: {
          routes: [
            {
              path: '/mcp',
              upstream: { url: server.url, transport: 'streamable-http' },
            },
          ],
        },
      },
    });
  });

  test('that opens a stream and repeats nothing is reported as unproven', async () => {
    const onGet: Answer = (_received, response) => {
      eventStream(response).end();
    };
    const server = kept(await legacyServer(withEvents, { onGet }));
    expect(await report(server.url)).toMatchObject({
      resumption: { eventIds: 'seen', lastEventId: 'opened' },
      advice: { releaseWhenResumable: 'unproven' },
    });
  });

  test('that hands out no session id gets advice about its state', async () => {
    const server = kept(await legacyServer(answering, { sessionId: null }));
    const found = await report(server.url);
    expect(found).toMatchObject({
      sessions: { kind: 'none', withoutId: 'not-tried', deleteStatus: null },
      advice: { statefulWithoutSessionId: true, releaseWhenResumable: 'impossible' },
    });
    expect(found.advice.notes.join()).toContain('upstream.statefulWithoutSessionId');
    expect(server.received.map(({ method }) => method)).not.toContain('DELETE');
  });

  test('that never replies to a list is still described, and its session is ended', async () => {
    const server = kept(await legacyServer(() => {}));
    expect(await report(server.url, '--timeout', '400ms')).toMatchObject({
      revision: '2025-11-25',
      tools: { declared: true, items: [], problem: 'timed out' },
      resumption: { eventIds: 'no-answer' },
    });
    expect(server.received.at(-1)).toMatchObject({ method: 'DELETE' });
  });

  test('whose lists have no end is read up to a bound', async () => {
    const tools = Array.from({ length: 100 }, (_, index) => ({
      name: `tool-${index}`,
      inputSchema: { type: 'object' },
    }));
    let page = 0;
    const endless: Answer = ({ body }, response) =>
      json(response, 200, {
        jsonrpc: '2.0',
        id: body.id,
        result: body.method === 'ping' ? {} : { tools, nextCursor: `page-${(page += 1)}` },
      });
    const server = kept(await legacyServer(endless));
    const { tools: found } = await report(server.url);
    expect(found.items).toHaveLength(1000);
    expect(found.truncated).toBe(true);
  });

  test('that does not reply to server/discover is still detected', async () => {
    const server = kept(
      await ScriptedServer.start(({ method, body }, response) => {
        if (method !== 'POST') return void response.writeHead(405).end();
        if (body.method === 'server/discover') return;
        if (body.id === undefined) return void response.writeHead(202).end();
        const result = body.method === 'initialize' ? INITIALIZE_RESULT : { tools: [] };
        json(response, 200, { jsonrpc: '2.0', id: body.id, result });
      }),
    );
    expect((await report(server.url)).transport).toBe('streamable-http');
  });

  test('that sends control sequences cannot write to the terminal', async () => {
    const evil = 'evil\u001b]0;title\u0007\u001b[2J\u202egpj.exe\r\nsecond line';
    const server = kept(
      await legacyServer(({ body }, response) =>
        json(response, 200, {
          jsonrpc: '2.0',
          id: body.id,
          result: {
            tools: [{ name: evil, description: evil, inputSchema: { type: 'object' } }],
          },
        }),
      ),
    );
    const { out } = await probing(server.url);
    expect(out).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/);
    const found = await report(server.url);
    expect(found.tools.items[0]?.name).toBe(evil);
  });
});

test('a modern server needs no gateway', async () => {
  const server = kept(
    await ScriptedServer.start(({ method, body, headers }, response) => {
      if (method !== 'POST') return void response.writeHead(405).end();
      const { id } = body;
      if (headers['mcp-protocol-version'] !== '2026-07-28') {
        const error = { code: -32022, message: 'no', data: { supported: ['2026-07-28'] } };
        return json(response, 400, { jsonrpc: '2.0', id, error });
      }
      const common = { resultType: 'complete', ttlMs: 0, cacheScope: 'private' };
      const discovered = {
        supportedVersions: ['2026-07-28'],
        capabilities: { tools: {} },
        _meta: { 'io.modelcontextprotocol/serverInfo': { name: 'new', version: '9' } },
      };
      const tools = [
        { name: 'look', inputSchema: { type: 'object' }, annotations: { readOnlyHint: true } },
      ];
      const specific = body.method === 'server/discover' ? discovered : { tools };
      json(response, 200, { jsonrpc: '2.0', id, result: { ...common, ...specific } });
    }),
  );
  const found = await report(server.url);
  expect(found).toMatchObject({
    modern: true,
    revision: '2026-07-28',
    supportedRevisions: ['2026-07-28'],
    server: { name: 'new', version: '9' },
    tools: { items: [{ name: 'look', readOnly: true }] },
    advice: { gatewayNeeded: false, config: null },
  });
  expect((await probing(server.url)).out).toContain('a modern MCP server: it needs no gateway');
});

describe('an address without an MCP server gives one line with the cause and what to do', () => {
  const answers = (status: number, headers: Record<string, string>, body = '') =>
    listening((_request, response) => response.writeHead(status, headers).end(body));

  test.each([
    [
      'a web page',
      () => answers(200, { 'content-type': 'text/html' }, '<html>'),
      /does not speak MCP: it is a web page \(HTML\); give the URL of the MCP endpoint/,
    ],
    ['a wrong path', () => answers(404, {}), /not found \(HTTP 404\)/],
    [
      'a refusal',
      () => answers(401, { 'www-authenticate': 'Bearer realm="x"' }),
      /refuses access \(HTTP 401\); give credentials with --header "Authorization: Bearer \.\.\."/,
    ],
    [
      'a redirect',
      () => answers(308, { location: '/elsewhere?token=hunter2' }),
      /redirects to http:\/\/127\.0\.0\.1:\d+\/elsewhere \(HTTP 308\); redirects are not followed/,
    ],
    ['a broken server', () => answers(502, {}), /responds with HTTP 502/],
    [
      'a server without TLS',
      async () => (await answers(200, {})).replace('http:', 'https:'),
      /TLS handshake with https:.* failed .* the port does not use TLS; use http:\/\//,
    ],
    // Nothing listens on the discard port.
    [
      'nobody',
      () => Promise.resolve('http://127.0.0.1:9'),
      /connection refused; check that the server/,
    ],
  ])('%s', async (_name, start, line) => {
    const { code, out, err } = await probing(`${await start()}/`);
    expect({ code, out }).toEqual({ code: 69, out: '' });
    expect(err).toMatch(line);
    expect(err).toMatch(/^mrtr-gateway: [^\n]+\n$/);
    expect(err).not.toContain('hunter2');
  });

  test('a server that never responds', async () => {
    const url = await listening(() => {});
    const { code, err } = await probing(url, '--timeout', '100ms');
    expect(code).toBe(69);
    expect(err).toMatch(/did not respond within 100 ms; .* or raise --timeout\n$/);
  });

  test('an unusable URL or header is a usage error that repeats no credential', async () => {
    expect(await probing('localhost:3001')).toMatchObject({
      code: 64,
      err: 'mrtr-gateway: URL: expected an http or https URL, got "localhost:3001"; did you mean "http://localhost:3001"?\n',
    });
    const { code, err } = await probing('http://a/', '--header', 'Authorization: hunter2\u0007');
    expect(code).toBe(64);
    expect(err).toMatch(/^mrtr-gateway: --header: expected a header value/);
    expect(err).not.toContain('hunter2');
  });
});

describe('credentials', () => {
  test('go along with every request, and into no output', async () => {
    const server = kept(
      await legacyServer(({ body }, response) =>
        json(response, 200, { jsonrpc: '2.0', id: body.id, result: { tools: [] } }),
      ),
    );
    const { code, out } = await probing(
      `${server.url}?key=hunter3`,
      '--header',
      'Authorization: Bearer hunter2',
      '--header',
      'X-Tenant: a:b',
    );
    expect(code).toBe(0);
    for (const { headers } of server.received) {
      expect(headers).toMatchObject({ authorization: 'Bearer hunter2', 'x-tenant': 'a:b' });
    }
    expect(out).not.toMatch(/hunter|session-1/);
    expect(out).toContain('authorization: ${UPSTREAM_AUTHORIZATION}');
  });
});

test.each([
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const)('%s ends the probe, but not without ending the session', async (signal, exitCode) => {
  const server = kept(await legacyServer(() => {}));
  const host = testHost();
  const code = run(['probe', server.url], host, neverServe);
  await server.saw(({ body }) => body?.method === 'tools/list');
  host.emit(signal);
  expect(await code).toBe(exitCode);
  expect(server.received.at(-1)).toMatchObject({ method: 'DELETE' });
  expect(host.stdout.text + host.stderr.text).toBe('');
});

test('as a program it ends by itself, with its report on standard output', async () => {
  const server = await legacy({ keepsEvents: true });
  const child = spawn(process.execPath, ['bin/mrtr-gateway.js', 'probe', server.url], {
    cwd: root,
    env: { PATH: process.env['PATH'] },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const [out, err, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close'),
  ]);
  expect({ code, err }).toEqual({ code: 0, err: '' });
  expect(out).toContain(`${server.url} is a legacy MCP server\n`);
  expect(out).toContain('resumption         events have ids; resumption accepted');
});
