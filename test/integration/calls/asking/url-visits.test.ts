/** Error -32042 of a server of the official SDK: its URLs are visited first, and the call is made again. */
import { describe, expect, test } from 'vitest';
import { hurriedClock } from '../../../fixtures/hurried-clock.ts';
import type { Tool, ToolCall } from '../../../fixtures/servers/legacy/tools.ts';
import { callTool } from '../../../fixtures/clients/modern-client.ts';
import { legacyGateway, text } from '../../../fixtures/gateways/legacy-gateway.ts';

describe('error -32042', () => {
  /** A tool that fails until its URL was visited. */
  function payment() {
    const paid = { yet: false };
    const elicitation = {
      mode: 'url',
      message: 'Pay',
      url: 'https://pay.example/1',
      elicitationId: 'e1',
    };
    const pay: Tool = async () => {
      if (paid.yet) return 'paid';
      throw Object.assign(new Error('visit first'), {
        code: -32042,
        data: { elicitations: [elicitation] },
      });
    };
    return { paid, tools: { pay } };
  }

  // Rule url-errors-1 (2025-11-25 elicitation, "URL Elicitation Required Error"): The URLs are shown as questions.
  // When all are accepted, the request is sent again in the same session.
  test('becomes URL input, and the call is made again when the server knows of the visit', async () => {
    const { paid, tools } = payment();
    const servers: ToolCall['server'][] = [];
    const pay: Tool = (call) => {
      servers.push(call.server);
      return tools.pay(call);
    };
    const { url, legacy } = await legacyGateway({ tools: { pay } });
    const asked = await callTool(url, 'pay');
    expect(asked.response.result.inputRequests).toEqual({
      'elicitation-1': {
        method: 'elicitation/create',
        params: { mode: 'url', message: 'Pay', url: 'https://pay.example/1' },
      },
    });
    paid.yet = true;
    const method = 'notifications/elicitation/complete';
    await servers[0]?.notification({ method, params: { elicitationId: 'e1' } });
    const { requestState } = asked.response.result;
    const retry = { requestState, inputResponses: { 'elicitation-1': { action: 'accept' } } };
    expect(text(await callTool(url, 'pay', retry))).toBe('paid');
    const [first, again] = [await legacy.saw('tools/call'), await legacy.saw('tools/call', 2)];
    expect(again.session).toBe(first.session);
  });

  // Rule envelope-6 (authorization, "Token Requirements"): Credentials are those of the current request: a retry with
  // a fresh token sends that one.
  // Rule url-errors-1.
  test('makes the call again with the credentials of the retry', async () => {
    const { paid, tools } = payment();
    const tokens: unknown[] = [];
    const pay: Tool = (call) => {
      tokens.push(call.extra.requestInfo?.headers['authorization']);
      return tools.pay(call);
    };
    const identity = { source: 'header', header: 'x-user' } as const;
    const options = { identity, clock: hurriedClock(50) };
    const { url } = await legacyGateway({ tools: { pay } }, options);
    const as = (token: string) => ({
      headers: { 'x-user': 'ada', authorization: `Bearer ${token}` },
    });
    const asked = await callTool(url, 'pay', {}, as('first'));
    paid.yet = true;
    const { requestState } = asked.response.result;
    const retry = { requestState, inputResponses: { 'elicitation-1': { action: 'accept' } } };
    expect(text(await callTool(url, 'pay', retry, as('refreshed')))).toBe('paid');
    expect(tokens).toEqual(['Bearer first', 'Bearer refreshed']);
  });

  // Rule url-errors-2.
  test('is tried again after a while when the server says nothing of the visit', async () => {
    const { paid, tools } = payment();
    const { url } = await legacyGateway({ tools }, { clock: hurriedClock(50) });
    const asked = await callTool(url, 'pay');
    paid.yet = true;
    const { requestState } = asked.response.result;
    const retry = { requestState, inputResponses: { 'elicitation-1': { action: 'accept' } } };
    expect(text(await callTool(url, 'pay', retry))).toBe('paid');
  });

  // Rule url-errors-4 (tools, "Error Handling"): A declined or cancelled URL ends the call: a tool with `isError`,
  // others with -32603 and `data.reason` `elicitation_declined`.
  test('that the user declines ends the call as a failed tool', async () => {
    const { url, legacy } = await legacyGateway({ tools: payment().tools });
    const asked = await callTool(url, 'pay');
    const done = await callTool(url, 'pay', {
      requestState: asked.response.result.requestState,
      inputResponses: { 'elicitation-1': { action: 'decline' } },
    });
    expect(done.response.result).toMatchObject({ resultType: 'complete', isError: true });
    expect(legacy.methods().filter((method) => method === 'tools/call')).toHaveLength(1);
  });

  // Rule url-errors-5 (basic, "Error Codes"): A client without URL mode gets 400, -32021 that names the capability.
  test('without the URL capability names the capability', async () => {
    const { url } = await legacyGateway({ tools: payment().tools });
    const failed = await callTool(url, 'pay', {}, { capabilities: { elicitation: {} } });
    expect(failed.status).toBe(400);
    expect(failed.response.error).toMatchObject({
      code: -32021,
      data: { requiredCapabilities: { elicitation: { url: {} } } },
    });
  });
});
