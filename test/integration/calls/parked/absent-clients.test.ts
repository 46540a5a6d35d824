/** What becomes of a call while its client is disconnected, and how long its server waits. */
import { ListRootsResultSchema } from '@modelcontextprotocol/sdk/types.js';
import { describe, expect, test } from 'vitest';
import type { ToolCall } from '../../../fixtures/servers/legacy/tools.ts';
import { askName } from '../../../fixtures/servers/legacy-server.ts';
import { eventStream, URL_NEEDED } from '../../../fixtures/servers/scripted-server.ts';
import { scriptedGateway } from '../../../fixtures/gateways/scripted-gateway.ts';
import { question } from '../../../fixtures/wire/asked-calls.ts';
import { advanceUntil, ManualClock } from '../../../fixtures/manual-clock.ts';
import { accept, callTool, send } from '../../../fixtures/clients/modern-client.ts';
import {
  INVALID_STATE,
  greet,
  greetDeaf,
  legacyGateway,
  text,
} from '../../../fixtures/gateways/legacy-gateway.ts';

describe('while nobody is connected', () => {
  // Rule settled-1: If the server ends a call before its answers, the client gets the outcome. A disconnected one
  // gets it with its retry, for `parking.ttl`.
  test('what the server settles by itself is kept for the retry', async () => {
    const { url, legacy, gateway } = await legacyGateway({
      tools: {
        impatient: async (call) => {
          const patience = AbortSignal.timeout(150);
          return Promise.race([
            askName(call),
            new Promise<string>((resolve) => {
              patience.addEventListener('abort', () => resolve('went on without you'));
            }),
          ]);
        },
      },
    });
    const asked = await callTool(url, 'impatient');
    await gateway.log.saw('call.result_ready');
    // Nothing waits for its question in the session, which other calls go on to use.
    expect((await legacy.saw('response')).body.result).toEqual({ action: 'cancel' });
    const done = await callTool(url, 'impatient', {
      requestState: asked.response.result.requestState,
      inputResponses: { 'elicitation-1': accept({ name: 'late' }) },
    });
    expect(text(done)).toBe('went on without you');
  });

  // Rule settled-1.
  test.each([
    ['a result', { result: { content: [] } }],
    ['an error', { error: { code: -32603, message: 'gave up' } }],
    ['URLs to visit', { error: URL_NEEDED }],
  ])(
    'all that a call has asked is closed out at a server that ends it with %s',
    async (_what, end) => {
      let finish = () => {};
      const { url, server } = await scriptedGateway(({ body }, response) => {
        const stream = eventStream(response);
        for (const name of ['one', 'two']) stream.send(question(name));
        finish = () => stream.send({ jsonrpc: '2.0', id: body.id, ...end });
      });
      const asked = await callTool(url, 'greet');
      expect(Object.keys(asked.response.result.inputRequests)).toHaveLength(2);
      finish();
      for (const id of ['one', 'two']) {
        const { body } = await server.saw((received) => received.body?.id === id);
        expect(body.result).toEqual({ action: 'cancel' });
      }
      const closedOut = server.methods().filter((method) => method === 'response');
      expect(closedOut).toHaveLength(2);
    },
  );

  // Rule time-and-room-1 (MRTR, "Server Requirements" 5 and 8): A round waits for `parking.ttl` (10 min by default),
  // and a call for `parking.callTtl` (1 h). Then the server is told to stop, and a retry is refused.
  test('a round that is not answered in time is closed out and cancelled upstream', async () => {
    const clock = new ManualClock();
    const overrides = { clock, parking: { ttlMs: 60_000 } };
    const { url, legacy, gateway } = await legacyGateway({ tools: greetDeaf }, overrides);
    const asking = callTool(url, 'greet');
    await legacy.saw('tools/call');
    const asked = await advanceUntil(clock, asking);
    clock.advance(61_000);
    const answer = await legacy.saw('response');
    expect(answer.body.result).toEqual({ action: 'cancel' });
    const late = await callTool(url, 'greet', {
      requestState: asked.response.result.requestState,
      inputResponses: { 'elicitation-1': accept({ name: 'late' }) },
    });
    expect(late.response.error).toEqual(INVALID_STATE);
    expect(gateway.log.named('pointer.refused')).toMatchObject([{ reason: 'expired' }]);
  });

  // Rule keep-alive-1 (2025-11-25 ping, "Usage Patterns"): A session with a parked call gets a `ping` every
  // `upstream.pingInterval` (60 s by default), at most 32 at a time for a server.
  // Rule keep-alive-2.
  test('a human may take six minutes: the session is pinged and the answer still arrives', async () => {
    const clock = new ManualClock();
    const { url, legacy } = await legacyGateway({ tools: greet }, { clock });
    const asked = await advanceUntil(clock, callTool(url, 'greet'));
    for (let minute = 1; minute <= 6; minute += 1) {
      clock.advance(60_000);
      await legacy.saw('ping', minute);
      // The reply to the ping comes before this one.
      await send(url, 'tools/list');
    }
    const done = await callTool(url, 'greet', {
      requestState: asked.response.result.requestState,
      inputResponses: { 'elicitation-1': accept({ name: 'Ada' }) },
    });
    expect(text(done)).toBe('Hello Ada');
  });
});

describe('a server with a short timeout', () => {
  const patient = (timeout: number) => ({
    greet: async ({ extra }: ToolCall) => {
      const asked = await extra.sendRequest(
        { method: 'roots/list' },
        ListRootsResultSchema,
        // Asking for progress is what makes the SDK send a progress token.
        { timeout, resetTimeoutOnProgress: true, onprogress: () => {} },
      );
      return String(asked.roots[0]?.uri);
    },
  });

  // Rule keep-alive-4 (2025-11-25 lifecycle, "Timeouts"): A server that gave its question a progress token gets
  // progress every 15 s until the answer.
  test('that restarts its timeout with each progress gets progress every 15 seconds while a user thinks', async () => {
    const clock = new ManualClock();
    const { url, legacy } = await legacyGateway({ tools: patient(600_000) }, { clock });
    const asked = await advanceUntil(clock, callTool(url, 'greet'));
    for (let time = 1; time <= 5; time += 1) {
      clock.advance(15_000);
      const told = await legacy.saw('notifications/progress', time);
      expect(told.body.params.progress, 'progress grows').toBe(time);
    }
    const done = await callTool(url, 'greet', {
      requestState: asked.response.result.requestState,
      inputResponses: { 'roots-1': { roots: [{ uri: 'file:///home' }] } },
    });
    expect(text(done)).toBe('file:///home');
    clock.advance(60_000);
    // Progress that was sent would have come before this.
    await send(url, 'tools/list');
    expect(legacy.methods().filter((name) => name === 'notifications/progress')).toHaveLength(5);
  });
});
