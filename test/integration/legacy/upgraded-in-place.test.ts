/** A server over stdio that is replaced by one of the other era, while only legacy clients use it. */
import { rm, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { LegacyHttpClient } from '../../fixtures/clients/legacy-http.ts';
import { testGateway } from '../../fixtures/gateways/test-gateway.ts';
import { pidFile, until } from '../../fixtures/process-ids.ts';

const serverOf = (name: string) =>
  fileURLToPath(new URL(`../../fixtures/servers/${name}`, import.meta.url));
/** The official server, which refuses legacy clients. */
const MODERN = serverOf('modern-stdio-server.js');
const LEGACY = serverOf('stdio-server.js');

/** A program that runs one server now, and another one once that was installed. */
async function installed(first: string) {
  const pids = await pidFile();
  const program = `${pids.path}.mjs`;
  const install = (server: string) =>
    writeFile(program, `await import(${JSON.stringify(server)});`);
  await install(first);
  const upstream = { command: process.execPath, args: [program], env: { PIDS: pids.path } };
  const { url } = await testGateway(upstream);
  /** Ends the processes that run. */
  const restart = async () => {
    for (const pid of await pids.all()) {
      try {
        process.kill(pid, 'SIGKILL');
      } catch {
        // It has ended.
      }
    }
  };
  return { url, install, restart, end: () => rm(program) };
}

// Rule modern-stdio-20.
test('a legacy client is served after its server was replaced by one that refuses it', async () => {
  const { url, install, restart, end } = await installed(LEGACY);
  const client = await LegacyHttpClient.open(url);
  expect(Number(await client.text('pid'))).toBeGreaterThan(0);
  await install(MODERN);
  await restart();
  await until(async () => (await client.call('pid')).status === 404);
  const again = new LegacyHttpClient(url);
  expect((await again.initialize()).body.result).toMatchObject({ serverInfo: { name: 'modern' } });
  expect(await again.text('echo', { said: 'hello' })).toBe('hello');
  await end();
});

// A legacy server need not reply to what it does not know, as this one does not.
test('legacy clients are served after their modern server was replaced by a legacy one', async () => {
  const { url, install, restart, end } = await installed(MODERN);
  const client = await LegacyHttpClient.open(url);
  expect(Number(await client.text('pid'))).toBeGreaterThan(0);
  await install(LEGACY);
  await restart();
  // The first requests can still be for the process that was killed.
  const isGone = until(async () => (await client.call('pid')).status === 404);
  const again = new LegacyHttpClient(url);
  await until(async () => (await again.initialize()).body.result !== undefined);
  expect(Number(await again.text('pid'))).toBeGreaterThan(0);
  await isGone;
  const { body } = await client.initialize();
  expect(body.result).toMatchObject({ serverInfo: { name: 'odd' } });
  await end();
});
