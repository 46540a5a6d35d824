/** How long the HTTP client itself waits for a legacy server: for what may wait for a human, without end. */
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { eventStream, json, legacyServer } from '../../fixtures/servers/scripted-server.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';
import { call, open, reply, upstreamOf } from '../../fixtures/servers/upstream-testbed.ts';

const HOUR_MS = 3_600_000;
/** Our own clock stands still, so that nothing but HTTP can run out of time. */
const upstream = (server: Parameters<typeof upstreamOf>[0]) =>
  upstreamOf(server, { transport: 'streamable-http', headersTimeoutMs: 2_000 }, new ManualClock());

// Before the first connection, since the HTTP client keeps its timer for as long as it lives.
beforeAll(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
});
afterAll(() => {
  vi.useRealTimers();
});

// Rule limits-6: The head of the response to a call has no timeout: `calls.maxDuration` and `parking.callTtl` limit
// the call.
test('the head of the response to a call may come as late as its result', async () => {
  let answer = () => {};
  const server = await legacyServer(({ body }, response) => {
    answer = () => json(response, 200, reply(body.id));
  });
  const { heard } = call(await open(upstream(server)));
  await server.saw(({ body }) => body?.method === 'tools/call');
  await vi.advanceTimersByTimeAsync(HOUR_MS);
  answer();
  expect(await heard.until('replied')).toMatchObject(['replied', { result: {} }]);
});

// Rule limits-6.
test('a stream may be silent while a human thinks', async () => {
  let finish = () => {};
  const server = await legacyServer(({ body }, response) => {
    const stream = eventStream(response);
    stream.send({ jsonrpc: '2.0', id: 'q', method: 'roots/list' });
    finish = () => stream.send(reply(body.id));
  });
  const { heard } = call(await open(upstream(server)));
  await heard.until('asked');
  await vi.advanceTimersByTimeAsync(HOUR_MS);
  finish();
  expect(await heard.until('replied')).toMatchObject(['replied', { result: {} }]);
});
