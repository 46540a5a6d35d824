/** How many of the connections one caller can hold with responses that are passed through. */
import { once } from 'node:events';
import { request, type ClientRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { bearer } from '../../fixtures/servers/authorization-server.ts';
import { callTool } from '../../fixtures/clients/modern-client.ts';
import { refusals } from '../../fixtures/gateways/limited-gateway.ts';
import { testGateway } from '../../fixtures/gateways/test-gateway.ts';
import { answerTo, serverOf } from '../../fixtures/passthrough/credentials-testbed.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';
import { done } from '../../fixtures/wire/asked-calls.ts';

const CONNECTIONS = 8;
const HELD = { jsonrpc: '2.0', id: 7, method: 'tools/call', params: { name: 'held' } };

/** A server whose GETs are streams without an end, and so is the response to its tool `held`. */
async function streamingServer() {
  const streams: ServerResponse[] = [];
  const server = await serverOf(({ method, headers }, body, response) => {
    const isHeld = method === 'GET' || body === JSON.stringify(HELD);
    if (isHeld && headers['x-from'] === 'client') {
      streams.push(response);
      response.writeHead(200, { 'content-type': 'text/event-stream' }).write(': open\n\n');
      return;
    }
    if (method !== 'POST') return void response.writeHead(405).end();
    const { id, method: asked } = JSON.parse(body) as { id?: number; method: string };
    const answer = asked === 'tools/call' && id !== undefined ? done(id) : answerTo(body);
    if (answer === null) return void response.writeHead(202).end();
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
  });
  return { url: `${server.origin}/mcp`, streams };
}

/** Sends a request on a connection of its own. */
function hold(url: string, method: string, path: string, token: string): ClientRequest {
  const accept = 'application/json, text/event-stream';
  const headers = { ...bearer(token).headers, accept, 'x-from': 'client' };
  const sent = request(new URL(path, url), { method, agent: false, headers });
  stopAfterTest(async () => void sent.destroy());
  sent.on('error', () => {});
  if (method === 'POST') sent.setHeader('content-type', 'application/json');
  return sent.end(method === 'POST' ? JSON.stringify(HELD) : undefined);
}

async function answerOf(sent: ClientRequest): Promise<IncomingMessage> {
  const [answer] = (await once(sent, 'response')) as [IncomingMessage];
  return answer.on('error', () => {});
}

// Rule admission-10: Responses that are passed through to one caller, on whatever path, take half of `limits.maxConnections` at
// most. A request beyond that gets 429 with `Retry-After`, and its connection is closed.
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
