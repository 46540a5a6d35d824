/** Event streams that are passed through, and the endpoint that one names first. */
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { describe, expect, test, vi } from 'vitest';
import {
  gatewayTo,
  open,
  send,
  type Sent,
  upstreamOf,
} from '../../fixtures/passthrough/pass-through.ts';

// Rule passthrough-3: Event streams pass without delay and can be silent forever. A disconnect on either side ends
// the stream on the other.
describe('event streams', () => {
  /** An upstream whose streams the test writes. */
  async function streamingUpstream() {
    const streams: ServerResponse[] = [];
    const opened: ((stream: ServerResponse) => void)[] = [];
    const upstream = await upstreamOf((response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.flushHeaders();
      streams.push(response);
      opened.shift()?.(response);
    });
    const next = () => new Promise<ServerResponse>((resolve) => opened.push(resolve));
    return { ...upstream, next };
  }

  test.each(['GET', 'POST'])(
    'of a %s: the head comes before the first event, each event before the next is written',
    async (method) => {
      const upstream = await streamingUpstream();
      const { port } = await gatewayTo(upstream.url);
      const opened = upstream.next();
      const answer = await open(port, { method, ...(method === 'POST' ? { body: '{}' } : {}) });
      expect(answer.headers['content-type']).toBe('text/event-stream');
      const stream = await opened;
      for (const event of ['data: 1\n\n', ': comment\n\n', 'id: 2\ndata: \u20ac\n\n', 'data: ']) {
        stream.write(event);
        const [chunk] = (await once(answer, 'data')) as [Buffer];
        expect(chunk.toString('utf8')).toBe(event);
      }
      stream.end('end\n\n');
      expect(Buffer.concat(await answer.toArray()).toString()).toBe('end\n\n');
      expect(answer.complete).toBe(true);
    },
  );

  // Rule passthrough-3.
  test('one that is silent for an hour lives on', async () => {
    // The HTTP client counts its timeouts in ticks of `setTimeout`, so these are the hour.
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    try {
      const upstream = await streamingUpstream();
      const { port } = await gatewayTo(upstream.url);
      const opened = upstream.next();
      const answer = await open(port);
      const stream = await opened;
      await vi.advanceTimersByTimeAsync(60 * 60_000);
      stream.write('data: at last\n\n');
      const [chunk] = (await once(answer, 'data')) as [Buffer];
      expect(chunk.toString()).toBe('data: at last\n\n');
    } finally {
      vi.useRealTimers();
    }
  });

  // Rule passthrough-3.
  test('a client that leaves ends the stream upstream', async () => {
    const upstream = await streamingUpstream();
    const { port } = await gatewayTo(upstream.url);
    const opened = upstream.next();
    const answer = await open(port);
    const stream = await opened;
    const closed = once(stream, 'close');
    answer.on('error', () => {}).destroy();
    await closed;
    expect(stream.writableFinished).toBe(false);
  });

  // Rule passthrough-3.
  test('an upstream that is cut cuts the client, which can tell it from an end', async () => {
    const upstream = await streamingUpstream();
    const { port } = await gatewayTo(upstream.url);
    const opened = upstream.next();
    const answer = await open(port);
    const stream = await opened;
    stream.write('data: 1\n\n');
    await once(answer, 'data');
    const cut = once(answer, 'error');
    stream.destroy();
    await cut;
    expect(answer.complete).toBe(false);
  });

  test('closing the application ends them', async () => {
    const upstream = await streamingUpstream();
    const { app, port } = await gatewayTo(upstream.url);
    const opened = upstream.next();
    const answer = await open(port);
    const stream = await opened;
    const [client, server] = [once(answer, 'error'), once(stream, 'close')];
    answer.resume();
    await app.close();
    await Promise.all([client, server]);
    expect(answer.complete).toBe(false);
  });

  test('closing the application closes the connections that are kept for others, too', async () => {
    const { url, server } = await upstreamOf((response) => response.end('answered'));
    server.keepAliveTimeout = 600_000;
    const { app, port } = await gatewayTo(url);
    const connected = once(server, 'connection') as Promise<[Socket]>;
    const answer = await open(port);
    await answer.toArray();
    const [connection] = await connected;
    expect(connection.closed).toBe(false);
    const closed = once(connection, 'close');
    await app.close();
    await closed;
  });
});

describe('the endpoint that the stream of a GET names first', () => {
  /** Passes a stream of these pieces on; resolves with what was noted, and what the client got. */
  async function passed(pieces: readonly string[], headers = {}, sent: Sent = {}) {
    const noted: string[] = [];
    const over = Promise.withResolvers<void>();
    const upstream = await upstreamOf(async (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream', ...headers });
      for (const piece of pieces) {
        await new Promise((written) => response.write(piece, written));
      }
      response.end();
    });
    const { port } = await gatewayTo(upstream.url, {
      onEndpoint: (endpoint) => {
        noted.push(endpoint);
        return () => over.resolve();
      },
    });
    const { text } = await send(port, sent);
    expect(text).toBe(pieces.join(''));
    return { noted, over: over.promise };
  }

  const NAMED = 'event: endpoint\ndata: /m/1\n\n';
  const MESSAGE = 'data: {}\n\n';

  // Rule passthrough-10.
  test.each([
    ['at once', [NAMED]],
    ['letter by letter', [...NAMED]],
    ['after comments, with more', [': hello\n\n', `: again\n\n${NAMED}${MESSAGE}`, MESSAGE]],
    ['with other line ends', [NAMED.replaceAll('\n', '\r\n')]],
    ['in front of much else', [NAMED + `data: ${'x'.repeat(100_000)}\n\n`, MESSAGE]],
    ['and names once only', [NAMED, NAMED.replace('1', '2')]],
  ])('is noted until the stream is over: %s', async (_title, pieces) => {
    const { noted, over } = await passed(pieces);
    expect(noted).toEqual(['/m/1']);
    await over;
  });

  test('is forgotten when the client leaves', async () => {
    const [told, over] = [Promise.withResolvers<string>(), Promise.withResolvers<void>()];
    const upstream = await upstreamOf((response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).write(NAMED);
    });
    const { port } = await gatewayTo(upstream.url, {
      onEndpoint: (endpoint) => {
        told.resolve(endpoint);
        return () => over.resolve();
      },
    });
    const answer = await open(port);
    expect(await told.promise).toBe('/m/1');
    answer.on('error', () => {}).destroy();
    await over.promise;
  });

  // Rule passthrough-10.
  test.each<[string, string[], object, Sent]>([
    ['after a message', [MESSAGE, NAMED], {}, {}],
    ['after more than an event takes', [`: ${'x'.repeat(20_000)}\n`, NAMED], {}, {}],
    ['when it does not come whole', ['event: endpoint\ndata: /m/1\n'], {}, {}],
    ['in what is no event stream', [NAMED], { 'content-type': 'text/plain' }, {}],
    ['in what is compressed', [NAMED], { 'content-encoding': 'x-own' }, {}],
    ['in the answer to a POST', [NAMED], {}, { method: 'POST', body: '{}' }],
    ['on another path', [NAMED], {}, { path: '/sse' }],
  ])('is not noted %s', async (_title, pieces, headers, sent) => {
    expect((await passed(pieces, headers, sent)).noted).toEqual([]);
  });

  test('is noted of a long stream, which loses no byte', async () => {
    const pieces = [
      NAMED,
      ...Array.from({ length: 200 }, (_, at) => `data: ${at}${'y'.repeat(65_536)}\n\n`),
    ];
    expect((await passed(pieces)).noted).toEqual(['/m/1']);
  });
});
