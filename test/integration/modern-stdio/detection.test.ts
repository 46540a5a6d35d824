/** How a server over stdio that speaks 2026-07-28 only is told from others, and what the operator sees of it. */
import { describe, expect, test } from 'vitest';
import { writeFile } from 'node:fs/promises';
import { run } from '../../../src/cli/run.ts';
import { neverServe } from '../../fixtures/probing.ts';
import { testHost } from '../../unit/cli/test-host.ts';
import { callTool, send } from '../../fixtures/clients/modern-client.ts';
import { ODD, OFFICIAL, modernStdio, textOf } from '../../fixtures/gateways/modern-stdio.ts';
import { pidFile } from '../../fixtures/process-ids.ts';
import { testGateway } from '../../fixtures/gateways/test-gateway.ts';
import { fileURLToPath } from 'node:url';

const LEGACY = fileURLToPath(new URL('../../fixtures/servers/stdio-server.js', import.meta.url));

describe('a server over stdio', () => {
  // Rule modern-stdio-20 (2026-07-28 transports, "stdio", "Backward Compatibility"): `initialize` comes first. If it
  // is refused, `server/discover` in the same process decides.
  test('that refuses initialize and answers server/discover is modern, in one process', async () => {
    const { gateway, pids } = await modernStdio(OFFICIAL, { admin: true });
    expect(gateway.log.named('upstream.detected')).toEqual([
      { route: 'mcp', kind: 'modern-stdio', cause: 'only_modern' },
    ]);
    expect(await pids.all()).toHaveLength(1);
    const ready = await fetch(`${gateway.adminUrl}/readyz`);
    expect(ready.status).toBe(200);
    expect(await ready.text()).toContain('modern-stdio');
  });

  // Rule eras-13.
  test('of both eras is bridged', async () => {
    const { gateway, url } = await modernStdio(OFFICIAL, {}, 'serve');
    expect(gateway.log.named('upstream.detected')).toMatchObject([{ kind: 'stdio' }]);
    const { response } = await callTool(url, 'echo', { arguments: { said: 'hello' } });
    expect(response.result.content[0].text).toBe('hello');
    expect(gateway.log.named('session.opened')).not.toEqual([]);
  });

  // Rule modern-stdio-22: With `upstream.era: modern` the server gets no `initialize`, with `legacy` no
  // `server/discover`.
  test('gets no handshake if its era is configured as modern', async () => {
    const { gateway, url } = await modernStdio(ODD, { upstream: { era: 'modern' } });
    expect(gateway.log.named('upstream.detected')).toMatchObject([
      { kind: 'modern-stdio', cause: 'configured' },
    ]);
    expect(JSON.parse(await textOf(url, 'came'))).toEqual([
      'server/discover',
      'tools/list',
      'tools/list',
      'tools/call',
    ]);
  });

  // Rule modern-stdio-22.
  test('that is modern is no server at all if its era is configured as legacy', async () => {
    await expect(modernStdio(ODD, { upstream: { era: 'legacy' } })).rejects.toMatchObject({
      code: 'upstream_not_mcp',
      message: expect.stringContaining('it refused initialize with the JSON-RPC error -32601'),
    });
  });

  // Rule modern-stdio-22.
  test('that is legacy is no server at all if its era is configured as modern', async () => {
    const started = testGateway(
      { command: process.execPath, args: [LEGACY] },
      { upstream: { era: 'modern', headersTimeoutMs: 1_000 } },
    );
    // It replies to nothing that it does not know, and may be slow.
    const gateway = await started;
    expect(gateway.log.named('upstream.unavailable')).toMatchObject([
      { problem: expect.stringContaining('server/discover') },
    ]);
  });

  // Rule eras-16.
  test('that is upgraded is found out by its next process', async () => {
    const { path } = await pidFile();
    const choose = (server: string) => writeFile(path, server);
    await choose(LEGACY);
    const gateway = await testGateway({
      command: '/bin/sh',
      args: ['-c', `exec "$1" "$(cat "$2")"`, 'sh', process.execPath, path],
    });
    const { url } = gateway;
    expect(await textOf(url, 'echo', { said: 'legacy' })).toBe('legacy');
    await choose(ODD);
    // Another caller, who has no process yet.
    const ALICE = { headers: { authorization: 'Bearer alice' } };
    expect(await textOf(url, 'reflect', {}, ALICE)).toContain(
      'io.modelcontextprotocol/protocolVersion',
    );
    expect(gateway.log.named('upstream.detected')).toMatchObject([
      { kind: 'stdio' },
      { kind: 'modern-stdio', cause: 'only_modern' },
    ]);
  });
});

test('probe tells what a modern server over stdio offers, and how to configure it', async () => {
  const host = testHost();
  const args = ['probe', '--json', '--stdio', '--', process.execPath, ODD];
  expect(await run(args, host, neverServe)).toBe(0);
  expect(JSON.parse(host.stdout.text)).toMatchObject({
    ...{ modern: true, served: 'passed-through', transport: 'stdio', revision: '2026-07-28' },
    server: { name: 'odd' },
    tools: { items: expect.arrayContaining([expect.objectContaining({ name: 'reflect' })]) },
    advice: {
      gatewayNeeded: true,
      config: { routes: [{ path: '/mcp', upstream: { command: process.execPath, args: [ODD] } }] },
    },
  });
});

// Rule discover-7.
test('what a client discovers is what the server says', async () => {
  const { url } = await modernStdio(ODD);
  const { response } = await send(url, 'server/discover', {}, { id: 'a' });
  expect(response).toMatchObject({
    id: 'a',
    result: {
      supportedVersions: ['2026-07-28'],
      capabilities: { extensions: { 'com.example/odd': { is: 'kept' } } },
    },
  });
});
