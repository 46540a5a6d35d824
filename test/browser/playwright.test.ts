/**
 * A browser behind the gateway as it is by default: `@playwright/mcp`, whose sessions have a browser each. What a modern
 * client sees is compared with what a legacy client sees that talks to the server itself.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import {
  connectLegacy,
  connectModern,
  fillForm,
  useAtOnce,
  type CallBrowser,
} from '../fixtures/real-servers/browser/browser-user.ts';
import { startBrowserServer, startPages } from '../fixtures/real-servers/browser/browser-server.ts';
import { callTool } from '../fixtures/clients/modern-client.ts';
import type {
  GatewayProcess,
  GatewayProcessOptions,
} from '../fixtures/gateways/gateway-process.ts';
import { redisServer, replica, text } from '../fixtures/gateways/replica-testbed.ts';

const BROWSER = { tags: ['browser', 'chromium'], timeout: 120_000 };

async function stage(env?: Record<string, string>) {
  const [page, url] = [await startPages(), await startBrowserServer(env)];
  const gateway = (options: Partial<GatewayProcessOptions> = {}) =>
    replica({ url }, { relay: false, ...options });
  return { page, url, gateway };
}

/** Two replicas that share a Redis, and the pages that their browser visits. */
async function twoReplicas(env?: Record<string, string>) {
  const { page, url, gateway } = await stage(env);
  const redis = await redisServer();
  const options = { relay: true, redis: redis.url };
  const [a, b] = [await gateway(options), await gateway(options)];
  return { page, url, a, b };
}

/** Everything that the user does, and what the calls said. */
async function use(call: CallBrowser, page: string): Promise<string[]> {
  const said = await fillForm(call, page);
  return [...said, await useAtOnce(call)];
}

describe('a browser', BROWSER, () => {
  // Rule sessions-2.
  test.each(['/mcp', '/sse'])(
    'is the same in separate calls and in parallel ones at %s, as for a direct legacy client',
    async (path) => {
      const { page, url, gateway } = await stage();
      const expected = await use(await connectLegacy(url), page);
      expect(expected.at(-2)).toContain('Hello Ada');
      expect(expected.at(-1)).toMatch(/paragraph \[ref=\w+\]: "4"/);
      expect(expected.at(-1)).toContain('Lima');
      const { url: front } = await gateway({ upstream: url.replace('/mcp', path) });
      expect(await use(await connectModern(front), page)).toEqual(expected);
    },
  );

  // Rules sessions-2, sessions-16.
  test('is the same at two workers', async () => {
    const { page, url, gateway } = await stage();
    const expected = await use(await connectLegacy(url), page);
    const front = await gateway({ config: { workers: 2 } });
    expect(await use(await connectModern(front.url), page)).toEqual(expected);
    expect(front.named('call.relayed')).not.toEqual([]);
  });

  // Rules sessions-2, sessions-16.
  test('is the same at two replicas with Redis in turns', { tags: ['redis'] }, async () => {
    const { page, url, a, b } = await twoReplicas();
    const expected = await use(await connectLegacy(url), page);
    expect(await use(await connectModern(a.url, b.url), page)).toEqual(expected);
  });

  // Rules sessions-2, sessions-16.
  test('is the same after the replica of its session was killed', { tags: ['redis'] }, async () => {
    const { page, url, a, b } = await twoReplicas({ PLAYWRIGHT_MCP_PING_TIMEOUT_MS: '0' });
    const expected = await use(await connectLegacy(url), page);
    const call = await connectModern(a.url);
    const said = await fillForm(call, page);
    await a.kill();
    expect([...said, await useAtOnce(await connectModern(b.url))]).toEqual(expected);
  });

  // Rule sessions-15.
  test(
    'is kept, or its caller is told, if its server ends sessions that answer no ping for 5 s',
    { tags: ['redis'] },
    async () => {
      const { page, a, b } = await twoReplicas();
      const told: unknown[] = [];
      const callerOf =
        ({ url }: GatewayProcess): CallBrowser =>
        async (name, args = {}) => {
          const meta = { 'io.modelcontextprotocol/logLevel': 'warning' };
          const options = { capabilities: {}, meta };
          const called = await callTool(url, name, { arguments: args }, options);
          told.push(...called.notifications);
          return String(text(called));
        };
      await fillForm(callerOf(a), page);
      await a.kill();
      const isKept = [];
      // The server pings every 3 s, and waits 5 s for the reply.
      for (const untilMs = Date.now() + 12_000; Date.now() < untilMs; await sleep(500)) {
        const says = await callerOf(b)('browser_snapshot');
        // The call that runs when the server ends the session fails, and says so. The next one is told.
        if (says.includes('The call was interrupted')) continue;
        isKept.push(says.includes('Hello Ada'));
        expect(isKept.at(-1)).toBe(told.length === 0);
      }
      expect(told.length).toBeLessThanOrEqual(1);
      expect(b.named('session.replaced')).toHaveLength(told.length);
    },
  );
});
