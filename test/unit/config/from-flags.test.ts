import { describe, expect, test } from 'vitest';
import { configFromFlags, overrideConfig } from '../../../src/config/load/from-flags.ts';
import { configOf, withRoute } from './problems-of.ts';

const upstream = 'http://127.0.0.1:3001/mcp';

test('a URL alone gives what a file with that URL alone gives', () => {
  expect(configFromFlags({ upstream })).toEqual(configOf(withRoute()));
});

test('the name that others have for the older transport is known', () => {
  const { routes } = configFromFlags({ upstream, transport: 'sse' });
  expect(routes[0]?.upstream).toMatchObject({ transport: 'http-sse' });
});

test('a command on loopback learns the roots of its callers, who gave it, and no other one does', () => {
  const command = { command: 'server', args: [], env: {} };
  const rootsOf = (listen?: string) =>
    configFromFlags({
      upstream: command,
      ...(listen === undefined ? {} : { listen, 'session-scope': 'shared' }),
    }).routes[0]?.upstream.roots;
  expect(rootsOf()).toBe('caller');
  expect(rootsOf('[::1]:1')).toBe('caller');
  expect(rootsOf(':1')).toBe('none');
  const file = 'routes: [{upstream: {command: server}}]\n';
  expect(configOf(file).routes[0]?.upstream.roots).toBe('none');
});

test('the first sealing key seals, whatever stands between the keys', () => {
  const [one, two] = ['A', 'B'].map((letter) => `${letter.repeat(42)}A`);
  for (const sealKey of [`new:${one},old:${two}`, `new:${one}\nold:${two}\n`]) {
    expect(configFromFlags({ upstream, 'seal-key': sealKey }).seal.keys).toEqual([
      { kid: 'new', key: one },
      { kid: 'old', key: two },
    ]);
  }
});

test('every flag has its place', () => {
  const config = configFromFlags({
    upstream,
    listen: ':1',
    admin: 'off',
    path: '/a',
    transport: 'http-sse',
    'upstream-header': { 'x-api-key': 'hunter2' },
    'session-scope': 'shared',
    'log-level': 'debug',
    'log-format': 'json',
  });
  expect(config).toMatchObject({
    listen: { host: '0.0.0.0', port: 1 },
    admin: null,
    routes: [
      {
        id: 'a',
        path: '/a',
        upstream: { transport: 'http-sse', headers: { 'x-api-key': 'hunter2' } },
        sessions: { scope: 'shared' },
      },
    ],
    log: { level: 'debug', format: 'json' },
  });
});

describe('a wrong value is one line that names the flag', () => {
  test.each([
    [
      { upstream: 'localhost:1' },
      /^--upstream: expected an http or https URL, got "localhost:1"; did you mean "http:\/\/localhost:1"\?$/,
    ],
    [{ listen: '80' }, /^--listen: expected an address .*, got "80"$/],
    [{ admin: '80' }, /^--admin: expected an address .*, or off, got "80"$/],
    [{ path: 'a' }, /^--path: expected a path .*, got "a"$/],
    [{ transport: 'http' }, /^--transport: expected one of auto, .*, got "http"$/],
    [{ 'upstream-header': { host: 'a' } }, /^--upstream-header.*host/i],
    [{ 'max-event': '4 MB' }, /^--max-event: expected a size/],
    [{ 'session-scope': 'user' }, /^--session-scope: expected one of principal, call, shared/],
    [
      { 'seal-key': 'k1:hunter2' },
      /^--seal-key\[0\]\.key: expected 32 bytes as base64url(?!.*hunter2)/,
    ],
    [{ 'seal-key': 'k1:hunter2 hunter2' }, /^--seal-key\[1\]: expected KID:KEY(?!.*hunter2)/],
    [{ 'seal-key': ':hunter2' }, /^--seal-key\[0\]\.kid: expected a name(?!.*hunter2)/],
    [{ 'log-level': 'loud' }, /^--log-level: expected one of .*, got "loud"$/],
    [{ 'log-format': 'xml' }, /^--log-format: expected one of .*, got "xml"$/],
    [{ listen: ':9464' }, /^--admin: expected a port other than that of listen/],
  ])('%j', (values, line) => {
    expect(() => configFromFlags({ upstream, ...values })).toThrow(line);
  });

  test('or the variable that the value came from', () => {
    expect(() => configFromFlags({ upstream: 'x' }, () => 'MRTR_GATEWAY_UPSTREAM')).toThrow(
      /^MRTR_GATEWAY_UPSTREAM: expected/,
    );
  });

  test('without a password that was in the URL', () => {
    expect(() => configFromFlags({ upstream: 'http://me:hunter2@a/' })).toThrow(
      /^--upstream: expected a URL without credentials \(use upstream\.headers\), got "\*\*\*@a\/"$/,
    );
  });
});

describe('flags beside a file', () => {
  const file = configOf(withRoute('listen: :1\nadmin: :2\nlog: {level: warn, format: json}\n'));

  test('win over it', () => {
    const config = overrideConfig(file, { listen: ':3', admin: 'off', 'log-level': 'debug' });
    expect(config).toEqual({
      ...file,
      listen: { host: '0.0.0.0', port: 3 },
      admin: null,
      log: { level: 'debug', format: 'json' },
    });
  });

  test('leave it as it is when there are none', () => {
    expect(overrideConfig(file, {})).toEqual(file);
  });

  test('must fit what is in the file', () => {
    expect(() => overrideConfig(file, { listen: ':2' })).toThrow(/^--admin: expected a port other/);
  });
});
