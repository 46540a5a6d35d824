/** What `mrtr-gateway probe` reports of sound servers, and how it ends. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { run } from '../../../../src/cli/run.ts';
import { httpSse, streamableHttp } from '../../../fixtures/conformance/sessions.ts';
import { startEverything } from '../../../fixtures/processes.ts';
import { json, legacyServer, ScriptedServer } from '../../../fixtures/servers/scripted-server.ts';
import { testHost } from '../../../unit/cli/test-host.ts';
import { kept, legacy, listening, neverServe, probing, report } from '../../../fixtures/probing.ts';

const root = fileURLToPath(new URL('../../../..', import.meta.url));

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
      sessions: { kind: 'session-id', withoutId: 'refused', deleteStatus: 200, second: 'accepted' },
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
      sessions: { kind: 'stream', withoutId: 'not-tried', deleteStatus: null, second: 'accepted' },
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
