import { describe, expect, test } from 'vitest';
import { localUserCheck, type RequestOrigin } from '../../../src/front/callers.ts';

const OPEN = { listenHost: '127.0.0.1', allowedHosts: [], trustedProxies: [] };

function request(headers: Record<string, string> = {}, more: Partial<RequestOrigin> = {}) {
  return {
    headers: { host: '127.0.0.1:8080', ...headers },
    httpVersion: '1.1',
    socket: { remoteAddress: '127.0.0.1' },
    ...more,
  };
}

// Rule sessions-10: On loopback an anonymous caller is the local user and has a home, unless a header or the
// configuration shows a proxy.
describe('the local user', () => {
  test.each([
    ['127.0.0.1:8080', '127.0.0.1'],
    ['localhost', '::ffff:127.0.0.1'],
    ['[::1]:8080', '::1'],
    ['app.localhost:8080', '127.8.8.8'],
  ])('calls %s from %s', (host, remoteAddress) => {
    expect(localUserCheck(OPEN)(request({ host }, { socket: { remoteAddress } }))).toBeNull();
  });

  test.each([
    [{ 'x-forwarded-for': '203.0.113.9' }],
    [{ 'x-forwarded-proto': 'https' }],
    [{ forwarded: 'for=203.0.113.9' }],
    [{ via: '1.1 proxy' }],
    [{ 'x-real-ip': '203.0.113.9' }],
    [{ 'cf-connecting-ip': '203.0.113.9' }],
    [{ connection: 'close' }],
    [{ host: 'mcp.example.com' }],
    [{ host: '127.0.0.1.example.com' }],
    [{ host: '' }],
  ])('sends no %j', (headers) => {
    expect(localUserCheck(OPEN)(request(headers))).toEqual(expect.any(String));
  });

  test.each<[string, Partial<RequestOrigin>]>([
    ['comes from this machine', { socket: { remoteAddress: '192.0.2.7' } }],
    ['has a peer', { socket: {} }],
    ['speaks HTTP/1.1', { httpVersion: '1.0' }],
  ])('%s', (_title, more) => {
    expect(localUserCheck(OPEN)(request({}, more))).toEqual(expect.any(String));
  });

  test.each([
    { ...OPEN, listenHost: '0.0.0.0' },
    { ...OPEN, allowedHosts: ['mcp.example.com'] },
    { ...OPEN, trustedProxies: ['127.0.0.1'] },
  ])('is not recognized with %j', (options) => {
    expect(localUserCheck(options)(request())).toEqual(expect.any(String));
  });
});
