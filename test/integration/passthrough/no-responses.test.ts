/** How the pass-through fails where the upstream does not respond. */
import { describe, expect, test } from 'vitest';
import { freePort } from '../../fixtures/processes.ts';
import {
  gatewayTo,
  jsonRpcError,
  open,
  rawUpstream,
  send,
  upstreamOf,
} from '../../fixtures/passthrough/pass-through.ts';

// Rule passthrough-17: An unreachable server or a broken connection gets 502, a response head after
// `upstream.headersTimeout` 504, with -32603 and `data.mayHaveActed`.
describe('an upstream that does not respond', () => {
  // Rule passthrough-17.
  test.each([
    ['GET', '/mcp'],
    ['POST', '/mcp'],
    ['POST', '/message'],
  ])('%s %s: nobody listens there', async (method, path) => {
    const upstreamPort = await freePort();
    const { port, failures } = await gatewayTo(`http://127.0.0.1:${upstreamPort}/mcp`);
    const answer = await send(port, { method, path, ...(method === 'POST' ? { body: '{}' } : {}) });
    expect(answer.status).toBe(502);
    expect(answer.headers['content-type']).toBe('application/json');
    expect(JSON.parse(answer.text)).toEqual(jsonRpcError(-32603));
    expect(answer.text).not.toMatch(new RegExp(`${upstreamPort}|127\\.0|ECONN`));
    expect(failures.map(({ httpStatus }) => httpStatus)).toEqual([502]);
  });

  // Rule passthrough-17.
  test('it takes longer than allowed over the head', async () => {
    const upstream = await upstreamOf(() => {});
    const { port } = await gatewayTo(upstream.url, { headersTimeoutMs: 100 });
    const answer = await send(port, { method: 'POST', body: '{}' });
    expect(answer.status).toBe(504);
    expect(JSON.parse(answer.text)).toEqual(jsonRpcError(-32603));
    expect(answer.text).not.toContain('127.0');
  });

  test.each([
    ['it hangs up', ''],
    ['it speaks something else', 'SSH-2.0-OpenSSH_9.2\r\n'],
    ['its head holds a NUL', 'HTTP/1.1 200 OK\r\nX-A: a\0b\r\nContent-Length: 0\r\n\r\n'],
    ['its status does not exist', 'HTTP/1.1 999 Odd\r\nContent-Length: 2\r\n\r\nok'],
    [
      'it switches protocols',
      'HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n',
    ],
    ['it has no end of head', `HTTP/1.1 200 OK\r\nX-A: ${'a'.repeat(70_000)}\r\n\r\n`],
  ])('%s', async (_name, bytes) => {
    const { port } = await gatewayTo(await rawUpstream(bytes));
    for (const method of ['GET', 'POST']) {
      const answer = await send(port, { method });
      expect(answer.status).toBe(502);
      expect(JSON.parse(answer.text)).toEqual(jsonRpcError(-32603));
    }
  });

  test('its body breaks off: so does ours', async () => {
    const { port } = await gatewayTo(
      await rawUpstream('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf'),
    );
    const answer = await open(port);
    await expect(answer.toArray()).rejects.toThrow();
    expect(answer.complete).toBe(false);
  });

  test('headers with bytes beyond ASCII pass as bytes', async () => {
    const head = 'HTTP/1.1 200 OK\r\nX-Euro: \u20ac\r\nConnection: close\r\n\r\nok';
    const { port } = await gatewayTo(await rawUpstream(Buffer.from(head, 'utf8')));
    const answer = await send(port);
    expect(answer.text).toBe('ok');
    expect(Buffer.from(String(answer.headers['x-euro']), 'latin1').toString('utf8')).toBe('\u20ac');
  });
});
