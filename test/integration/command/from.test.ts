/** `mrtr-gateway --from FILE` and `mrtr-gateway mcp.json FILE`, with real servers. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { run } from '../../../src/cli/run.ts';
import { callTool } from '../../fixtures/clients/modern-client.ts';
import { connectModernClient } from '../../fixtures/clients/official-client.ts';
import { COMMAND } from '../../fixtures/gateways/command.ts';
import { kept, neverServe } from '../../fixtures/probing.ts';
import { LegacyServer } from '../../fixtures/servers/legacy-server.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';
import { testHost } from '../../unit/cli/test-host.ts';

const EVERYTHING = fileURLToPath(
  import.meta.resolve('@modelcontextprotocol/server-everything/dist/index.js'),
);

async function clientFile(mcpServers: object): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'mrtr-from-'));
  stopAfterTest(() => rm(folder, { recursive: true }));
  const file = join(folder, '.mcp.json');
  await writeFile(file, JSON.stringify({ mcpServers }, null, 2));
  return file;
}

test('each server of a file is served at a path with its name, with the values of the file', async () => {
  const tools = { hello: async () => 'hello' };
  const legacy = kept(await LegacyServer.start({ tools }));
  const file = await clientFile({
    everything: { command: process.execPath, args: [EVERYTHING], env: { COLOUR: 'teal' } },
    legacy: { type: 'http', url: legacy.url },
  });
  const words = [
    '--from',
    file,
    '--listen',
    '127.0.0.1:0',
    '--admin',
    'off',
    '--log-format',
    'json',
  ];
  const child = spawn(process.execPath, [COMMAND, ...words], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env['PATH'] },
  });
  const closed = once(child, 'close');
  stopAfterTest(async () => {
    child.kill('SIGTERM');
    await closed;
  });
  let log = '';
  const urls = await new Promise<Record<string, string>>((resolve, reject) => {
    child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
      log += chunk;
      const found = [...log.matchAll(/"route\.listening","route":"(\w+)","url":"([^"]+)"/g)];
      if (found.length === 2) resolve(Object.fromEntries(found.map(([, id, url]) => [id, url])));
    });
    closed.then(() => reject(new Error(log)), reject);
  });
  expect(new URL(urls['legacy'] ?? '').pathname).toBe('/legacy/mcp');
  const client = await connectModernClient(urls['everything'] ?? '', () => ({}));
  stopAfterTest(() => client.close());
  const [environment, greeting] = await Promise.all([
    client.callTool({ name: 'get-env', arguments: {} }),
    callTool(urls['legacy'] ?? '', 'hello', {}),
  ]);
  expect(JSON.stringify(environment)).toContain('teal');
  expect(JSON.stringify(greeting)).toContain('hello');
  expect(log).not.toContain('teal');
});

test('a variable that is not set keeps it from starting, with the place', async () => {
  const file = await clientFile({ a: { command: 'x', env: { KEY: '${NOT_SET}' } } });
  const child = spawn(process.execPath, [COMMAND, '--from', file, '--log-format', 'pretty'], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { PATH: process.env['PATH'] },
  });
  const [err, [code]] = await Promise.all([text(child.stderr), once(child, 'close')]);
  expect(code).toBe(78);
  expect(err).toMatch(
    /\.mcp\.json:6:\d+ mcpServers\.a\.env\.KEY: expected the environment variable NOT_SET/,
  );
});

test('a wrong flag beside it is no problem of the file', async () => {
  const file = await clientFile({ a: { command: 'x' } });
  const host = testHost();
  const words = ['--from', file, '--listen', 'here', '--log-format', 'pretty'];
  expect(await run(words, host, neverServe)).toBe(64);
  expect(host.stderr.text).toMatch(/^mrtr-gateway: --listen: expected an address such as .*\n$/);
});

test('a misspelt variable of the gateway is said, as without a file', async () => {
  const file = await clientFile({ a: { command: 'x' } });
  const host = testHost({ env: { MRTR_GATEWAY_LISTN: ':1' } });
  await run(['--from', file], host, neverServe).catch(() => {});
  expect(host.log()).toContainEqual(
    expect.objectContaining({
      event: 'gateway.unknown_variable',
      name: 'MRTR_GATEWAY_LISTN',
      nearest: 'MRTR_GATEWAY_LISTEN',
    }),
  );
});

test('the printed configuration is one that check accepts once its variables are set', async () => {
  const file = await clientFile({
    everything: { command: process.execPath, args: [EVERYTHING], env: { API_KEY: 'from-canary' } },
  });
  const host = testHost({ errors: 'terminal' });
  expect(await run(['mcp.json', file], host, neverServe)).toBe(0);
  expect(host.stdout.text).not.toContain('from-canary');
  expect(host.stdout.text).toMatch(/^# Set API_KEY: mcpServers\.everything\.env\.API_KEY$/m);
  expect(host.stderr.text).toBe('Set API_KEY: mcpServers.everything.env.API_KEY\n');
  const printed = `${file}.yaml`;
  await writeFile(printed, host.stdout.text);
  const without = testHost();
  expect(await run(['check', printed], without, neverServe)).toBe(1);
  const checked = testHost({ env: { API_KEY: 'x' } });
  expect(await run(['check', printed], checked, neverServe)).toBe(0);
});

test('what is to be set is said once where one log has all output', async () => {
  const file = await clientFile({ a: { command: 'x', env: { API_KEY: 'from-canary' } } });
  const host = testHost();
  expect(await run(['mcp.json', file], host, neverServe)).toBe(0);
  expect(host.stdout.text).toContain('# Set API_KEY: ');
  expect(host.stderr.text).toBe('');
});

test('a line break in the file of a client adds nothing to the printed configuration', async () => {
  const file = await clientFile({ a: { command: 'x', args: ['${y\nadmin: off}'] } });
  const host = testHost();
  expect(await run(['mcp.json', file], host, neverServe)).toBe(0);
  expect(Object.keys(parse(host.stdout.text) as object)).toEqual(['routes']);
});
