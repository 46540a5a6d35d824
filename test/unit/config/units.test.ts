import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  formatByteSize,
  parseByteSize,
  formatDuration,
  parseDuration,
  parseRate,
} from '../../../src/config/units.ts';
import { formatAddress, parseAddress } from '../../../src/lib/address.ts';

describe('durations', () => {
  test.each([
    ['500ms', 500],
    ['30s', 30_000],
    ['10m', 600_000],
    ['1h', 3_600_000],
    ['7d', 604_800_000],
    ['0s', 0],
    ['1500', 1500],
  ])('%s is %d milliseconds', (text, ms) => {
    expect(parseDuration(text)).toBe(ms);
  });

  test.each(['', 'm', '-1s', '1.5h', '10 m', '10M', '1h30m', '1e3', ' 1s', '9'.repeat(16)])(
    '%j is no duration',
    (text) => {
      expect(parseDuration(text)).toBeNull();
    },
  );

  test('what is formatted reads back as the same', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 2 ** 31 }), (ms) => {
        expect(parseDuration(formatDuration(ms))).toBe(ms);
      }),
    );
  });
});

describe('rates', () => {
  test.each([
    ['100/s', 100, 1_000],
    ['60/1m', 60, 60_000],
    ['5/10s', 5, 10_000],
    ['1/24h', 1, 86_400_000],
    ['1/1d', 1, 86_400_000],
  ])('%s is %d requests in %d ms', (text, requests, windowMs) => {
    expect(parseRate(text)).toEqual({ requests, windowMs });
  });

  test.each([
    '',
    '5',
    '5/',
    '/s',
    '0/s',
    '5/0s',
    '5/ms',
    '5/100ms',
    '5/2d',
    '1.5/s',
    '5 / s',
    '-1/s',
  ])('%j is no rate', (text) => {
    expect(parseRate(text)).toBeNull();
  });
});

describe('sizes', () => {
  test.each([
    ['4MiB', 4_194_304],
    ['512KiB', 524_288],
    ['1GiB', 1_073_741_824],
    ['10B', 10],
    ['4096', 4096],
  ])('%s is %d bytes', (text, bytes) => {
    expect(parseByteSize(text)).toBe(bytes);
  });

  test.each(['', '4MB', '4 MiB', '-1', '1.5MiB', '4mib', 'MiB'])('%j is no size', (text) => {
    expect(parseByteSize(text)).toBeNull();
  });

  test('what is formatted reads back as the same', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 2 ** 40 }), (bytes) => {
        expect(parseByteSize(formatByteSize(bytes))).toBe(bytes);
      }),
    );
  });
});

describe('addresses', () => {
  test.each([
    ['127.0.0.1:8080', { host: '127.0.0.1', port: 8080 }],
    [':8080', { host: '0.0.0.0', port: 8080 }],
    ['[::1]:8080', { host: '::1', port: 8080 }],
    ['localhost:0', { host: 'localhost', port: 0 }],
  ])('%s is understood', (text, address) => {
    expect(parseAddress(text)).toEqual(address);
  });

  test.each([
    '',
    '8080',
    'localhost',
    'localhost:',
    '1.2.3.4:65536',
    '::1:80',
    '[nope]:80',
    'a b:1',
  ])('%j is no address', (text) => {
    expect(parseAddress(text)).toBeNull();
  });

  test('IPv6 is written with brackets', () => {
    expect(formatAddress({ host: '::1', port: 1 })).toBe('[::1]:1');
  });
});
