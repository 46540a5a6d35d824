/** Probes of addresses without an MCP server. */
import { describe, expect, test } from 'vitest';
import { listening, probing } from '../../../fixtures/probing.ts';

describe('an address without an MCP server gives one line with the cause and what to do', () => {
  const answers = (status: number, headers: Record<string, string>, body = '') =>
    listening((_request, response) => response.writeHead(status, headers).end(body));

  test.each([
    [
      'a web page',
      () => answers(200, { 'content-type': 'text/html' }, '<html>'),
      /does not speak MCP: it is a web page \(HTML\); give the URL of the MCP endpoint/,
    ],
    ['a wrong path', () => answers(404, {}), /not found \(HTTP 404\)/],
    [
      'a refusal',
      () => answers(401, { 'www-authenticate': 'Bearer realm="x"' }),
      /refuses access \(HTTP 401\); give credentials with --header "Authorization: Bearer \.\.\."/,
    ],
    [
      'a redirect',
      () => answers(308, { location: '/elsewhere?token=hunter2' }),
      /redirects to http:\/\/127\.0\.0\.1:\d+\/elsewhere \(HTTP 308\); redirects are not followed/,
    ],
    ['a broken server', () => answers(502, {}), /responds with HTTP 502/],
    [
      'a server without TLS',
      async () => (await answers(200, {})).replace('http:', 'https:'),
      /TLS handshake with https:.* failed .* the port does not use TLS; use http:\/\//,
    ],
    // Nothing listens on the discard port.
    [
      'nobody',
      () => Promise.resolve('http://127.0.0.1:9'),
      /connection refused; check that the server/,
    ],
  ])('%s', async (_name, start, line) => {
    const { code, out, err } = await probing(`${await start()}/`);
    expect({ code, out }).toEqual({ code: 69, out: '' });
    expect(err).toMatch(line);
    expect(err).toMatch(/^mrtr-gateway: [^\n]+\n$/);
    expect(err).not.toContain('hunter2');
  });

  test('a server that never responds', async () => {
    const url = await listening(() => {});
    const { code, err } = await probing(url, '--timeout', '100ms');
    expect(code).toBe(69);
    expect(err).toMatch(/did not respond within 100 ms; .* or raise --timeout\n$/);
  });

  test('an unusable URL or header is a usage error that repeats no credential', async () => {
    expect(await probing('localhost:3001')).toMatchObject({
      code: 64,
      err: 'mrtr-gateway: URL: expected an http or https URL, got "localhost:3001"; did you mean "http://localhost:3001"?\n',
    });
    const { code, err } = await probing('http://a/', '--header', 'Authorization: hunter2\u0007');
    expect(code).toBe(64);
    expect(err).toMatch(/^mrtr-gateway: --header: expected a header value/);
    expect(err).not.toContain('hunter2');
  });
});
