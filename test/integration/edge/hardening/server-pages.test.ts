/** What a server sends, and what a web page asks for, at an origin that browsers and applications of this machine trust. */
import type { ServerResponse } from 'node:http';
import { describe, expect, test } from 'vitest';
import { rawRequest, sendRaw, valuesOf } from '../../../fixtures/clients/raw-http.ts';
import type { GatewayOverrides } from '../../../fixtures/gateways/gateway.ts';
import { gatewayBefore } from '../../../fixtures/gateways/test-gateway.ts';
import { legacyServer } from '../../../fixtures/servers/scripted-server.ts';

/** A gateway on loopback in front of a server that serves pages. */
async function inFrontOfPages(
  overrides: GatewayOverrides = {},
  answer = (response: ServerResponse) =>
    void response.writeHead(200, { 'content-type': 'text/html' }).end('<p>'),
) {
  const server = await legacyServer(() => {}, { onGet: (_received, response) => answer(response) });
  const { gateway } = await gatewayBefore(server, overrides);
  const get = (path: string, ...headers: [string, string][]) =>
    sendRaw(gateway.url, rawRequest('GET', path, [['host', 'localhost:8080'], ...headers]));
  return { server, get };
}

describe('a page of a server, behind a loopback address', () => {
  // Rule callers-10: On loopback, a document gets `Content-Security-Policy: sandbox` and `nosniff`. `Cookie`,
  // `Set-Cookie` and `Clear-Site-Data` do not pass.
  test.each(['/mcp', '/page', '/.well-known/page'])(
    'has no rights of this machine: one of %s is sandboxed',
    async (path) => {
      const { get } = await inFrontOfPages();
      const answer = await get(path, ['accept', 'text/html']);
      expect(answer.status).toBe(200);
      expect(valuesOf(answer, 'content-security-policy')).toEqual(['sandbox']);
      expect(valuesOf(answer, 'x-content-type-options')).toEqual(['nosniff']);
    },
  );

  // Rule callers-10.
  test('keeps its own policies, which cannot take the sandbox away', async () => {
    const own = ['sandbox allow-scripts allow-same-origin', "default-src 'self'"];
    const { get } = await inFrontOfPages({}, (response) => {
      response.setHeader('content-security-policy', own);
      response.writeHead(200, { 'x-content-type-options': 'none' }).end('<p>');
    });
    const answer = await get('/page');
    const policies = valuesOf(answer, 'content-security-policy').join(', ').split(', ');
    expect(policies).toEqual(['sandbox', ...own]);
    expect(valuesOf(answer, 'x-content-type-options')).toEqual(['nosniff']);
  });
});

describe('cookies, which a browser shares between all ports of a host', () => {
  // Rule callers-10.
  test.each(['/mcp', '/page'])(
    'of other applications do not reach the server of %s, and it sets none for them',
    async (path) => {
      const { server, get } = await inFrontOfPages({}, (response) => {
        response.setHeader('set-cookie', ['_xsrf=FIXED; Path=/', 'b=2']);
        response.setHeader('clear-site-data', '"cookies"');
        response.writeHead(200, { 'x-of': 'server' }).end();
      });
      const answer = await get(path, ['cookie', 'other-application=1']);
      expect(valuesOf(answer, 'x-of')).toEqual(['server']);
      expect(valuesOf(answer, 'set-cookie')).toEqual([]);
      expect(valuesOf(answer, 'clear-site-data')).toEqual([]);
      expect(server.received.at(-1)?.path).toBe(path);
      expect(server.received.at(-1)?.headers).not.toHaveProperty('cookie');
    },
  );
});

describe('a request without Origin that a browser makes', () => {
  // Rule callers-12: On loopback, a request without `Origin` whose `Sec-Fetch-Site` names another site or origin gets
  // 403.
  test.each(['cross-site', 'same-site'])(
    'for a page that is %s does not reach the server',
    async (site) => {
      const { server, get } = await inFrontOfPages();
      for (const path of ['/mcp', '/admin/delete?all=1']) {
        expect((await get(path, ['sec-fetch-site', site])).status).toBe(403);
        expect(server.received.filter(({ headers }) => 'sec-fetch-site' in headers)).toEqual([]);
      }
    },
  );

  // Rule callers-12.
  test.each(['none', 'same-origin'])('on its own (%s) reaches it', async (site) => {
    const { get } = await inFrontOfPages();
    expect((await get('/page', ['sec-fetch-site', site])).status).toBe(200);
  });

  // Rule callers-12.
  test('with the origin of an allowed page reaches it', async () => {
    const { get } = await inFrontOfPages({ edge: { allowedOrigins: ['https://app.example'] } });
    const headers: [string, string][] = [
      ['sec-fetch-site', 'cross-site'],
      ['origin', 'https://app.example'],
    ];
    expect((await get('/page', ...headers)).status).toBe(200);
  });
});
