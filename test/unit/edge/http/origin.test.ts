import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  isAllowedHost,
  isAllowedOrigin,
  type OriginPolicy,
} from '../../../../src/edge/http/guard.ts';

const HOST = 'localhost:8080';
const named: OriginPolicy = {
  allowedOrigins: ['https://app.example'],
  allowedHosts: [],
  onLoopback: false,
};
const loopback: OriginPolicy = { ...named, onLoopback: true };

describe('Origin (streamable-http, "Security & Endpoint")', () => {
  // Rule callers-1.
  test('may be absent: then no page is calling', () => {
    expect(isAllowedOrigin(undefined, HOST, named)).toBe(true);
  });

  test('may be one of those named', () => {
    expect(isAllowedOrigin('https://app.example', HOST, named)).toBe(true);
  });

  test.each([
    ...['null', '', 'https://app.example.evil.example', 'https://evil-app.example'],
    ...['http://app.example', 'https://app.example:8443', 'https://APP.example/', 'app.example'],
  ])('may not be %j, which only looks like it', (origin) => {
    expect(isAllowedOrigin(origin, HOST, named)).toBe(false);
  });

  test('may be that of the gateway where we listen on loopback, and nowhere else', () => {
    expect(isAllowedOrigin(`http://${HOST}`, HOST, loopback)).toBe(true);
    expect(isAllowedOrigin(`http://${HOST}`, HOST, named)).toBe(false);
  });

  test.each([
    ...['http://localhost', 'http://localhost:5173', 'https://localhost:8080', 'http://[::1]:8080'],
    ...['http://app.localhost', 'http://127.1.2.3', 'http://127.0.0.1:8080'],
  ])('may not be %s, another one of this machine', (origin) => {
    expect(isAllowedOrigin(origin, HOST, loopback)).toBe(false);
  });

  test.each([
    ...['http://localhost.evil.example', 'http://127.0.0.1.evil.example', 'ftp://localhost'],
    ...['http://notlocalhost', 'file://localhost', 'http://128.0.0.1', 'null'],
  ])('may not be %s, which only looks like this machine', (origin) => {
    expect(isAllowedOrigin(origin, HOST, loopback)).toBe(false);
  });
});

describe('Host behind a loopback address', () => {
  test.each(['localhost', 'localhost:8080', '127.0.0.1:1', '[::1]:80', 'LOCALHOST', 'app.example'])(
    'may be %s',
    (host) => {
      expect(isAllowedHost(host, loopback)).toBe(true);
    },
  );

  test.each([
    ...[
      'evil.example',
      'evil.example:8080',
      '',
      'localhost.evil.example',
      'localhost@evil.example',
    ],
    ...['localhost:1:2', 'localhost/..', ' localhost', 'localhost:123456'],
  ])('may not be %j: a page may have rebound its own name to this machine', (host) => {
    expect(isAllowedHost(host, loopback)).toBe(false);
  });

  // Rule callers-2.
  test('may be one of those named, as that of a proxy on this machine', () => {
    const behindProxy = { ...loopback, allowedHosts: ['mcp.example.com'] };
    expect(isAllowedHost('mcp.example.com', behindProxy)).toBe(true);
    expect(isAllowedHost('MCP.example.com:443', behindProxy)).toBe(true);
    expect(isAllowedHost('evil.mcp.example.com', behindProxy)).toBe(false);
  });

  test('is not looked at where we listen to others anyway', () => {
    expect(isAllowedHost('anything.example', named)).toBe(true);
  });
});

test('no text makes them throw, and no stranger is ever let in by name', () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.webUrl(), fc.domain()), (text) => {
      expect(isAllowedOrigin(text, HOST, named)).toBe(text === 'https://app.example');
      expect(typeof isAllowedHost(text, loopback)).toBe('boolean');
    }),
    { numRuns: 300 },
  );
  fc.assert(
    fc.property(fc.webUrl({ validSchemes: ['http', 'https'] }), (origin) => {
      expect(isAllowedOrigin(origin, HOST, loopback)).toBe(false);
    }),
  );
});
