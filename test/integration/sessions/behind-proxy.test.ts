/** Anonymous callers whom a proxy on the same machine lets in are not the local user, and never meet. */
import { describe, expect, test } from 'vitest';
import { callTool } from '../../fixtures/clients/modern-client.ts';
import type { GatewayOverrides } from '../../fixtures/gateways/gateway.ts';
import { testGateway } from '../../fixtures/gateways/test-gateway.ts';
import { startNginx } from '../../fixtures/network/nginx.ts';
import { countingServer } from '../../fixtures/servers/counting-server.ts';

const KEEPS_CONNECTIONS = 'proxy_http_version 1.1; proxy_set_header Connection "";';
const NAMES_CLIENTS = `${KEEPS_CONNECTIONS} proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;`;

/** What two callers count, one after the other, through nginx with these directives. */
async function counts(directives: string, gateway: GatewayOverrides = {}) {
  const { server } = await countingServer();
  const started = await testGateway(server.url, gateway);
  const url = await startNginx(started.url, directives);
  const one = await callTool(url, 'count');
  const other = await callTool(url, 'count');
  return {
    counts: [one, other].map(({ response }) => response.result.content[0].text),
    logged: started.log.named('session.not_reused'),
  };
}

describe('two callers behind nginx', { tags: ['nginx'] }, () => {
  // Rule sessions-10.
  test.each([
    ['its defaults', ''],
    ['HTTP/1.1', 'proxy_http_version 1.1;'],
    ['the usual headers', NAMES_CLIENTS],
  ])('never meet where it runs with %s', async (_title, directives) => {
    const seen = await counts(directives);
    expect(seen.counts).toEqual(['1', '1']);
    expect(seen.logged).toEqual([{ route: 'mcp', reason: expect.any(String) }]);
  });

  // Such a proxy cannot be told from a client on this machine; docs/operate/sessions.md says so, and what to set.
  test.each<[string, GatewayOverrides]>([
    ['edge.trustedProxies', { edge: { trustedProxies: ['127.0.0.1'] } }],
    ['edge.allowedHosts', { edge: { allowedHosts: ['mcp.example.com'] } }],
    ['sessions.scope', { sessions: { scope: 'call' } }],
  ])('never meet where it keeps connections and names nobody, with %s', async (_title, gateway) => {
    expect((await counts(KEEPS_CONNECTIONS, gateway)).counts).toEqual(['1', '1']);
    expect((await counts(KEEPS_CONNECTIONS)).counts).toEqual(['1', '2']);
  });
});
