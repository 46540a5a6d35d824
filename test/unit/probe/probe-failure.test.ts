import { expect, test } from 'vitest';
import { probeFailureOf, type ProbeAttempt } from '../../../src/probe/probe-failure.ts';
import {
  asUpstreamFailure,
  UpstreamFailure,
  type UpstreamFailureCode,
  type UpstreamFailureDetails,
} from '../../../src/model/upstream-failure.ts';

const attempt: ProbeAttempt = {
  url: 'https://a/mcp',
  timeoutMs: 10_000,
  gaveHeaders: false,
  page: null,
};

function systemError(code: string, message = code): Error {
  return Object.assign(new Error(message), { code });
}

const ofConnection = (error: unknown, also: Partial<ProbeAttempt> = {}) =>
  probeFailureOf(asUpstreamFailure(error, true), { ...attempt, ...also });

const ofAnswer = (
  code: UpstreamFailureCode,
  details: Partial<UpstreamFailureDetails>,
  also: Partial<ProbeAttempt> = {},
) => {
  const failure = new UpstreamFailure(code, 'so it was', { mayHaveActed: false, ...details });
  return probeFailureOf(failure, { ...attempt, ...also });
};

test.each([
  ['ECONNREFUSED', 'connection_failed', /connection refused; check that the server runs/],
  ['ENOTFOUND', 'connection_failed', /host not found/],
  ['UND_ERR_CONNECT_TIMEOUT', 'connection_failed', /connection timed out; check for a firewall/],
  ['EHOSTUNREACH', 'connection_failed', /no route to the host/],
  [
    'UND_ERR_SOCKET',
    'connection_failed',
    /the server closed the connection; check that the port serves HTTP, not HTTPS/,
  ],
  ['DEPTH_ZERO_SELF_SIGNED_CERT', 'tls_failed', /NODE_EXTRA_CA_CERTS=FILE/],
  ['CERT_HAS_EXPIRED', 'tls_failed', /CERT_HAS_EXPIRED/],
  ['ERR_TLS_CERT_ALTNAME_INVALID', 'tls_failed', /the name in its certificate/],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'tls_failed', /add the CA/],
  ['ERR_SSL_WRONG_VERSION_NUMBER', 'tls_failed', /does not use TLS; use http:/],
  ['UND_ERR_HEADERS_TIMEOUT', 'timeout', /did not respond within 10000 ms/],
])('a connection that fails with %s', (system, code, line) => {
  const failure = ofConnection(systemError(system));
  expect(failure.code).toBe(code);
  expect(failure.message).toMatch(line);
});

test('a host with several addresses is judged by the first', () => {
  const errors = [systemError('ECONNREFUSED'), systemError('ENETUNREACH')];
  expect(ofConnection(new AggregateError(errors)).message).toContain('connection refused');
});

test('a failure without a known code shows its own words, on one line', () => {
  expect(ofConnection(new Error('strange\nthings\u001b[2J')).message).toBe(
    'no connection to https://a/mcp: strange things [2J; check that it is an HTTP server',
  );
});

test('a refusal names the scheme that the server asks for', () => {
  const details = { httpStatus: 401, wwwAuthenticate: 'DPoP algs="ES256"' };
  expect(ofAnswer('unauthorized', details).message).toBe(
    'https://a/mcp refuses access (HTTP 401); give credentials with --header "Authorization: DPoP ..."',
  );
});

test('a refusal of given credentials does not ask for some', () => {
  expect(ofAnswer('unauthorized', { httpStatus: 403 }, { gaveHeaders: true }).message).toBe(
    'https://a/mcp refuses access (HTTP 403); it does not accept the given --header; if it checks Host, use the name that it accepts (upstream.url, upstream.hostHeader)',
  );
});

test('a redirect without a target is still named', () => {
  expect(ofAnswer('upstream_protocol_error', { httpStatus: 302 })).toMatchObject({
    code: 'redirect',
    message:
      'https://a/mcp redirects (HTTP 302); redirects are not followed, so use the target URL',
  });
});

test('the words of the server are in the line', () => {
  const details = { httpStatus: 503, said: 'in maintenance\nuntil 9' };
  expect(ofAnswer('upstream_busy', details).message).toBe(
    'https://a/mcp responds with HTTP 503: "in maintenance until 9"; look into the log of the server, or try again later',
  );
  expect(ofAnswer('upstream_protocol_error', { said: 'License expired' }).message).toMatch(
    /does not speak MCP: .*: "License expired"; give the URL/,
  );
});

test('a server that says when to come back is repeated', () => {
  const details = { httpStatus: 429, said: 'slow down', retryAfterMs: 30_000 };
  expect(ofAnswer('upstream_busy', details).message).toBe(
    'https://a/mcp responds with HTTP 429: "slow down"; look into the log of the server, or try again in 30 s',
  );
});

test.each([
  [{ httpStatus: 503 }, 'upstream_busy', 'server_error'],
  [{ httpStatus: 500 }, 'upstream_unavailable', 'server_error'],
  [{ httpStatus: 400 }, 'upstream_protocol_error', 'not_mcp'],
] as const)('an answer %o', (details, code, found) => {
  expect(ofAnswer(code, details).code).toBe(found);
});
