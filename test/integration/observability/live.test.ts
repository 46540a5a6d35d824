/** What the admin listener of a real gateway shows of what happens now. */
import { createHash } from 'node:crypto';
import { get } from 'node:http';
import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { describe, expect, test } from 'vitest';
import { callTool } from '../../fixtures/clients/modern-client.ts';
import { cancel, looksLike } from '../../fixtures/gateways/live.ts';
import {
  answersOf,
  greeter,
  legacyServer,
  reasonOf,
  replica,
  text,
} from '../../fixtures/gateways/replica-testbed.ts';
import { freePort } from '../../fixtures/processes.ts';
import { askName } from '../../fixtures/servers/legacy-server.ts';
import { liveSnapshot } from '../../../src/ops/live/snapshot.ts';

// Rule live-1: `/live.json` shows servers, sessions, calls, tasks, and the ends of the last ten minutes, without
// questions, answers, arguments and tokens.
test('the live view shows what waits and how calls ended, and nothing that was asked, given or answered', async () => {
  const hostile = '<script>alert(1)</script>\u202e\u001b[2J';
  const legacy = await legacyServer({
    tools: { [hostile]: (call) => askName(call, 'secret question?') },
  });
  const gateway = await replica(legacy);
  const named = `=?base64?${Buffer.from(hostile).toString('base64')}?=`;
  const headers = { authorization: 'Bearer secret-token', 'mcp-name': named };
  const asked = await callTool(
    gateway.url,
    hostile,
    { arguments: { value: 'secret argument' } },
    { headers },
  );
  const shown = await looksLike(gateway, { allCalls: 1 });
  expect(shown).toMatchObject({
    status: 'ready',
    actions: [],
    missing: [],
    routes: [{ id: 'mcp', isUp: true, server: 'streamable-http', parked: 1, running: 0 }],
    calls: [
      {
        route: 'mcp',
        method: 'tools/call',
        target: '<script>alert(1)</script>\\u{202e}\\u{1b}[2J',
        kinds: ['elicitation-form'],
        state: 'parked',
        round: 1,
        recoveredBy: null,
        isTask: false,
        owner: shown.processes[0],
      },
    ],
  });
  expect(shown.calls[0]?.who).toMatch(/^[\w-]{16}$/);
  await callTool(
    gateway.url,
    hostile,
    { arguments: { value: 'secret argument' }, ...answersOf(asked, 'secret answer') },
    { headers },
  );
  const after = await looksLike(gateway, { allCalls: 0, routes: [{ parked: 0 }] });
  const { succeeded, peopleMs } = after.routes[0]!.recent;
  expect(succeeded.reduce((sum, value) => sum + value)).toBe(1);
  expect(peopleMs.reduce((sum, value) => sum + value)).toBeGreaterThan(0);
  expect(JSON.stringify([shown, after])).not.toMatch(/secret/);
});

// Rule live-10.
test('the live view sums what workers know, and names one that does not reply', async () => {
  const gateway = await replica(await legacyServer({ tools: greeter().tools }), {
    config: { workers: 2 },
  });
  const asked = await Promise.all(
    Array.from({ length: 6 }, () => callTool(gateway.url, 'greet', {})),
  );
  const shown = await looksLike(gateway, { allCalls: 6, routes: [{ parked: 6 }], missing: [] });
  expect(shown.processes).toHaveLength(2);
  expect(new Set(shown.calls.map(({ owner }) => owner)).size).toBeLessThanOrEqual(2);
  expect(text(await callTool(gateway.url, 'greet', answersOf(asked[0]!, 'Ada')))).toBe('Hello Ada');
  const stuck = Number(gateway.named('worker.started')[0]?.['pid']);
  process.kill(stuck, 'SIGSTOP');
  const missing = [`worker ${gateway.named('worker.started')[0]?.['worker']}`];
  await looksLike(gateway, { missing });
  process.kill(stuck, 'SIGCONT');
  await looksLike(gateway, { missing: [] });
});

// Rules live-4, live-5.
test('the live view serves the page as one document, whose policy allows its own style and script only', async () => {
  const gateway = await replica(await legacyServer({ tools: greeter().tools }));
  for (const path of ['/', '/live']) {
    const response = await fetch(`${gateway.adminUrl}${path}`);
    const html = await response.text();
    const sources = ['style', 'script'].map((tag) => {
      const [, text = ''] = new RegExp(`<${tag}[^>]*>([^]*?)</${tag}>`).exec(html) ?? [];
      return `${tag}-src 'sha256-${createHash('sha256').update(text).digest('base64')}'`;
    });
    const policy = response.headers.get('content-security-policy');
    expect(policy?.split('; ')).toEqual([
      "default-src 'none'",
      ...sources,
      "connect-src 'self'",
      'img-src data:',
      "base-uri 'none'",
      "form-action 'none'",
      "frame-ancestors 'none'",
    ]);
    expect(html).not.toMatch(/(?:src|href)="(?!data:|#)/);
  }
  const rebound = await fetchWithHost(`${gateway.adminUrl}/live`, 'evil.example');
  expect(rebound).toBe(403);
});

// Rule live-3: `/live/events` sends a snapshot each second to at most 20 viewers.
test('the live view sends a snapshot each second, to so many viewers at most, until the gateway stops', async () => {
  const gateway = await replica(await legacyServer({ tools: greeter().tools }));
  const events: EventSourceMessage[] = [];
  const stream = await fetch(`${gateway.adminUrl}/live/events`);
  expect(stream.headers.get('content-type')).toBe('text/event-stream');
  const parser = createParser({ onEvent: (event) => void events.push(event) });
  const ended = (async () => {
    for await (const chunk of stream.body!.pipeThrough(new TextDecoderStream())) parser.feed(chunk);
  })();
  await callTool(gateway.url, 'greet', {});
  const last = () => liveSnapshot.parse(JSON.parse(events.at(-1)?.data ?? '{}'));
  await expect.poll(() => events.length, { timeout: 20_000 }).toBeGreaterThan(2);
  await expect.poll(() => last().allCalls, { timeout: 20_000 }).toBe(1);
  const abort = new AbortController();
  const open = () => fetch(`${gateway.adminUrl}/live/events`, { signal: abort.signal });
  const others = await Promise.all(Array.from({ length: 20 }, open));
  expect(others.map(({ status }) => status).toSorted()).toEqual([...Array(19).fill(200), 503]);
  abort.abort();
  // Nobody views what has no body.
  const head = await fetch(`${gateway.adminUrl}/live/events`, { method: 'HEAD' });
  expect(head.status).toBe(404);
  await expect.poll(async () => (await fetch(`${gateway.adminUrl}/live.json`)).status).toBe(200);
  const drained = gateway.drain();
  await ended;
  expect(await drained).toBe(0);
});

// Rule live-7: With `adminActions: cancel`, a parked call can be cancelled. Its retry gets `cancelled_by_operator`,
// and `audit.stopped` is logged.
test('the operator cancels a call: the server and the client are told, and the log says it', async () => {
  const legacy = await legacyServer({ tools: greeter().tools });
  const gateway = await replica(legacy, { config: { workers: 2, adminActions: 'cancel' } });
  const asked = await callTool(gateway.url, 'greet', {});
  const shown = await looksLike(gateway, { allCalls: 1, actions: ['cancel'] });
  const [call] = shown.calls;
  expect(await cancel(gateway, 'another call')).toBe(404);
  expect(await cancel(gateway, call?.id)).toBe(200);
  expect(await cancel(gateway, call?.id)).toBe(404);
  await expect
    .poll(() => legacy.received.map(({ method }) => method), { timeout: 20_000 })
    .toContain('notifications/cancelled');
  const told = legacy.received.find(({ method }) => method === 'notifications/cancelled');
  expect(told?.body.params.reason).toBe('the operator cancelled the call');
  for (const retry of [1, 2]) {
    const refused = await callTool(gateway.url, 'greet', answersOf(asked, `Ada ${retry}`));
    expect(refused.response.result.isError).toBe(true);
    expect(text(refused)).toMatch(
      /^The operator of the gateway cancelled the call\. The server has/,
    );
    expect(reasonOf(refused)).toBe('cancelled_by_operator');
  }
  const line = { call: call?.id, who: 'local-user', target: 'greet', by: '127.0.0.1', round: 1 };
  expect(await gateway.saw('audit.stopped')).toMatchObject([line]);
  await looksLike(gateway, { allCalls: 0 });
});

// Rule live-7.
test('a call that the operator cancels before the server asked anything says that its effects are unknown', async () => {
  const legacy = await legacyServer({ tools: { work: () => new Promise(() => {}) } });
  const options = { config: { adminActions: 'cancel' }, route: { calls: { maxHold: '1s' } } };
  const gateway = await replica(legacy, options);
  const held = await callTool(gateway.url, 'work');
  const { requestState } = held.response.result;
  const { calls } = await looksLike(gateway, { allCalls: 1 });
  expect(await cancel(gateway, calls[0]?.id)).toBe(200);
  const refused = await callTool(gateway.url, 'work', { requestState });
  expect(reasonOf(refused)).toBe('cancelled_by_operator');
  expect(refused.response.result._meta['mrtr-gateway/mayHaveActed']).toBe('unknown');
});

// Rule live-12.
test('only the page itself and programs cancel, and only if the configuration says so', async () => {
  const legacy = await legacyServer({ tools: greeter().tools });
  const gateway = await replica(legacy, { config: { adminActions: 'cancel' } });
  await callTool(gateway.url, 'greet', {});
  const { id } = (await looksLike(gateway, { allCalls: 1 })).calls[0]!;
  const origin = new URL(gateway.adminUrl).origin;
  for (const headers of [
    { 'x-mrtr-gateway-action': '' },
    { 'x-mrtr-gateway-action': 'Cancel' },
    { origin: 'https://evil.example' },
    { origin: 'null' },
    { 'sec-fetch-site': 'cross-site', origin },
    { 'sec-fetch-site': 'same-site', origin },
  ]) {
    expect(await cancel(gateway, id, headers), JSON.stringify(headers)).toBe(403);
  }
  expect(await cancel(gateway, id, { 'content-type': 'text/plain' })).toBe(400);
  expect(await cancel(gateway, 7)).toBe(400);
  expect(await gateway.reload({ config: {} })).toMatchObject({ event: 'config.reloaded' });
  expect(await cancel(gateway, id)).toBe(403);
  await looksLike(gateway, { allCalls: 1, actions: [] });
  expect(await gateway.reload({ config: { adminActions: 'cancel' } })).toMatchObject({
    settings: 'adminActions',
  });
  expect(await cancel(gateway, id, { origin, 'sec-fetch-site': 'same-origin' })).toBe(200);
});

describe('where the admin listener is not on loopback', () => {
  const start = async () => {
    const admin = `0.0.0.0:${await freePort()}`;
    const gateway = await replica(await legacyServer({ tools: greeter().tools }), {
      config: { admin, adminActions: 'cancel' },
    });
    return gateway.adminUrl.replace('0.0.0.0', '127.0.0.1');
  };

  // Rule live-11: Unless the listener is on loopback, `Host` must be an IP address, a private name or that of
  // `admin`. Probes can use any.
  test('a page cannot read anything under its own name, and scrapers of private networks can', async () => {
    const url = await start();
    for (const path of ['/metrics', '/live.json', '/live/events', '/live', '/live/cancel']) {
      expect(await fetchWithHost(`${url}${path}`, 'evil.example:9464'), path).toBe(403);
    }
    for (const host of [
      'gateway:9464',
      '10.1.2.3',
      '[fd00::1]:1',
      'a.ns.svc.cluster.local',
      'localhost',
    ]) {
      expect(await fetchWithHost(`${url}/metrics`, host), host).toBe(200);
    }
    for (const path of ['/healthz', '/readyz']) {
      expect(await fetchWithHost(`${url}${path}`, 'balancer.example'), path).toBe(200);
    }
  });

  // Rule live-12: A page of another site can read nothing but the page itself, and cancel no call.
  test.each<[string, Record<string, string>]>([
    ['an image', { 'sec-fetch-site': 'cross-site' }],
    ['a link', { 'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'navigate' }],
    ['a script', { origin: 'http://evil.example' }],
    ['a sandboxed script', { origin: 'null' }],
  ])('%s of a page of another site does not reach what is here', async (_what, headers) => {
    const url = await start();
    for (const path of ['/metrics', '/live.json', '/live/events']) {
      expect((await fetch(`${url}${path}`, { headers })).status, path).toBe(403);
    }
    expect((await fetch(`${url}/live`, { headers })).status).toBe(200);
    const own = await fetch(`${url}/live/events`, { headers: { 'sec-fetch-site': 'same-origin' } });
    expect(own.status).toBe(200);
    expect(own.headers.get('cross-origin-resource-policy')).toBe('same-origin');
    await own.body?.cancel();
  });
});

/** `fetch` cannot choose a `Host`. @returns the status */
function fetchWithHost(url: string, host: string): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    get(url, { headers: { host } }, (response) => {
      response.resume();
      resolve(response.statusCode);
    }).on('error', reject);
  });
}
