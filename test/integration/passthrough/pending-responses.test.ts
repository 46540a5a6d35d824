/** Responses for which the process or the client does not wait. */
import { once } from 'node:events';
import {
  createServer,
  request as httpRequest,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http';
import { describe, expect, test } from 'vitest';
import { OpenResponses } from '../../../src/lib/http.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';
import {
  gatewayTo,
  listen,
  open,
  portOf,
  type Sent,
  upstreamOf,
} from '../../fixtures/passthrough/pass-through.ts';

describe('the responses that the process must not leave before', () => {
  /** How many there are when the head of the answer has come, and when it is over. */
  async function counted(sent: Sent, contentType: string) {
    const openResponses = new OpenResponses();
    const answers: ServerResponse[] = [];
    const upstream = await upstreamOf((response) => {
      answers.push(response);
      response.writeHead(200, { 'content-type': contentType }).flushHeaders();
    });
    const { port } = await gatewayTo(upstream.url, { openResponses });
    const answer = await open(port, sent);
    const underWay = openResponses.count;
    answers[0]?.end('data: 1\n\n');
    await answer.toArray();
    await expect.poll(() => openResponses.count).toBe(0);
    return underWay;
  }

  // Rule passthrough-14: A drain waits for passed-through responses, except the event streams of GETs.
  test.each([undefined, '*/*', 'text/event-stream', 'application/json, text/event-stream'])(
    'are not the event streams of a GET, whatever it accepts: %s',
    async (accept) => {
      const headers = accept === undefined ? {} : { accept };
      expect(await counted({ headers }, 'text/event-stream')).toBe(0);
      expect(await counted({ headers, path: '/sse' }, 'Text/Event-Stream; charset=utf-8')).toBe(0);
    },
  );

  // Rule passthrough-14.
  test.each(['*/*', 'text/event-stream'])(
    'are any other answers to a GET, whatever it accepts: %s',
    async (accept) => {
      expect(await counted({ headers: { accept } }, 'application/json')).toBe(1);
    },
  );

  // Rule passthrough-14.
  test.each(['text/event-stream', 'application/json'])(
    'are all answers to a POST: %s',
    async (contentType) => {
      const headers = { accept: 'application/json, text/event-stream' };
      expect(await counted({ method: 'POST', body: '{}', headers }, contentType)).toBe(1);
    },
  );

  test('are those that have not begun, unless a stream was asked for', async () => {
    const arrived: (() => void)[] = [];
    const upstream = await upstreamOf(() => arrived.shift()?.());
    for (const [accept, underWay] of [
      ['text/event-stream', 0],
      ['application/json', 1],
    ] as const) {
      const openResponses = new OpenResponses();
      const { port } = await gatewayTo(upstream.url, { openResponses });
      const arrival = new Promise<void>((resolve) => arrived.push(resolve));
      const leaving = open(port, { headers: { accept } }).catch(() => {});
      await arrival;
      expect(openResponses.count).toBe(underWay);
      void leaving;
    }
  });
});

describe('a client that leaves before the response', () => {
  test.each([
    ['a GET', 'GET', '/mcp'],
    ['a POST that was read', 'POST', '/mcp'],
    ['a POST that was streamed', 'POST', '/message'],
  ])('ends %s upstream', async (_name, method, path) => {
    let arrived: (request: IncomingMessage) => void = () => {};
    const arrival = new Promise<IncomingMessage>((resolve) => (arrived = resolve));
    const upstream = await upstreamOf((_response, request) => arrived(request));
    const { port, failures } = await gatewayTo(upstream.url);
    const request = httpRequest({ host: '127.0.0.1', port, method, path, agent: false });
    request.on('error', () => {}).end(method === 'POST' ? '{}' : undefined);
    const seen = await arrival;
    const closed = once(seen.socket, 'close');
    request.destroy();
    await closed;
    expect(failures).toEqual([]);
  });

  test('ends an upload that it had begun', async () => {
    const server = createServer();
    await listen(server);
    stopAfterTest(() => new Promise((resolve) => server.close(resolve)));
    const { port } = await gatewayTo(`http://127.0.0.1:${portOf(server)}/mcp`);
    const arrival = once(server, 'request');
    const request = httpRequest({
      host: '127.0.0.1',
      port,
      method: 'POST',
      path: '/message',
      headers: { 'content-length': 100 },
      agent: false,
    });
    request.on('error', () => {}).write('half');
    const [seen] = (await arrival) as [IncomingMessage];
    seen.resume();
    const cut = once(seen, 'error');
    request.destroy();
    await cut;
    expect(seen.complete).toBe(false);
  });
});
