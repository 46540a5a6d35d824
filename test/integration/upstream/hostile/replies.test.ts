/** Servers that ask more than they take replies to. */
import type { ServerResponse } from 'node:http';
import { expect, test } from 'vitest';
import { turnsUntil } from '../../../fixtures/manual-clock.ts';
import { gatewayBefore } from '../../../fixtures/gateways/test-gateway.ts';
import { callTool } from '../../../fixtures/clients/modern-client.ts';
import { eventStream, json, legacyServer } from '../../../fixtures/servers/scripted-server.ts';

const QUESTION = {
  method: 'elicitation/create',
  params: { message: 'Name?', requestedSchema: { type: 'object', properties: {} } },
};

/** A server whose tool "asking" sends one request after the other, and that takes no reply until it is told to. */
async function flood(requests: number, request: object) {
  const held: ServerResponse[] = [];
  const replies: unknown[] = [];
  let isTaking = false;
  let most = 0;
  const take = (response: ServerResponse) => response.writeHead(202).end();
  const server = await legacyServer(
    ({ body }, response) => {
      if (body.params.name === 'asking') {
        const stream = eventStream(response);
        for (let id = 0; id < requests; id += 1) {
          stream.send({ jsonrpc: '2.0', id: `q${id}`, ...request });
        }
      } else json(response, 200, { jsonrpc: '2.0', id: body.id, result: { content: [] } });
    },
    {
      onResponse: ({ body }, response) => {
        replies.push(body.id);
        if (isTaking) return void take(response);
        held.push(response);
        most = Math.max(most, held.length);
      },
    },
  );
  const { gateway } = await gatewayBefore(server, {});
  const takeAll = () => {
    isTaking = true;
    for (const response of held.splice(0)) take(response);
  };
  return { url: gateway.url, replies, takeAll, most: () => most };
}

// Rule limits-9: A session sends at most 64 answers and 32 other replies at a time. 1000 replies wait, and further
// ones are dropped.
test.each([
  ['pings', { method: 'ping' }, 32, 1_032],
  ['requests of an unknown method', { method: 'tools/mow' }, 32, 1_032],
  ['questions that the client cannot be asked', QUESTION, 64, 1_500],
])('of 1500 %s only some are replied to at a time', async (_what, request, limit, inAll) => {
  const field = await flood(1_500, request);
  const leaving = new AbortController();
  const left = callTool(field.url, 'asking', {}, { capabilities: {}, signal: leaving.signal });
  await turnsUntil(() => field.replies.length >= limit);
  expect((await callTool(field.url, 'other')).status).toBe(200);
  expect(field.most()).toBe(limit);
  field.takeAll();
  await turnsUntil(() => field.replies.length >= inAll);
  expect(new Set(field.replies).size).toBe(inAll);
  leaving.abort();
  await expect(left).rejects.toThrow();
});
