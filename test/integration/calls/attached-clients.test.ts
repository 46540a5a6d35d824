/** What a client gets while it waits for the response to its call: progress, log messages, one JSON object or a stream. */
import { describe, expect, test } from 'vitest';
import { ManualClock } from '../../fixtures/manual-clock.ts';
import { callTool } from '../../fixtures/clients/modern-client.ts';
import { legacyGateway, text } from '../../fixtures/gateways/legacy-gateway.ts';

describe('the attached client', () => {
  // Rule responses-1.
  test('gets progress under its own token and logs at its own level, then the response', async () => {
    const { url, legacy } = await legacyGateway({
      tools: {
        busy: async ({ extra, server }) => {
          const progressToken = extra._meta?.progressToken ?? 'none';
          for (const progress of [1, 2]) {
            await extra.sendNotification({
              method: 'notifications/progress',
              params: { progressToken, progress, total: 2 },
            });
          }
          for (const level of ['info', 'error'] as const) {
            await extra.sendNotification({
              method: 'notifications/message',
              params: { level, data: level },
            });
          }
          return server.getClientVersion()?.name ?? '';
        },
      },
    });
    const done = await callTool(
      url,
      'busy',
      {},
      { meta: { progressToken: 'mine', 'io.modelcontextprotocol/logLevel': 'error' } },
    );
    expect(done.streamed).toBe(true);
    expect(done.notifications).toEqual([
      {
        jsonrpc: '2.0',
        method: 'notifications/progress',
        params: { progressToken: 'mine', progress: 1, total: 2 },
      },
      {
        jsonrpc: '2.0',
        method: 'notifications/progress',
        params: { progressToken: 'mine', progress: 2, total: 2 },
      },
      {
        jsonrpc: '2.0',
        method: 'notifications/message',
        params: { level: 'error', data: 'error' },
      },
    ]);
    expect(text(done)).toBe('test');
    const call = await legacy.saw('tools/call');
    expect(call.body.params._meta.progressToken).not.toBe('mine');
    expect(legacy.methods()).toContain('logging/setLevel');
  });

  // Rule responses-1 (streamable-http, "Sending Messages" 6): The response is JSON if the outcome comes within 5 s
  // and before any notification, otherwise an event stream.
  test('that asked for neither gets one JSON object', async () => {
    const { url } = await legacyGateway({
      tools: {
        busy: async ({ extra }) => {
          const progressToken = extra._meta?.progressToken ?? 'none';
          await extra.sendNotification({
            method: 'notifications/progress',
            params: { progressToken, progress: 1 },
          });
          await extra.sendNotification({
            method: 'notifications/message',
            params: { level: 'error', data: 'x' },
          });
          return 'done';
        },
      },
    });
    const done = await callTool(url, 'busy');
    expect(done.streamed).toBe(false);
    expect(text(done)).toBe('done');
  });

  // Rule responses-3 (streamable-http, "Receiving Messages"): Event streams have `Cache-Control: no-cache,
  // no-transform` and `X-Accel-Buffering: no`, and a comment every 15 s.
  // Rule responses-1.
  test('gets a stream with keep-alive comments when the outcome takes its time', async () => {
    const clock = new ManualClock();
    const [began, finished] = [Promise.withResolvers<void>(), Promise.withResolvers<string>()];
    const long = () => {
      began.resolve();
      return finished.promise;
    };
    const { url } = await legacyGateway({ tools: { long } }, { clock });
    const call = callTool(url, 'long');
    await began.promise;
    clock.advance(5_000);
    clock.advance(30_000);
    finished.resolve('at last');
    const done = await call;
    expect(done.streamed).toBe(true);
    expect(done.headers.get('cache-control')).toContain('no-cache');
    expect(done.comments).toBe(2);
    expect(text(done)).toBe('at last');
  });

  // Rule validation-4.
  test('that takes JSON only gets JSON, however long it takes', async () => {
    const { url } = await legacyGateway({
      tools: {
        busy: async ({ extra }) => {
          await extra.sendNotification({
            method: 'notifications/progress',
            params: { progressToken: extra._meta?.progressToken ?? 0, progress: 1 },
          });
          return 'done';
        },
      },
    });
    const done = await callTool(
      url,
      'busy',
      {},
      { meta: { progressToken: 1 }, headers: { accept: 'application/json' } },
    );
    expect(done.streamed).toBe(false);
    expect(text(done)).toBe('done');
  });
});
