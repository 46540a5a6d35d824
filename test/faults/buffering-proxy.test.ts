/** nginx between the gateway and a server, which holds responses back until it has them whole, as by default. */
import { describe, expect, test } from 'vitest';
import { callTool } from '../fixtures/clients/modern-client.ts';
import { testGateway } from '../fixtures/gateways/test-gateway.ts';
import { legacyServer } from '../fixtures/gateways/replica-testbed.ts';
import { hurriedClock } from '../fixtures/hurried-clock.ts';
import { startNginx } from '../fixtures/network/nginx.ts';
import { report } from '../fixtures/probing.ts';
import { askName } from '../fixtures/servers/legacy-server.ts';

const TOOLS = { echo: async () => 'hello', ask: askName };

/** @param directives of nginx */
async function behindNginx(directives = '') {
  const server = await legacyServer({ tools: TOOLS, keepsEvents: true });
  return startNginx(
    server.url,
    `proxy_http_version 1.0; proxy_ignore_headers X-Accel-Buffering; ${directives}`,
  );
}

describe('a proxy that holds responses back', { tags: ['nginx'], timeout: 30_000 }, () => {
  // Rule limits-13: A call without a response head after 30 s is logged once for each route, with the usual cause.
  test('is named in the log when a call that asks has no response head after 30 s', async () => {
    const gateway = await testGateway(await behindNginx(), { clock: hurriedClock(30) });
    expect((await callTool(gateway.url, 'echo')).response.result).toBeDefined();
    expect(gateway.log.named('upstream.held_back')).toEqual([]);
    const leaving = new AbortController();
    const calls = [0, 1].map(() => callTool(gateway.url, 'ask', {}, { signal: leaving.signal }));
    await gateway.log.saw('upstream.held_back');
    leaving.abort();
    await Promise.allSettled(calls);
    expect(gateway.log.named('upstream.held_back')).toEqual([{ route: 'mcp', ms: 30_000 }]);
  });

  const long = { tags: ['long'] };
  test('is named by a probe that calls a tool: it was taken, and nothing came', long, async () => {
    const { realCall, advice } = await report(await behindNginx(), '--call', 'ask');
    expect(realCall).toMatchObject({ outcome: 'held-back', answerMs: null });
    const notes = advice.notes.join(' ');
    expect(notes).toContain('was taken, and nothing came in 5 seconds');
    expect(notes).toContain('proxy_buffering off');
  });

  test('is not named where nginx passes on what comes', async () => {
    const url = await behindNginx('proxy_buffering off;');
    const { realCall } = await report(url, '--call', 'ask');
    expect(realCall?.outcome).toBe('resumed');
  });
});
