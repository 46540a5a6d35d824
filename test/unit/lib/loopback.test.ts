import { expect, test } from 'vitest';
import { isLoopbackHost } from '../../../src/lib/http.ts';

const LOOPBACK = [
  ...['localhost', 'LOCALHOST', 'a.localhost', '127.0.0.1', '127.255.0.9', '127.9.9.9'],
  ...['::1', '[::1]', '::ffff:127.0.0.1', '[::ffff:127.0.0.1]'],
];
const OTHERS = [
  ...['localhost.', 'localhost.example', '0.0.0.0', '::', '10.0.0.1'],
  ...['127.0.0.1.', '127.0.0.1.example.com', '1.127.0.0'],
];

test.each(LOOPBACK)('only this machine can reach %s', (host) => {
  expect(isLoopbackHost(host)).toBe(true);
});

test.each(OTHERS)('others can reach %s', (host) => {
  expect(isLoopbackHost(host)).toBe(false);
});
