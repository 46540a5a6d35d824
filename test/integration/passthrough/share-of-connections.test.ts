/** How many of the connections one caller can hold with responses that are passed through. */
import { once } from 'node:events';
import type { ClientRequest, IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { callTool } from '../../fixtures/clients/modern-client.ts';
import { refusals } from '../../fixtures/gateways/limited-gateway.ts';
import { testGateway } from '../../fixtures/gateways/test-gateway.ts';
import { answerOf, HELD, hold, streamingServer } from '../../fixtures/passthrough/held-streams.ts';
import { bearer } from '../../fixtures/servers/authorization-server.ts';
import { done } from '../../fixtures/wire/asked-calls.ts';

const CONNECTIONS = 8;

// Rule admission-10: Passed-through responses to one caller take at most half of `limits.maxConnections`. A request
// beyond that gets 429 with `Retry-After`.
test.each([
  ['of its endpoint', 'GET', '/mcp'],
  ['of another path', 'GET', '/feed'],
  ['of calls that go on', 'POST', '/mcp'],
])(
  'a caller that opens all streams that it can, %s, leaves connections for another one',
  async (_which, method, path) => {
    const server = await streamingServer();
    const limits = { maxConnections: CONNECTIONS };
    const gateway = await testGateway(server.url, { limits, admin: true });
    const { url } = gateway;
    const held: ClientRequest[] = [];
    const refused: IncomingMessage[] = [];
    for (let opened = 0; opened < CONNECTIONS; opened += 1) {
      const sent = hold(url, method, path, 'token-of-alice');
      const answer = await answerOf(sent);
      if (answer.statusCode === 200) held.push(sent);
      else refused.push(answer);
    }
    const call = await callTool(url, 'any', {}, bearer('token-of-bob'));
    expect(call.response.result).toMatchObject(done(1).result);
    expect(held).toHaveLength(CONNECTIONS / 2);
    for (const answer of refused) {
      expect(answer).toMatchObject({
        statusCode: 429,
        headers: { 'retry-after': '1', connection: 'close' },
      });
      const { id, error } = JSON.parse(await text(answer)) as { id?: number; error: object };
      expect(id).toBe(method === 'POST' ? HELD.id : undefined);
      const data = { reason: 'rate_limited', limit: 'limits.maxConnections', mayHaveActed: 'no' };
      expect(error).toMatchObject({ code: -32603, data });
    }
    expect(await refusals(gateway)).toEqual([`limits.maxConnections ${CONNECTIONS / 2}`]);
    // A stream that ends makes room.
    const over = once(server.streams[0]!, 'close');
    held[0]?.destroy();
    await over;
    const next = await answerOf(hold(url, method, path, 'token-of-alice'));
    expect(next.statusCode).toBe(200);
  },
);
