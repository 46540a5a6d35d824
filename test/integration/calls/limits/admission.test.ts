/** What keeps requests from the server: rates, tools that are busy, and too much load. */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { answersOf } from '../../../fixtures/gateways/replica-testbed.ts';
import { callTool, send } from '../../../fixtures/clients/modern-client.ts';
import { json } from '../../../fixtures/servers/scripted-server.ts';
import { done, textOf } from '../../../fixtures/wire/asked-calls.ts';
import {
  limitedGateway,
  rate,
  refusals,
  tool,
} from '../../../fixtures/gateways/limited-gateway.ts';

const IDENTITY = { source: 'header', header: 'x-user' } as const;
const by = (user: string) => ({ headers: { 'x-user': user } });

describe('a rate', () => {
  // Rule admission-1: `limits.ratePerPrincipal` limits each caller. Further requests get -32603 with `data.reason`
  // `rate_limited`, `data.limit` and `data.retryAfterMs`.
  // Rule admission-2: These limits refuse no retry of a translated call, and no request about a task.
  test('of one caller holds for new calls and lists, and not for its retries or for others', async () => {
    const { gateway, url, calls } = await limitedGateway({
      identity: IDENTITY,
      routeLimits: { ratePerPrincipal: rate(2) },
    });
    const asked = await callTool(url, 'ask', {}, by('Ada'));
    expect(textOf(await callTool(url, 'plain', {}, by('Ada')))).toBe('done');
    for (const method of ['tools/call', 'tools/list']) {
      const params = method === 'tools/call' ? { name: 'plain', arguments: {} } : {};
      const refused = await send(url, method, params, by('Ada'));
      expect(refused.status).toBe(200);
      expect(refused.response.error).toMatchObject({
        code: -32603,
        data: { reason: 'rate_limited', limit: 'limits.ratePerPrincipal' },
      });
      const { retryAfterMs } = refused.response.error.data;
      expect(retryAfterMs).toBeGreaterThan(0);
      expect(retryAfterMs).toBeLessThanOrEqual(60_000);
    }
    expect(calls()).toBe(2);
    expect(textOf(await callTool(url, 'plain', {}, by('Eve')))).toBe('done');
    expect(textOf(await callTool(url, 'ask', answersOf(asked, 'Ada'), by('Ada')))).toBe('done');
    expect(await refusals(gateway)).toEqual(['limits.ratePerPrincipal 2']);
    // One line for both.
    expect(gateway.log.named('request.limited')).toEqual([
      { route: 'mcp', limit: 'limits.ratePerPrincipal', refused: 1 },
    ]);
  });

  // Rule admission-3: `limits.rate` holds for all callers of the route together, and `limits.tools` for single tools.
  test('of the route holds for all, and who exceeds its own rate takes nothing of it', async () => {
    const { url, calls } = await limitedGateway({
      identity: IDENTITY,
      routeLimits: { rate: rate(3), ratePerPrincipal: rate(1) },
    });
    for (let index = 0; index < 5; index += 1) await callTool(url, 'plain', {}, by('Ada'));
    expect(textOf(await callTool(url, 'plain', {}, by('Bea')))).toBe('done');
    expect(textOf(await callTool(url, 'plain', {}, by('Cid')))).toBe('done');
    const refused = await callTool(url, 'plain', {}, by('Dan'));
    expect(refused.response.error.data).toMatchObject({ limit: 'limits.rate', mayHaveActed: 'no' });
    expect(calls()).toBe(3);
  });

  // Rule admission-3.
  test('of a tool holds for this tool only', async () => {
    const { url, calls } = await limitedGateway({
      routeLimits: { tools: { mail: { ...tool, rate: rate(1) } } },
    });
    await callTool(url, 'mail');
    const refused = await callTool(url, 'mail');
    expect(refused.response.error.data).toMatchObject({ limit: 'limits.tools.rate' });
    expect(textOf(await callTool(url, 'plain'))).toBe('done');
    expect(calls()).toBe(2);
  });
});

// Rule admission-5: Calls beyond `limits.tools.*.maxRunning` get -32603 with `data.reason` `tool_busy`. Parked calls
// do not count.
test('a tool that is busy takes no further call, and every retry', async () => {
  const { url, server, gateway } = await limitedGateway(
    {
      routeLimits: {
        tools: { slow: { ...tool, maxRunning: 1 }, ask: { ...tool, maxRunning: 1 } },
      },
    },
    ({ body }, response) => {
      if (body.params.name !== 'slow') return;
      finish = () => json(response, 200, done(body.id));
    },
  );
  const [first, second] = [await callTool(url, 'ask'), await callTool(url, 'plain')];
  expect(textOf(second)).toBe('done');
  const slow = callTool(url, 'slow');
  await server.saw(({ body }) => body?.params?.name === 'slow');
  const refused = await callTool(url, 'slow');
  expect(refused.response.error.data).toMatchObject({
    reason: 'tool_busy',
    limit: 'limits.tools.maxRunning',
    retryAfterMs: 1_000,
  });
  expect(textOf(await callTool(url, 'ask', answersOf(first, 'Ada')))).toBe('done');
  finish();
  expect(textOf(await slow)).toBe('done');
  const again = callTool(url, 'slow');
  await server.saw(({ body }) => body?.params?.name === 'slow' && server.received.length > 0);
  await until(() => server.methods().filter((name) => name === 'tools/call').length === 4);
  finish();
  expect(textOf(await again)).toBe('done');
  expect(await refusals(gateway)).toEqual(['limits.tools.maxRunning 1']);
});

let finish = () => {};

async function until(isTrue: () => boolean): Promise<void> {
  while (!isTrue()) await sleep(5);
}
