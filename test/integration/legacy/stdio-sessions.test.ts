/** Legacy clients in front of a server over stdio: the sessions that they open, whose they are, and how they end. */
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { EventReader, initializeOf, LegacyHttpClient } from '../../fixtures/clients/legacy-http.ts';
import { callTool, send } from '../../fixtures/clients/modern-client.ts';
import type { GatewayOverrides, StdioServer } from '../../fixtures/gateways/gateway.ts';
import { testGateway } from '../../fixtures/gateways/test-gateway.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';
import { isRunning, pidFile, until } from '../../fixtures/process-ids.ts';

const SERVER = fileURLToPath(new URL('../../fixtures/servers/stdio-server.js', import.meta.url));
const ON_A_STREAM = { accept: 'text/event-stream' };
const BY_NAME = { identity: { source: 'header', header: 'x-user' } } as const;

async function front(overrides: GatewayOverrides = {}, more: Partial<StdioServer> = {}) {
  const pids = await pidFile();
  const stdio = { command: process.execPath, args: [SERVER, 'plain'], env: { PIDS: pids.path } };
  const gateway = await testGateway({ ...stdio, ...more }, overrides);
  const running = async () => (await pids.all()).filter(isRunning);
  const isLeft = (pid: string) => isRunning(Number(pid));
  return { gateway, url: gateway.url, running, isLeft };
}

describe('a session of a legacy client', () => {
  // Rule face-11: `initialize` starts a process for its session. The response is one JSON object as the server wrote
  // it, with `Mcp-Session-Id`.
  test('is one process, beside the modern clients of the same URL', async () => {
    const { url } = await front();
    const client = new LegacyHttpClient(url);
    const { status, headers, body } = await client.initialize();
    expect([status, headers.get('content-type')]).toEqual([200, 'application/json']);
    expect(body.result).toMatchObject({
      protocolVersion: '2025-11-25',
      serverInfo: { name: 'odd' },
    });
    const initialized = { jsonrpc: '2.0', method: 'notifications/initialized' };
    expect((await client.post(initialized)).status).toBe(202);
    const other = await LegacyHttpClient.open(url);
    const modern = await callTool(url, 'pid');
    const pids = [
      await client.text('pid'),
      await client.text('pid'),
      await other.text('pid'),
      modern.response.result.content[0].text,
    ];
    expect(pids[0]).toBe(pids[1]);
    expect(new Set(pids).size).toBe(3);
    const discovered = await send(url, 'server/discover');
    expect(discovered.response.result.supportedVersions).toEqual(['2026-07-28', '2025-11-25']);
  });

  // Rule face-2.
  test('is asked on the stream of its call, and answers with a POST', async () => {
    const { url } = await front();
    const client = await LegacyHttpClient.open(url);
    const stream = new EventReader(await client.send(client.callOf('ask')));
    const question = await stream.next();
    expect(question?.message).toMatchObject({ method: 'elicitation/create' });
    const result = { action: 'accept', content: { name: 'Ada' } };
    const { status } = await client.post({ jsonrpc: '2.0', id: question?.message.id, result });
    expect(status).toBe(202);
    expect((await stream.next())?.message.result.content[0].text).toBe('Ada');
    expect(await stream.next()).toBeNull();
  });

  // Rule face-13: DELETE gets 200 and ends the session with its process. Later requests get 404.
  test('ends with DELETE, and its process with it', async () => {
    const { url, isLeft } = await front();
    const client = await LegacyHttpClient.open(url);
    const pid = await client.text('pid');
    expect((await client.delete()).status).toBe(200);
    expect((await client.call('pid')).status).toBe(404);
    expect((await client.delete()).status).toBe(404);
    await until(() => !isLeft(pid));
  });

  // Rule face-14: `initialize` opens a session whatever id it carries, and ends the caller's earlier one.
  test('ends when its client opens another one', async () => {
    const { url, isLeft } = await front();
    const client = await LegacyHttpClient.open(url);
    const earlier = { ...client.headers };
    const pid = await client.text('pid');
    await client.initialize();
    expect(await client.text('pid')).not.toBe(pid);
    await until(() => !isLeft(pid));
    expect((await new LegacyHttpClient(url, earlier).call('pid')).status).toBe(404);
  });

  // Rule face-15 (Security Best Practices, "Session Hijacking"): A session belongs to the principal that opened it.
  // Any other principal gets 404.
  test('is of no use to another principal', async () => {
    const { url } = await front(BY_NAME);
    const client = await LegacyHttpClient.open(url, { 'x-user': 'ada' });
    const stolen = { ...client.headers, 'x-user': 'eve' };
    const thief = new LegacyHttpClient(url, stolen);
    expect((await thief.call('pid')).status).toBe(404);
    expect((await thief.listen()).response.status).toBe(404);
    expect((await thief.delete()).status).toBe(404);
    expect((await client.call('pid')).status).toBe(200);
  });

  // Rule face-16: An unidentified caller gets the same refusal for each session.
  test.each(['POST', 'GET', 'DELETE', 'HEAD'])(
    'is not opened or seen by a stranger (%s)',
    async (method) => {
      const { url } = await front(BY_NAME);
      const headers = { 'content-type': 'application/json', 'mcp-session-id': 'x' };
      const body = method === 'POST' ? JSON.stringify(initializeOf()) : null;
      expect((await fetch(url, { method, headers, body })).status).toBe(401);
    },
  );

  // Rule face-17: A request without a session or with an unknown revision gets 400. Other methods get 405.
  test('is named by the requests that use it', async () => {
    const { url } = await front();
    const stray = await new LegacyHttpClient(url).post({ jsonrpc: '2.0', id: 1, method: 'ping' });
    expect([stray.status, stray.body.error.message]).toEqual([
      400,
      'Mcp-Session-Id is missing: a session begins with initialize',
    ]);
    expect((await fetch(url, { headers: { accept: 'text/event-stream' } })).status).toBe(400);
    expect((await fetch(url, { method: 'PUT' })).status).toBe(405);
    const client = await LegacyHttpClient.open(url);
    const unknown = { 'mcp-protocol-version': '2023-01-01' };
    expect((await client.post(client.callOf('pid'), unknown)).status).toBe(400);
    const differs = { 'mcp-protocol-version': '2025-03-26' };
    expect((await client.post(client.callOf('pid'), differs)).status).toBe(200);
  });

  // Rule rejections-2.
  test('is missed in the log, with the reason', async () => {
    const { url, gateway } = await front({ sessions: { max: 1, queue: { waitMs: 500 } } });
    const busy = await LegacyHttpClient.open(url);
    const waiting = new EventReader(await busy.send(busy.callOf('wait'), ON_A_STREAM));
    const headers = { 'mcp-session-id': 'unknown' };
    await new LegacyHttpClient(url, headers).post({ jsonrpc: '2.0', id: 1, method: 'ping' });
    await gateway.log.saw('edge.invalid_request');
    const [refused] = gateway.log.named('edge.invalid_request');
    expect(refused).toMatchObject({ status: 404, problem: expect.stringContaining('no session') });
    for (let i = 0; i < 2; i += 1) {
      const { status, body } = await new LegacyHttpClient(url).initialize();
      expect([status, body.error.message]).toEqual([200, expect.stringContaining('sessions.max')]);
    }
    expect(gateway.log.named('legacy_session.refused')).toEqual([
      { route: 'mcp', requests: 1, problem: expect.stringContaining('sessions.max') },
    ]);
    waiting.leave();
  });

  // Rule face-18: The id of an open request cannot be used again: 400.
  test('takes no id twice, and batches at the one revision that has them', async () => {
    const { url } = await front();
    const client = await LegacyHttpClient.open(url);
    // The head of a stream comes when the request is open.
    const waiting = new EventReader(await client.send(client.callOf('wait'), ON_A_STREAM));
    expect((await client.post({ jsonrpc: '2.0', id: 1, method: 'ping' })).status).toBe(400);
    const list = [
      { jsonrpc: '2.0', id: 'a', method: 'ping' },
      { jsonrpc: '2.0', id: 'b', method: 'ping' },
    ];
    expect((await client.post(list)).status).toBe(400);
    await client.call('open');
    expect((await waiting.next())?.message.result.content[0].text).toBe('over');
    const former = new LegacyHttpClient(url);
    await former.initialize(initializeOf({}, '2025-03-26'));
    const stream = new EventReader(await former.send(list));
    expect(
      [await stream.next(), await stream.next()].map((event) => event?.message.id).sort(),
    ).toEqual(['a', 'b']);
    expect(await stream.next()).toBeNull();
  });

  // Rule face-19: A session that cannot be opened gets 200 with a JSON-RPC error.
  test('that cannot be opened is refused in words, with status 200', async () => {
    const queue = { waitMs: 100 };
    const { url } = await front({ sessions: { max: 2, queue } });
    const streams: EventReader[] = [];
    for (const client of [await LegacyHttpClient.open(url), await LegacyHttpClient.open(url)]) {
      const stream = new EventReader(await client.send(client.callOf('ask')));
      expect((await stream.next())?.message.method).toBe('elicitation/create');
      streams.push(stream);
    }
    const { status, body, headers } = await new LegacyHttpClient(url).initialize();
    expect([status, headers.get('mcp-session-id')]).toEqual([200, null]);
    expect(body).toMatchObject({ id: 'init', error: { code: -32603 } });
    expect(body.error.message).toContain('sessions.max (2)');
  });

  // Rule face-19.
  test('that is opened too often is refused in words, with status 200', async () => {
    const limits = { rate: { requests: 1, windowMs: 60_000 } };
    const { url } = await front({ routeLimits: limits });
    await LegacyHttpClient.open(url);
    const { status, body } = await new LegacyHttpClient(url).initialize();
    expect([status, body.error.data['limit']]).toEqual([200, 'limits.rate']);
  });

  // Rule face-20: If its process ends, open requests get an error with its exit code and last lines of stderr, and
  // the session gets 404.
  test('is over when its process ends, and its requests are told why', async () => {
    const { url, running } = await front();
    const client = await LegacyHttpClient.open(url);
    const stream = await client.listen();
    const { body } = await client.call('exit');
    expect(body.error.message).toContain('exit code 7');
    expect(await stream.next()).toBeNull();
    expect((await client.call('pid')).status).toBe(404);
    await until(async () => (await running()).length === 0);
  });

  // Rule face-21: A session ends after `sessions.idleTimeout` without an open response. An open GET counts.
  test('ends when it was idle for long, and not while a stream is open', async () => {
    const clock = new ManualClock();
    const { url, isLeft } = await front({ clock, sessions: { idleTimeoutMs: 60_000 } });
    const [left, attached] = [await LegacyHttpClient.open(url), await LegacyHttpClient.open(url)];
    const pids = [await left.text('pid'), await attached.text('pid')];
    await attached.listen();
    clock.advance(60_000);
    await until(() => !isLeft(pids[0]!));
    expect((await left.call('pid')).status).toBe(404);
    expect(await attached.text('pid')).toBe(pids[1]);
  });

  // Rule face-21.
  test('is not kept for a client that leaves before it is open', async () => {
    const { url, gateway, running } = await front();
    const leaving = new AbortController();
    const opening = fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(initializeOf()),
      signal: leaving.signal,
    });
    await gateway.log.saw('route.legacy_client');
    leaving.abort();
    await expect(opening).rejects.toThrow();
    await gateway.log.saw('process.ended', 2);
    expect(await running()).toEqual([]);
    expect(gateway.log.named('legacy_session.opened')).toEqual([]);
  });

  // Rule face-22: If no process is free, the longest idle session ends. A session with a running request never ends
  // for another.
  test('gives way to a new one if nothing of it is open', async () => {
    const { url, isLeft } = await front({ sessions: { max: 3 } });
    const busy = await LegacyHttpClient.open(url);
    const waiting = new EventReader(await busy.send(busy.callOf('wait'), ON_A_STREAM));
    const watched = await LegacyHttpClient.open(url);
    const idle = await LegacyHttpClient.open(url);
    const pids = [await watched.text('pid'), await idle.text('pid')];
    await watched.listen();
    await LegacyHttpClient.open(url);
    await until(() => !isLeft(pids[1]!));
    expect(isLeft(pids[0]!)).toBe(true);
    await LegacyHttpClient.open(url).then((another) => another.listen());
    await busy.call('open');
    expect((await waiting.next())?.message.result.content[0].text).toBe('over');
  });

  // Rule face-23: A drain opens no session (503), closes standalone streams with `retry`, and waits for open requests
  // within `drain.timeout`.
  test('ends in a drain, after the requests that are open', async () => {
    const drain = { delayMs: 0, parkedMs: 0, timeoutMs: 30_000 };
    const { gateway, url, running } = await front({ drain });
    const client = await LegacyHttpClient.open(url);
    const standalone = await client.listen();
    const call = new EventReader(await client.send(client.callOf('ask')));
    const question = await call.next();
    const drained = gateway.drain();
    expect(await standalone.next()).toBeNull();
    expect((await new LegacyHttpClient(url).initialize()).status).toBe(503);
    const result = { action: 'accept', content: { name: 'Ada' } };
    const answer = { jsonrpc: '2.0', id: question?.message.id, result };
    expect((await client.post(answer)).status).toBe(202);
    expect((await call.next())?.message.result.content[0].text).toBe('Ada');
    await drained;
    expect(await running()).toEqual([]);
  });
});
