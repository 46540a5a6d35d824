import { expect, test } from 'vitest';
import { isFromOperator } from '../../../../src/ops/live/stop.ts';

const ASKS = { 'x-mrtr-gateway-action': 'cancel' };

test.each([
  ['127.0.0.1:9464', {}],
  ['localhost:9464', {}],
  ['[::1]:9464', {}],
  ['10.1.2.3:9464', { origin: 'http://10.1.2.3:9464' }],
  ['10.1.2.3', { 'sec-fetch-site': 'same-origin', origin: 'https://ops.example.com' }],
])('a request at %s with %j can come from the operator', (host, headers) => {
  expect(isFromOperator({ ...ASKS, ...headers, host })).toBe(true);
});

test.each([
  ['gateway.example:9464', {}],
  ['evil.example', { 'sec-fetch-site': 'same-origin' }],
  ['not a host', {}],
  ['10.1.2.3:9464', { origin: 'http://10.1.2.3:8080' }],
  ['10.1.2.3:9464', { 'sec-fetch-site': 'cross-site', origin: 'http://10.1.2.3:9464' }],
  ['10.1.2.3:9464', { 'x-mrtr-gateway-action': 'other' }],
])('a request at %s with %j does not', (host, headers) => {
  expect(isFromOperator({ ...ASKS, ...headers, host })).toBe(false);
});
