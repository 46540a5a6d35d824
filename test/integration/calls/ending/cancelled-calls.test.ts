/**
 * A call that the gateway ends while the server waits for an answer: the server is told to stop first,
 * so that no tool acts on an answer that nobody gave.
 */
import { ElicitResultSchema } from '@modelcontextprotocol/sdk/types.js';
import { describe, expect, test } from 'vitest';
import type { GatewayOverrides } from '../../../fixtures/gateways/gateway.ts';
import { gatewayBefore } from '../../../fixtures/gateways/test-gateway.ts';
import type { ToolCall } from '../../../fixtures/servers/legacy/tools.ts';
import { LegacyServer, type LegacyServerOptions } from '../../../fixtures/servers/legacy-server.ts';
import { hurriedClock } from '../../../fixtures/hurried-clock.ts';
import { advanceUntil, ManualClock } from '../../../fixtures/manual-clock.ts';
import { callTool, send, type Exchanged } from '../../../fixtures/clients/modern-client.ts';
import { eventStream, json } from '../../../fixtures/servers/scripted-server.ts';
import { scriptedGateway } from '../../../fixtures/gateways/scripted-gateway.ts';

/** Asks for a form, without any thought for its own cancellation. */
async function ask({ extra }: ToolCall, signal?: AbortSignal): Promise<string> {
  const requestedSchema = { type: 'object', properties: { name: { type: 'string' } } } as const;
  const params = { mode: 'form', message: 'Your name?', requestedSchema } as const;
  const options = { timeout: 600_000, ...(signal === undefined ? {} : { signal }) };
  const request = { method: 'elicitation/create', params } as const;
  const { action } = await extra.sendRequest(request, ElicitResultSchema, options);
  return action;
}

/** Tools that act after they asked, whatever came of that; the SDK tells them when they are cancelled. */
function actors() {
  const effects: string[] = [];
  const heard: string[] = [];
  const act = ({ extra }: ToolCall, effect: string) => {
    heard.push(effect);
    extra.signal.throwIfAborted();
    effects.push(effect);
    return effect;
  };
  const tools: LegacyServerOptions['tools'] = {
    'acts on any answer': async (call) => act(call, await ask(call)),
    'goes on without an answer': async (call) =>
      act(call, await ask(call, call.extra.signal).catch(() => 'without')),
  };
  return { tools, effects, heard };
}

type Transport = NonNullable<LegacyServerOptions['transport']>;

async function start(transport: Transport, overrides: GatewayOverrides) {
  const { tools, effects, heard } = actors();
  const legacy = await LegacyServer.start({ tools, transport });
  const { gateway } = await gatewayBefore(legacy, {
    transport,
    // On a busy machine the server has to take a cancellation within the grace of 2 s by this clock.
    clock: hurriedClock(4),
    ...overrides,
  });
  return { gateway, legacy, effects, heard, url: gateway.url };
}

/** More than the server is given to end a call that was cancelled. */
const GRACE_MS = 10_000;

const reasonOf = ({ response }: Exchanged) => response.error?.data?.reason;

/** What each of them comes to hear: the answer that stands for none, or the end of its request. */
const came: Readonly<Record<string, string>> = {
  'acts on any answer': 'cancel',
  'goes on without an answer': 'without',
};

const CASES = (['streamable-http', 'http-sse'] as const).flatMap((transport) =>
  ['acts on any answer', 'goes on without an answer'].map((tool) => ({ transport, tool })),
);

describe.each(CASES)('over $transport a tool that $tool does not act', ({ transport, tool }) => {
  // Rule closing-2 (cancellation, "Behavior Requirements"): No tool acts on an answer that no user gave, if its SDK
  // observes cancellation.
  test('when the time of its question is over', async () => {
    const { gateway, legacy, effects, heard, url } = await start(transport, {
      parking: { ttlMs: 500 },
    });
    expect((await callTool(url, tool)).response.result.resultType).toBe('input_required');
    await legacy.saw('notifications/cancelled');
    await gateway.log.saw('call.ended');
    expect(heard).toEqual([came[tool]]);
    expect(effects).toEqual([]);
  });

  // Rule closing-2.
  test('when there is no room to park its call', async () => {
    const { gateway, legacy, effects, heard, url } = await start(transport, {
      limits: { maxParkedCallsPerPrincipal: 1 },
      // In one session over HTTP+SSE the second question would wait until it is certain whose it is.
      sessions: { concurrency: 'separate' },
    });
    await callTool(url, tool);
    expect(reasonOf(await callTool(url, tool))).toBe('too_many_parked_calls');
    await legacy.saw('notifications/cancelled');
    await gateway.log.saw('call.ended');
    expect(heard).toEqual([came[tool]]);
    expect(effects).toEqual([]);
  });

  // Rule closing-2.
  test('when the gateway drains', async () => {
    const { gateway, legacy, effects, heard, url } = await start(transport, {});
    await callTool(url, tool);
    await gateway.drain();
    await legacy.isLeft();
    expect(legacy.methods()).toContain('notifications/cancelled');
    expect(heard).toEqual([came[tool]]);
    expect(effects).toEqual([]);
  });
});

const question = {
  jsonrpc: '2.0',
  id: 'form',
  method: 'elicitation/create',
  params: { mode: 'form', message: 'Name?', requestedSchema: { type: 'object', properties: {} } },
};

// Rule closing-3 (cancellation, "Behavior Requirements"): A session whose server does not accept the cancellation, or
// does not end the call within 2 s, is not used again.
test('a server that takes its question back because of the cancellation is not answered', async () => {
  const clock = new ManualClock();
  const mayTake = Promise.withResolvers<void>();
  let withdraw = () => {};
  const { url, server, gateway } = await scriptedGateway(
    ({ body }, response) => {
      const { id, params, method } = body;
      if (params.name !== 'ask') {
        const result = method === 'tools/list' ? { tools: [] } : {};
        return json(response, 200, { jsonrpc: '2.0', id, result });
      }
      const stream = eventStream(response);
      stream.send(question);
      const withdrawn = { method: 'notifications/cancelled', params: { requestId: 'form' } };
      withdraw = () => stream.send({ jsonrpc: '2.0', ...withdrawn });
    },
    { clock, sessions: { scope: 'shared' }, parking: { ttlMs: 60_000 } },
    {
      onNotification: async ({ body }, response) => {
        if (body.method === 'notifications/cancelled') await mayTake.promise;
        response.writeHead(202).end();
      },
    },
  );
  await advanceUntil(clock, callTool(url, 'ask'));
  clock.advance(60_000);
  await server.saw(({ body }) => body?.method === 'notifications/cancelled');
  withdraw();
  // Time enough for what was said on the stream to arrive: it is on the same wire.
  await send(url, 'tools/list');
  mayTake.resolve();
  await advanceUntil(clock, gateway.log.saw('call.ended'), GRACE_MS);
  await gateway.close();
  expect(server.methods()).not.toContain('response');
});

describe('a server that does not take the cancellation', () => {
  // Rule closing-3.
  test.each([
    ['says nothing to it', null],
    ['refuses it', 500],
  ] as const)('and %s is not answered, and its session is not kept', async (_, status) => {
    const clock = new ManualClock();
    const { url, server, gateway } = await scriptedGateway(
      ({ body }, response) => {
        if (body.params.name === 'ask') eventStream(response).send(question);
        else json(response, 200, { jsonrpc: '2.0', id: body.id, result: { content: [] } });
      },
      { clock, sessions: { scope: 'shared' }, parking: { ttlMs: 60_000 } },
      {
        onNotification: ({ body }, response) => {
          if (body.method !== 'notifications/cancelled') response.writeHead(202).end();
          else if (status !== null) response.writeHead(status).end();
        },
      },
    );
    const asking = callTool(url, 'ask');
    await server.saw(({ body }) => body?.params?.name === 'ask');
    await advanceUntil(clock, asking);
    clock.advance(60_000);
    await server.saw(({ body }) => body?.method === 'notifications/cancelled');
    await advanceUntil(clock, gateway.log.saw('call.ended'), GRACE_MS);
    await server.saw(({ method }) => method === 'DELETE');
    await callTool(url, 'plain');
    expect(server.methods()).not.toContain('response');
    expect(gateway.log.named('session.opened')).toHaveLength(2);
  });
});
