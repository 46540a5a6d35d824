import { describe, expect, test } from 'vitest';
import { configFromFlags, overrideConfig } from '../../../src/config/load/from-flags.ts';
import { configOf, withRoute } from './problems-of.ts';

const upstream = 'http://127.0.0.1:3001/mcp';

test('a URL alone gives what a file with that URL alone gives', () => {
  expect(configFromFlags({ upstream })).toEqual(configOf(withRoute()));
});

test('every flag has its place', () => {
  const config = configFromFlags({
    upstream,
    listen: ':1',
    admin: 'off',
    path: '/a',
    transport: 'http-sse',
    logLevel: 'debug',
    logFormat: 'json',
  });
  expect(config).toMatchObject({
    listen: { host: '0.0.0.0', port: 1 },
    admin: null,
    routes: [{ id: 'a', path: '/a', upstream: { transport: 'http-sse' } }],
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
    [{ transport: 'sse' }, /^--transport: expected one of auto, .*, got "sse"$/],
    [{ logLevel: 'loud' }, /^--log-level: expected one of .*, got "loud"$/],
    [{ logFormat: 'xml' }, /^--log-format: expected one of .*, got "xml"$/],
    [{ listen: ':9090' }, /^--admin: expected another port than that of listen/],
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
    const config = overrideConfig(file, { listen: ':3', admin: 'off', logLevel: 'debug' });
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
    expect(() => overrideConfig(file, { listen: ':2' })).toThrow(/^--admin: expected another port/);
  });
});
