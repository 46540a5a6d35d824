/** The session upstream of a call: replaced if the server forgot it, and closed when the call ends. */
import { describe, expect, test } from 'vitest';
import { turnsUntil } from '../../../fixtures/manual-clock.ts';
import { accept, callTool } from '../../../fixtures/clients/modern-client.ts';
import { greet, legacyGateway, text } from '../../../fixtures/gateways/legacy-gateway.ts';

describe('sessions', () => {
  // Rule expired-3 (2025-11-25 transports, "Session Management"): A new request that is refused so is sent once more
  // in a new session. Then it fails with `upstream_session_lost`.
  test('that the server forgot are replaced, and the call is made once', async () => {
    let runs = 0;
    const { url, legacy } = await legacyGateway(
      { tools: { once: async () => `run ${(runs += 1)}` } },
      { sessions: { scope: 'shared' } },
    );
    expect(text(await callTool(url, 'once'))).toBe('run 1');
    await legacy.forget();
    expect(text(await callTool(url, 'once'))).toBe('run 2');
    expect(runs).toBe(2);
  });

  // Rule expired-4.
  test('of a parked call that the server forgot make the retry tell that the call is lost', async () => {
    const { url, legacy } = await legacyGateway({ tools: greet });
    const asked = await callTool(url, 'greet');
    await legacy.forget();
    const lost = await callTool(url, 'greet', {
      requestState: asked.response.result.requestState,
      inputResponses: { 'elicitation-1': accept({ name: 'Ada' }) },
    });
    expect(lost.response.result).toMatchObject({
      isError: true,
      _meta: { 'mrtr-gateway/reason': 'call_lost', 'mrtr-gateway/mayHaveActed': 'yes' },
    });
  });

  // Rule laws-2: A finished call releases its sessions, connections and streams, here and at the server.
  // Rule sessions-4.
  test('are closed when the call ends, and nothing is left', async () => {
    const { url, legacy, gateway } = await legacyGateway(
      { tools: greet },
      { sessions: { scope: 'call' } },
    );
    const asked = await callTool(url, 'greet');
    await callTool(url, 'greet', {
      requestState: asked.response.result.requestState,
      inputResponses: { 'elicitation-1': accept({ name: 'Ada' }) },
    });
    await gateway.log.saw('call.ended');
    await turnsUntil(() => legacy.sessions === 0);
    expect(legacy.sessions).toBe(0);
  });
});
