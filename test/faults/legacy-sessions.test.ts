/** Many sessions of legacy clients over stdio at once, and each of the three that can be killed: client, server, gateway. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { EventReader, LegacyHttpClient } from '../fixtures/clients/legacy-http.ts';
import { GatewayProcess } from '../fixtures/gateways/gateway-process.ts';
import { isRunning, pidFile, until } from '../fixtures/process-ids.ts';
import { stopAfterTest } from '../fixtures/stop-after-test.ts';

const SERVER = fileURLToPath(new URL('../fixtures/servers/stdio-server.js', import.meta.url));
const CLIENT = fileURLToPath(
  new URL('../fixtures/clients/waiting-legacy-client.ts', import.meta.url),
);

async function front(sessions: object = {}) {
  const pids = await pidFile();
  const upstream = { command: process.execPath, args: [SERVER], env: { PIDS: pids.path } };
  const gateway = await GatewayProcess.start({
    upstream: '',
    relay: false,
    route: { upstream, sessions: { max: 300, ...sessions } },
  });
  stopAfterTest(() => gateway.kill());
  const running = async () => (await pids.all()).filter(isRunning);
  await until(async () => (await running()).length === 0);
  return { gateway, running };
}

test('of 200 sessions at once nothing is left', { tags: ['long'], timeout: 300_000 }, async () => {
  const { gateway, running } = await front();
  const before = await gateway.openFiles();
  const clients: LegacyHttpClient[] = [];
  for (let at = 0; at < 20; at += 1) {
    const more = Array.from({ length: 10 }, () => LegacyHttpClient.open(gateway.url));
    clients.push(...(await Promise.all(more)));
  }
  const pids = await Promise.all(clients.map((client) => client.text('pid')));
  expect(new Set(pids).size).toBe(200);
  expect(await running()).toHaveLength(200);
  await Promise.all(clients.slice(0, 100).map((client) => client.delete()));
  await Promise.all(clients.slice(100).map((client) => client.call('exit')));
  await until(async () => (await running()).length === 0);
  const gone = await Promise.all(clients.map((client) => client.call('pid')));
  expect(new Set(gone.map(({ status }) => status))).toEqual(new Set([404]));
  // Connections of this test stay open for a while.
  await until(async () => (await gateway.openFiles()) <= before + 200);
});

// Rule face-21.
test('the session of a client that was killed ends after the idle time', async () => {
  const { gateway, running } = await front({ idleTimeout: '1s' });
  const client = spawn(process.execPath, [CLIENT, gateway.url], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  stopAfterTest(async () => void client.kill('SIGKILL'));
  await once(client.stdout, 'data');
  expect(await running()).toHaveLength(1);
  client.kill('SIGKILL');
  await until(async () => (await running()).length === 0);
});

// Rule face-20.
test('the session of a server process that was killed is over', async () => {
  const { gateway, running } = await front();
  const client = await LegacyHttpClient.open(gateway.url);
  const pid = Number(await client.text('pid'));
  const call = new EventReader(await client.send(client.callOf('ask')));
  expect((await call.next())?.message.method).toBe('elicitation/create');
  process.kill(pid, 'SIGKILL');
  expect((await call.next())?.message.error.message).toContain('SIGKILL');
  expect((await client.call('pid')).status).toBe(404);
  expect(await running()).toEqual([]);
});

test('no process of a server outlives a gateway that was killed', async () => {
  const { gateway, running } = await front();
  await LegacyHttpClient.open(gateway.url);
  await LegacyHttpClient.open(gateway.url);
  expect(await running()).toHaveLength(2);
  await gateway.kill();
  await until(async () => (await running()).length === 0);
});
