/** What the admin listener of a real gateway shows of what happens now. */
import { createHash } from 'node:crypto';
import { get } from 'node:http';
import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { expect, test } from 'vitest';
import { callTool } from '../../fixtures/clients/modern-client.ts';
import type { GatewayProcess } from '../../fixtures/gateways/gateway-process.ts';
import {
  answersOf,
  greeter,
  legacyServer,
  replica,
  text,
} from '../../fixtures/gateways/replica-testbed.ts';
import { askName } from '../../fixtures/servers/legacy-server.ts';
import { liveSnapshot, type LiveSnapshot } from '../../../src/ops/live/snapshot.ts';

async function look({ adminUrl }: GatewayProcess): Promise<LiveSnapshot> {
  const response = await fetch(`${adminUrl}/live.json`);
  expect(response.status).toBe(200);
  return liveSnapshot.parse(await response.json());
}

/** Looks until it shows what is expected: snapshots can be a second old. */
async function looksLike(gateway: GatewayProcess, expected: object): Promise<LiveSnapshot> {
  await expect.poll(() => look(gateway), { timeout: 20_000 }).toMatchObject(expected);
  return look(gateway);
}

// Rule live-1: `/live.json` on the admin listener shows each route with its server, its sessions, calls and tasks, the calls that wait
// for their client, and how calls ended in the last ten minutes. No question, answer, argument or token is in it.
test('shows what waits and how calls ended, and nothing that was asked, given or answered', async () => {
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
        rung: null,
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

// Rule live-2: What several workers know is summed. One that does not answer is named.
test('sums what workers know, and names one that does not answer', async () => {
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
test('serves the page as one document, whose policy allows its own style and script only', async () => {
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

// Rule live-3: `/live/events` sends a snapshot each second to 20 viewers at most, and ends when the gateway stops.
test('sends a snapshot each second, to so many viewers at most, until the gateway stops', async () => {
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
  await expect.poll(async () => (await fetch(`${gateway.adminUrl}/live.json`)).status).toBe(200);
  const drained = gateway.drain();
  await ended;
  expect(await drained).toBe(0);
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
