/** What a server is told of who asks, with proxies in front of the gateway. */
import { expect, test } from 'vitest';
import { startTestGateway } from '../../fixtures/gateways/gateway.ts';
import { legacyServer } from '../../fixtures/servers/scripted-server.ts';

const SAID = {
  'x-forwarded-for': '203.0.113.7',
  'x-forwarded-host': 'mcp.example',
  'x-forwarded-proto': 'https',
};

/** What reaches the server, beside the paths of the routes, of what a proxy on this machine says. */
async function toldBy(trustedProxies: readonly string[]) {
  const server = await legacyServer(() => {});
  const gateway = await startTestGateway(server.url, {
    edge: { trustedProxies },
  });
  await fetch(new URL('/health', gateway.url), { headers: SAID });
  const { headers } = await server.saw(({ path }) => path === '/health');
  await gateway.close();
  await server.stop();
  const { 'x-forwarded-for': from, 'x-forwarded-host': host, 'x-forwarded-proto': proto } = headers;
  return { told: { from, host, proto }, own: new URL(gateway.url).host };
}

// Rule passthrough-6.
test.each([['127.0.0.1'], ['127.0.0.0/8'], ['::1', '127.0.0.1']])(
  'what a proxy says whom the operator trusts goes on: %s',
  async (...trustedProxies) => {
    const { told } = await toldBy(trustedProxies);
    expect(told).toEqual({ from: '203.0.113.7, 127.0.0.1', host: 'mcp.example', proto: 'https' });
  },
);

// Rule passthrough-6.
test.each([[[]], [['192.0.2.1']], [['10.0.0.0/8', '::1']]])(
  'what anybody else says does not, where %j are trusted',
  async (trustedProxies) => {
    const { told, own } = await toldBy(trustedProxies);
    expect(told).toEqual({ from: '127.0.0.1', host: own, proto: 'http' });
  },
);
