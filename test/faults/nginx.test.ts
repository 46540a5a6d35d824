/**
 * nginx in front, with its defaults (buffering on, HTTP/1.0 to what is behind it, a read timeout). The timeouts
 * are short here, in the proportion of nginx's default to ours; `npm run test:faults:long` takes the real ones.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { callTool, modernBody, modernHeaders } from '../fixtures/clients/modern-client.ts';
import {
  answersOf,
  legacyServer,
  replica,
  replicas,
  slowGreeter,
  text,
  whileRetryable,
} from '../fixtures/gateways/replica-testbed.ts';
import { startNginx } from '../fixtures/network/nginx.ts';
import type { Tool } from '../fixtures/servers/legacy/tools.ts';
import { askName } from '../fixtures/servers/legacy-server.ts';

const BIG = 'x'.repeat(3 * 1024 * 1024);

/** Tools that are silent for so long before and after they ask. */
function silentTools(silenceMs: number): Record<string, Tool> {
  return {
    work: async (call) => {
      const progressToken = call.extra._meta?.progressToken ?? 0;
      await call.extra.sendNotification({
        method: 'notifications/progress',
        params: { progressToken, progress: 1 },
      });
      await pause(silenceMs);
      const name = await askName(call);
      await pause(silenceMs);
      return `Hello ${name}`;
    },
    big: async () => BIG,
  };
}

describe('behind nginx', { tags: ['nginx'], timeout: 60_000 }, () => {
  // Rule responses-3.
  test(
    'a call that is silent for longer than its read timeout is kept by comments, parked and answered',
    { tags: ['long'] },
    async () => {
      const legacy = await legacyServer({ tools: silentTools(36_000) });
      const gateway = await replica(legacy);
      const url = await startNginx(gateway.url, 'proxy_read_timeout 18s;');
      const heard: number[] = [];
      const startedAtMs = performance.now();
      const meta = { progressToken: 'mine' };
      const onMessage = () => heard.push(performance.now() - startedAtMs);
      const asked = await callTool(url, 'work', {}, { meta, onMessage });
      expect(asked.streamed).toBe(true);
      expect(asked.comments).toBeGreaterThanOrEqual(2);
      // Progress is not kept back until the answer is whole.
      expect(heard).toHaveLength(2);
      expect(Number(heard[1]) - Number(heard[0])).toBeGreaterThan(1_500);
      const done = await callTool(url, 'work', answersOf(asked, 'Ada'));
      expect(text(done)).toBe('Hello Ada');
    },
  );

  // Rule responses-3.
  test('a response that is larger than its buffers arrives whole', async () => {
    const legacy = await legacyServer({ tools: silentTools(0) });
    const gateway = await replica(legacy);
    const url = await startNginx(gateway.url);
    expect(text(await callTool(url, 'big'))).toBe(BIG);
  });

  test('a client that leaves cancels its call', async () => {
    const legacy = await legacyServer({ tools: silentTools(20_000) });
    const gateway = await replica(legacy);
    const url = await startNginx(gateway.url);
    const leaving = new AbortController();
    const left = callTool(url, 'work', {}, { signal: leaving.signal });
    await legacy.saw('tools/call');
    leaving.abort();
    await expect(left).rejects.toThrow();
    await legacy.saw('notifications/cancelled');
  });

  // Rule metrics-6.
  test('a retry whose replica is killed gets a 502, and goes on at another replica when it is repeated', async () => {
    const { tools, effects, finish } = slowGreeter();
    const legacy = await legacyServer({ tools, keepsEvents: true });
    const [first, second] = await replicas(legacy, 2);
    const [owner, other] = [new URL(first.url), new URL(second.url)];
    // A request that was sent is not sent again, as by default. The second one serves while the first one is gone.
    const upstream = `upstream replicas { server ${owner.host}; server ${other.host} backup; }
  proxy_set_header Host $http_host;`;
    const url = await startNginx(`http://replicas${owner.pathname}`, upstream);
    const answers = answersOf(await callTool(url, 'greet'), 'Ada');
    const params = { name: 'greet', arguments: {}, ...answers };
    const cut = fetch(url, {
      method: 'POST',
      headers: modernHeaders('tools/call', params),
      body: JSON.stringify(modernBody('tools/call', params)),
    });
    await expect.poll(() => effects, { timeout: 10_000, interval: 20 }).toEqual(['Ada']);
    await first.kill();
    expect((await cut).status).toBe(502);
    finish();
    const done = await whileRetryable(() => callTool(url, 'greet', answers));
    expect([text(done), effects]).toEqual(['Hello Ada', ['Ada']]);
    expect(await second.recoveries()).toEqual(['reattach']);
    expect(
      await second.metric('mrtr_gateway_resumes_total{route="mcp",recovered_by="reattach"}'),
    ).toBe(1);
  });

  test(
    'a call that is silent for 70 s is answered with the defaults of both',
    { tags: ['minutes'], timeout: 240_000 },
    async () => {
      const legacy = await legacyServer({ tools: silentTools(70_000) });
      const gateway = await replica(legacy);
      const url = await startNginx(gateway.url);
      const asked = await callTool(url, 'work');
      expect(asked.comments).toBeGreaterThanOrEqual(3);
      const done = await callTool(url, 'work', answersOf(asked, 'Ada'));
      expect(text(done)).toBe('Hello Ada');
    },
  );
});
