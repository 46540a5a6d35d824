/** Sessions of legacy clients with a server over stdio, behind several processes of the gateway: each request finds its own. */
import { describe, expect, test } from 'vitest';
import { EventReader, LegacyHttpClient } from '../../fixtures/clients/legacy-http.ts';
import type { GatewayProcessOptions } from '../../fixtures/gateways/gateway-process.ts';
import { roundRobin } from '../../fixtures/gateways/replica-testbed.ts';
import {
  stdioGateways,
  TWO_THROUGH_REDIS,
  TWO_WORKERS,
} from '../../fixtures/gateways/stdio-gateways.ts';
import { isRunning, until } from '../../fixtures/process-ids.ts';

/** Any worker can take a connection. */
const NEW_CONNECTION = { connection: 'close' };

async function gateways(
  count: number,
  options: Partial<GatewayProcessOptions>,
  route: object = {},
) {
  const { pids, started } = await stdioGateways(count, options, route);
  const { url } = count === 1 ? started[0]! : await roundRobin(started);
  return { pids, started, url };
}

describe.each([
  TWO_WORKERS,
  ['three replicas that relay to each other', 3, async () => ({ relay: true }), []],
  TWO_THROUGH_REDIS,
] as const)('%s', { timeout: 90_000 }, (_name, count, options, tags) => {
  // Rule face-24: With several workers, or replicas with a relay, a session is reached through any of them.
  test('find the session of a client, and open no other', { tags: [...tags] }, async () => {
    const { pids, started, url } = await gateways(count, await options());
    const greetings = (await pids.all()).length;
    const clients = await Promise.all(
      Array.from({ length: 4 }, () => LegacyHttpClient.open(url, { ...NEW_CONNECTION })),
    );
    for (const client of clients) {
      const own = await client.text('pid');
      for (let at = 0; at < 4; at += 1) expect(await client.text('pid')).toBe(own);
      const call = new EventReader(await client.send(client.callOf('ask')));
      const question = await call.next();
      const result = { action: 'accept', content: { name: 'Ada' } };
      const answer = { jsonrpc: '2.0', id: question?.message.id, result };
      expect((await client.post(answer)).status).toBe(202);
      expect((await call.next())?.message.result.content[0].text).toBe('Ada');
      expect(await call.next()).toBeNull();
      const standalone = await client.listen();
      await client.text('announce');
      const change = await standalone.next();
      expect(change?.message.method).toBe('notifications/tools/list_changed');
      standalone.leave();
      const resumed = await client.listen({ 'last-event-id': change?.id ?? '' });
      await client.text('announce');
      expect((await resumed.next())?.message.method).toBe('notifications/tools/list_changed');
    }
    expect(await pids.all()).toHaveLength(greetings + clients.length);
    for (const client of clients) expect((await client.delete()).status).toBe(200);
    for (const client of clients) expect((await client.call('pid')).status).toBe(404);
    await until(async () => (await pids.all()).filter(isRunning).length === 0);
    await Promise.all(started.map((gateway) => gateway.drain()));
  });
});

// Rule rights-3.
test.each([
  ['as one JSON object', 'application/json'],
  ['on a stream', 'text/event-stream'],
])('a list of a session at another process has what is allowed only, %s', async (_how, accept) => {
  const rights = { tools: { allow: ['pid'] } };
  const { started } = await gateways(1, { relay: true }, rights);
  const { started: more } = await gateways(1, { relay: true }, rights);
  const client = await LegacyHttpClient.open(started[0]!.url);
  const there = new LegacyHttpClient(more[0]!.url, client.headers);
  const list = { jsonrpc: '2.0', id: 'list', method: 'tools/list' };
  const { headers, body } = await there.post(list, { accept });
  expect(headers.get('content-type')).toBe(accept);
  expect(body.result).toEqual({ tools: [{ name: 'pid', inputSchema: { type: 'object' } }] });
});

// Rule face-20.
test('the session of a replica that was killed is gone, and its process too', async () => {
  const { pids, started } = await gateways(1, { relay: true });
  const { pids: _others, started: more } = await gateways(1, { relay: true });
  const [first, second] = [started[0]!, more[0]!];
  const client = await LegacyHttpClient.open(first.url);
  const there = new LegacyHttpClient(second.url, client.headers);
  const pid = await there.text('pid');
  expect(pid).toBe(await client.text('pid'));
  await first.kill();
  await until(() => !isRunning(Number(pid)));
  expect((await there.call('pid')).status).toBe(404);
  expect((await pids.all()).filter(isRunning)).toEqual([]);
  const again = await LegacyHttpClient.open(second.url);
  expect(Number(await again.text('pid'))).toBeGreaterThan(0);
});
