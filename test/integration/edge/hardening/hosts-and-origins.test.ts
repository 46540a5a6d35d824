/** Who may call from where: names of a host and origins of pages, behind a loopback address. */
import { describe, expect, test } from 'vitest';
import { rawRequest, sendRaw, valuesOf, errorOf } from '../../../fixtures/clients/raw-http.ts';
import {
  callsOf,
  expectUnharmed,
  ground,
  rawCall,
} from '../../../fixtures/gateways/survival-testbed.ts';

describe('behind a loopback address', () => {
  const refusedHosts = [
    'evil.example',
    'evil.example:80',
    'localhost.evil.example',
    '127.0.0.1.evil.example',
    'localhost@evil.example',
    'evil.example#localhost',
    '10.0.0.1',
    '0.0.0.0',
    '[::2]',
    '[::ffff:10.0.0.1]',
    'localhost:80:80',
    'localhost:port',
    'localhost, evil.example',
    'evil.example\tlocalhost',
  ];
  // Rule callers-2 (streamable-http, "Security & Endpoint"): On loopback, a `Host` that is not this machine, an
  // allowed origin or in `edge.allowedHosts` gets 403. The same holds for the admin listener.
  test.each(refusedHosts)('Host %s is another name, and refused', async (host) => {
    const field = await ground();
    const answer = await sendRaw(field.url, rawCall({ changes: { host } }));
    expect(answer.status).toBe(403);
    expect(errorOf(answer)).toMatchObject({ code: -32600 });
    for (const [method, path] of [
      ['GET', '/mcp'],
      ['DELETE', '/mcp'],
      ['GET', '/other'],
    ] as const) {
      const other = await sendRaw(field.url, rawRequest(method, path, [['host', host]]));
      expect(other.status).toBe(403);
    }
    expect(callsOf(field)).toBe(0);
    await expectUnharmed(field);
  });

  // Rule callers-2.
  test.each([
    'localhost',
    'LOCALHOST:1',
    '127.0.0.1:8080',
    '127.8.8.8',
    '[::1]',
    '[::1]:80',
    'app.localhost',
  ])('Host %s is ours', async (host) => {
    const field = await ground();
    expect((await sendRaw(field.url, rawCall({ changes: { host } }))).status).toBe(200);
    await expectUnharmed(field);
  });

  // Rule callers-1 (streamable-http, "Security & Endpoint" 1): An `Origin` that is neither in `edge.allowedOrigins`
  // nor, on loopback, the gateway's own gets 403 on every path. A request without `Origin` passes.
  test.each([
    'http://localhost:5173',
    'https://127.0.0.1',
    'http://[::1]:1',
    'http://evil.example',
    'https://localhost.evil.example',
    'http://127.0.0.1.evil.example',
    'http://localhost@evil.example',
    'null',
    'file://',
    'localhost',
    'http://',
    'ws://localhost',
    'chrome-extension://localhost',
    'http://localhost http://evil.example',
    'https://good.example.evil.example',
    'https://GOOD.example',
    'http://good.example',
    'https://good.example:444',
  ])('a page of %s may not call', async (origin) => {
    const field = await ground({ edge: { allowedOrigins: ['https://good.example'] } });
    const answer = await sendRaw(field.url, rawCall({ changes: { origin } }));
    expect(answer.status).toBe(403);
    expect(valuesOf(answer, 'access-control-allow-origin')).toEqual([]);
    expect(callsOf(field)).toBe(0);
    await expectUnharmed(field);
  });

  // Rule callers-1.
  test.each(['https://good.example', 'http://localhost:5173'])(
    'a page of %s may',
    async (origin) => {
      const allowedOrigins = ['https://good.example', 'http://localhost:5173'];
      const field = await ground({ edge: { allowedOrigins } });
      const answer = await sendRaw(field.url, rawCall({ changes: { origin } }));
      expect(answer.status).toBe(200);
      expect(valuesOf(answer, 'access-control-allow-origin')).toEqual([origin]);
      await expectUnharmed(field);
    },
  );

  // Rule callers-1.
  test('the origin of the gateway itself may, and that of another port may not', async () => {
    const field = await ground();
    const host = 'localhost:8080';
    const from = (origin: string) =>
      sendRaw(field.url, rawCall({ changes: { host, origin } })).then(({ status }) => status);
    expect(await from('http://localhost:8080')).toBe(200);
    expect(await from('http://localhost:8081')).toBe(403);
  });

  // Rule callers-2.
  test('the admin listener checks Host as well', async () => {
    const field = await ground({ admin: true });
    const url = field.gateway.adminUrl ?? '';
    const get = (path: string, host: string) =>
      sendRaw(url, rawRequest('GET', path, [['host', host]]));
    for (const path of ['/metrics', '/readyz', '/healthz']) {
      expect((await get(path, 'evil.example')).status).toBe(403);
      expect((await get(path, 'localhost')).status).toBe(200);
    }
    await expectUnharmed(field);
  });
});
