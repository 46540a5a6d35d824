/** What a server sends, and what a web page asks for, at an origin that browsers and applications of this machine trust. */
import type { ServerResponse } from 'node:http';
import { describe, expect, test } from 'vitest';
import { rawRequest, sendRaw, valuesOf } from '../../../fixtures/clients/raw-http.ts';
import { startTestGateway, type GatewayOverrides } from '../../../fixtures/gateways/gateway.ts';
import { legacyServer } from '../../../fixtures/servers/scripted-server.ts';
import { stopAfterTest } from '../../../fixtures/stop-after-test.ts';

/** A gateway on loopback in front of a server that serves pages. */
async function inFrontOfPages(
  overrides: GatewayOverrides = {},
  answer = (response: ServerResponse) =>
    void response.writeHead(200, { 'content-type': 'text/html' }).end('<p>'),
) {
  const server = await legacyServer(() => {}, { onGet: (_received, response) => answer(response) });
  stopAfterTest(() => server.stop());
  const gateway = await startTestGateway(server.url, overrides);
  stopAfterTest(() => gateway.close());
  const get = (path: string, ...headers: [string, string][]) =>
    sendRaw(gateway.url, rawRequest('GET', path, [['host', 'localhost:8080'], ...headers]));
  return { server, get };
}

describe('a page of a server, behind a loopback address', () => {
  // Rule callers-10: Where the gateway listens on loopback, a document that passes through has an origin of its own, and
  // no scripts: `Content-Security-Policy: sandbox` is added to the policies of the server, and `nosniff` is set.
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
