/** Each limit on what clients can use: as much as it says passes, one more is refused and counted, and what was taken comes back. */
import { describe, expect, test } from 'vitest';
import {
  callTool,
  modernBody,
  modernHeaders,
  send,
  type Exchanged,
  type SendOptions,
} from '../../../fixtures/clients/modern-client.ts';
import { ListeningClient } from '../../../fixtures/clients/listening-client.ts';
import {
  startTestGateway,
  type GatewayOverrides,
  type TestGateway,
} from '../../../fixtures/gateways/gateway.ts';
import { answersOf, legacyServer } from '../../../fixtures/gateways/replica-testbed.ts';
import { askName } from '../../../fixtures/servers/legacy-server.ts';
import { stopAfterTest } from '../../../fixtures/stop-after-test.ts';

async function start(overrides: GatewayOverrides): Promise<TestGateway> {
  const slow = () => new Promise<string>((resolve) => stopAfterTest(async () => resolve('done')));
  const legacy = await legacyServer({
    tools: {
      slow,
      ask: async (call) => `Hello ${await askName(call)}`,
      'ask-thrice': async (call) => {
        for (let times = 0; times < 3; times += 1) await askName(call);
        return 'done';
      },
    },
  });
  const gateway = await startTestGateway(legacy.url, { admin: true, ...overrides });
  stopAfterTest(() => gateway.close());
  return gateway;
}

const by = (caller: string | null, signal?: AbortSignal): SendOptions => ({
  ...(caller !== null && { headers: { authorization: `Bearer ${caller}` } }),
  ...(signal && { signal }),
});
/** Callers who cannot be told apart, or each another one. */
const [nobody, one, each] = [() => null, () => 'Ada', (index: number) => `caller-${index}`];

interface Bound {
  /** Default: the limit. */
  readonly title?: string;
  readonly limit: string;
  readonly overrides: GatewayOverrides;
  readonly tool: 'ask' | 'slow';
  readonly caller: (index: number) => string | null;
  readonly reason: string;
}

const BOUNDS: readonly Bound[] = [
  {
    limit: 'limits.maxRunningCalls',
    overrides: { limits: { maxRunningCalls: 3 } },
    tool: 'slow',
    caller: each,
    reason: 'overloaded',
  },
  {
    limit: 'limits.maxParkedCalls',
    overrides: { limits: { maxParkedCalls: 3 } },
    tool: 'ask',
    caller: each,
    reason: 'too_many_parked_calls',
  },
  {
    limit: 'limits.maxParkedCallsPerPrincipal',
    overrides: { limits: { maxParkedCallsPerPrincipal: 3 } },
    tool: 'ask',
    caller: one,
    reason: 'too_many_parked_calls',
  },
  {
    limit: 'limits.maxParkedCalls',
    title: 'half of limits.maxParkedCalls for anonymous callers',
    overrides: {
      limits: { maxParkedCalls: 6 },
      // Nobody here is the user of this machine.
      edge: { trustedProxies: ['10.0.0.1'] },
    },
    tool: 'ask',
    caller: nobody,
    reason: 'too_many_parked_calls',
  },
  {
    limit: 'limits.tools.maxRunning',
    overrides: {
      routeLimits: { tools: { slow: { rate: null, ratePerPrincipal: null, maxRunning: 3 } } },
    },
    tool: 'slow',
    caller: each,
    reason: 'tool_busy',
  },
  {
    limit: 'sessions.max',
    overrides: { sessions: { max: 3, queue: { waitMs: 0 } } },
    tool: 'ask',
    caller: each,
    reason: 'upstream_busy',
  },
];

/** Where the engineer on call finds which limit it is. */
const LINES = ['request.limited', 'call.parking_limit', 'upstream.failed'] as const;

// Rule time-and-room-11: A limit that is reached is logged by its key, at most once a minute, and counted in
// `mrtr_gateway_failures_total`.
describe.each(BOUNDS.map((bound) => ({ title: bound.limit, ...bound })))(
  '$title',
  ({ limit, overrides, tool, caller, reason }) => {
    test('lets as much through as it says', async () => {
      const gateway = await start(overrides);
      const { url } = gateway;
      const leaving = new AbortController();
      const begun = [1, 2, 3].map((index) => {
        const call = callTool(
          url,
          tool,
          {},
          by(caller(index), index === 1 ? leaving.signal : undefined),
        );
        call.catch(() => {});
        return call;
      });
      if (tool === 'slow') await gateway.log.saw('call.started', 3);
      const asked = tool === 'ask' ? await Promise.all(begun) : [];
      for (const { response } of asked) expect(response.result.resultType).toBe('input_required');
      const refused = await callTool(url, tool, {}, by(caller(4)));
      expect(refused.status).toBe(200);
      expect(refused.response.error).toMatchObject({ code: -32603, data: { reason } });
      expect(await failures(gateway, reason)).toBe(1);
      expect(JSON.stringify(LINES.flatMap((name) => gateway.log.named(name)))).toContain(limit);
      const [first] = asked;
      if (first === undefined) leaving.abort();
      else await callTool(url, tool, answersOf(first, 'Ada'), by(caller(1)));
      const ended = new AbortController();
      const started = tool === 'slow' ? gateway.log.saw('call.started', 4) : new Promise(() => {});
      for (let isOver = false; !isOver;) {
        const next = callTool(url, tool, {}, by(caller(5), ended.signal));
        const reply = await Promise.race([next, started]);
        isOver = reply === undefined || (reply as Exchanged).response.result !== undefined;
        next.catch(() => {});
      }
      ended.abort();
    });
  },
);

async function failures({ adminUrl }: TestGateway, reason: string): Promise<number> {
  const metrics = await (await fetch(`${adminUrl}/metrics`)).text();
  const line = new RegExp(
    `^mrtr_gateway_failures_total\\{route="mcp",reason="${reason}"\\} (\\d+)`,
    'm',
  );
  return Number(line.exec(metrics)?.[1] ?? 0);
}

const nested = (depth: number): unknown => (depth === 0 ? 1 : [nested(depth - 1)]);

/** Posts a call with the arguments and headers. @returns the status, and the code of the error */
async function post({ url }: TestGateway, text: string, headers = {}) {
  const response = await fetch(url, {
    method: 'POST',
    headers: { ...modernHeaders('tools/call', { name: 'none' }), ...headers },
    body: text,
  });
  const { error } = (await response.json()) as { error?: { code: number } };
  return [response.status, error?.code];
}

// Rule time-and-room-11.
describe('the size of a request', () => {
  const body = (args: object) =>
    JSON.stringify(modernBody('tools/call', { name: 'none', arguments: args }));

  test('limits.maxBody', async () => {
    const gateway = await start({ limits: { maxBodyBytes: 2_048 } });
    const room = 2_048 - body({ text: '' }).length;
    const of = (length: number) => body({ text: 'x'.repeat(length) });
    const padded = (length: number) => of(room + length - (of(room).length - 2_048));
    expect(await post(gateway, padded(0))).toEqual([200, expect.anything()]);
    expect(await post(gateway, padded(1))).toEqual([413, -32600]);
  });

  test('64 levels of JSON', async () => {
    const gateway = await start({});
    // The request, its parameters and the arguments are three levels.
    expect((await post(gateway, body({ deep: nested(61) })))[0]).toBe(200);
    expect(await post(gateway, body({ deep: nested(62) }))).toEqual([400, -32600]);
  });

  test('headers of 16 KiB', async () => {
    const gateway = await start({});
    expect((await post(gateway, body({}), { 'x-long': 'x'.repeat(8_000) }))[0]).toBe(200);
    expect(await post(gateway, body({}), { 'x-long': 'x'.repeat(16_384) })).toEqual([431, -32600]);
  });
});

// Rule time-and-room-11.
test('parking.maxRounds', async () => {
  const gateway = await start({ parking: { maxRounds: 2 } });
  let asked = await callTool(gateway.url, 'ask-thrice');
  asked = await callTool(gateway.url, 'ask-thrice', answersOf(asked, 'Ada'));
  expect(asked.response.result.resultType).toBe('input_required');
  const refused = await callTool(gateway.url, 'ask-thrice', answersOf(asked, 'Ada'));
  expect(refused.response.error.data.reason).toBe('too_many_rounds');
  expect(await failures(gateway, 'too_many_rounds')).toBe(1);
});

// Rule time-and-room-11.
test('a hundred listeners of one principal', async () => {
  const gateway = await start({});
  const listeners = await Promise.all(
    Array.from({ length: 100 }, () =>
      ListeningClient.open(gateway.url, { toolsListChanged: true }, by('Ada')),
    ),
  );
  const filter = { notifications: { toolsListChanged: true } };
  const refused = await send(gateway.url, 'subscriptions/listen', filter, by('Ada'));
  expect(refused.response.error.data.reason).toBe('too_many_listeners');
  expect(await failures(gateway, 'too_many_listeners')).toBe(1);
  await Promise.all(listeners.map((listener) => listener.leave()));
});
