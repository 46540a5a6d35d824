/** A process that has nearly used up its memory: it refuses new calls, and loses none that it has. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { callTool, type Exchanged } from '../fixtures/clients/modern-client.ts';
import { GatewayProcess } from '../fixtures/gateways/gateway-process.ts';
import { answersOf, text } from '../fixtures/gateways/replica-testbed.ts';
import { eventStream, legacyServer } from '../fixtures/servers/scripted-server.ts';
import { stopAfterTest } from '../fixtures/stop-after-test.ts';

const HEAP_MIB = 96;
/** Each question is held until it is answered. */
const QUESTION_BYTES = 200_000;
const AT_ONCE = 10;
const MOST_CALLS = 2_000;

/** A server whose every call asks a long question. */
async function asking() {
  const asked = new Map<string, () => void>();
  const server = await legacyServer(
    ({ body: { id } }, response) => {
      const stream = eventStream(response);
      const question = `q${asked.size}`;
      asked.set(question, () => {
        stream.send({ jsonrpc: '2.0', id, result: { content: [{ type: 'text', text: 'done' }] } });
        stream.end();
      });
      stream.send({
        jsonrpc: '2.0',
        id: question,
        method: 'elicitation/create',
        params: {
          message: `${question} ${'x'.repeat(QUESTION_BYTES)}`,
          requestedSchema: { type: 'object', properties: { name: { type: 'string' } } },
        },
      });
    },
    {
      onResponse: ({ body }, response) => {
        response.writeHead(202).end();
        asked.get(body.id)?.();
      },
    },
  );
  stopAfterTest(() => server.stop());
  return server;
}

// Rule admission-7: A process beyond `limits.maxMemoryPercent` takes fewer calls, but always one. Others get -32603
// with `data.reason` `overloaded`. Retries are served.
test(
  'a flood of calls that ask does not end the process, and none of them is lost',
  { tags: ['long'], timeout: 180_000 },
  async () => {
    const server = await asking();
    const gateway = await GatewayProcess.start({
      upstream: server.url,
      relay: false,
      env: { NODE_OPTIONS: `--max-old-space-size=${HEAP_MIB}` },
      config: {
        limits: { maxParkedCallsPerPrincipal: MOST_CALLS, maxParkedCalls: MOST_CALLS },
        log: { level: 'info', format: 'json' },
      },
    });
    stopAfterTest(() => gateway.kill());
    const many = (call: (index: number) => Promise<Exchanged>) =>
      Promise.all(Array.from({ length: AT_ONCE }, (_, index) => call(index)));

    const parked: Exchanged[] = [];
    const refused: Exchanged[] = [];
    while (refused.length < 5 * AT_ONCE && parked.length < MOST_CALLS) {
      for (const one of await many(() => callTool(gateway.url, 'ask'))) {
        (one.response.result?.resultType === 'input_required' ? parked : refused).push(one);
      }
    }
    for (const { status, response } of refused) {
      expect(status).toBe(200);
      expect(response.error).toMatchObject({
        code: -32603,
        data: { reason: 'overloaded', limit: 'limits.maxMemoryPercent', retryAfterMs: 1_000 },
      });
    }
    expect((await fetch(`${gateway.adminUrl}/healthz`)).status).toBe(200);
    expect(gateway.named('request.limited')[0]).toMatchObject({
      ...{ route: 'mcp', limit: 'limits.maxMemoryPercent', refused: 1 },
    });
    const metric = 'mrtr_gateway_limited_requests_total';
    const labels = '{route="mcp",limit="limits.maxMemoryPercent"}';
    expect(await gateway.metric(`${metric}${labels}`)).toBe(refused.length);

    const total = parked.length;
    while (parked.length > 0) {
      const now = parked.splice(-AT_ONCE);
      const answered = await Promise.all(
        now.map((asked) => callTool(gateway.url, 'ask', answersOf(asked, 'Ada'))),
      );
      expect(answered.map(text)).toEqual(now.map(() => 'done'));
    }
    expect(total).toBeGreaterThan(AT_ONCE);
    const served = async () =>
      (await many(() => callTool(gateway.url, 'ask'))).every(
        ({ response }) => response.result?.resultType === 'input_required',
      );
    while (!(await served())) await sleep(100);
  },
);
