/** Bodies that are too large to pass, or that nobody reads. */
import { describe, expect, test } from 'vitest';
import { freePort } from '../../fixtures/processes.ts';
import {
  gatewayTo,
  jsonRpcError,
  rawRequest,
  send,
  sendRaw,
  upstreamOf,
} from '../../fixtures/passthrough/pass-through.ts';

describe('bodies that are too large', () => {
  const limited = { maxBodyBytes: 1_000 };

  test('one of just the size passes', async () => {
    const upstream = await upstreamOf();
    const { port } = await gatewayTo(upstream.url, limited);
    const body = Buffer.alloc(1_000, 'x');
    expect((await send(port, { method: 'POST', path: '/m', body })).status).toBe(200);
    expect((await send(port, { method: 'POST', path: '/m', body: [body] })).status).toBe(200);
    expect(upstream.seen.map(({ body: { length } }) => length)).toEqual([1_000, 1_000]);
  });

  // Rule passthrough-16: A body beyond `limits.maxBody` gets 413, and the server gets no complete request.
  test('one that says so is refused before the upstream hears of it', async () => {
    const upstream = await upstreamOf();
    const { port } = await gatewayTo(upstream.url, limited);
    const body = Buffer.alloc(1_001, 'x');
    const answer = await send(port, { method: 'POST', path: '/m', body });
    expect(answer.status).toBe(413);
    expect(JSON.parse(answer.text)).toEqual(jsonRpcError(-32600));
    expect(upstream.seen).toEqual([]);
  });

  // Rule passthrough-16.
  test('one that turns out so is refused, and the upstream gets no whole request', async () => {
    const upstream = await upstreamOf();
    const { port, failures } = await gatewayTo(upstream.url, limited);
    const pieces = [Buffer.alloc(600, 'x'), Buffer.alloc(401, 'x')];
    const answer = await send(port, { method: 'POST', path: '/m', body: pieces });
    expect(answer.status).toBe(413);
    expect(JSON.parse(answer.text)).toEqual(jsonRpcError(-32600));
    expect(upstream.seen).toEqual([]);
    expect(failures.map(({ httpStatus }) => httpStatus)).toEqual([413]);
  });
});

describe('a body that nobody wants', () => {
  test.each([
    ['is declared too large', 413, false],
    ['turns out too large', 413, true],
    ['has no upstream to go to', 502, true],
  ])(
    '%s: the client gets its answer, and its connection lives on',
    async (_name, status, chunked) => {
      const nobody = `http://127.0.0.1:${await freePort()}/mcp`;
      const { port } = await gatewayTo(status === 502 ? nobody : (await upstreamOf()).url, {
        maxBodyBytes: status === 502 ? 8_000_000 : 1_000,
      });
      const body = 'x'.repeat(4_000_000);
      const framing = chunked
        ? `Transfer-Encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`
        : `Content-Length: ${body.length}\r\n\r\n${body}`;
      const answers = await sendRaw(
        port,
        `POST /message HTTP/1.1\r\nHost: g\r\n${framing}${rawRequest('GET', '/..%2f')}`,
      );
      expect(answers.match(/HTTP\/1\.1 \d+/g)).toEqual([`HTTP/1.1 ${status}`, 'HTTP/1.1 400']);
    },
  );
});
