/** What goes on for a caller after its request was let in, until its token is over or another configuration refuses it. */
import type { EventEmitter } from 'node:events';
import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { ListeningClient } from '../../fixtures/clients/listening-client.ts';
import { callTool } from '../../fixtures/clients/modern-client.ts';
import { testConfig, type GatewayOverrides } from '../../fixtures/gateways/gateway.ts';
import { SUBSCRIPTION_ID, SERVER_INFO } from '../../fixtures/gateways/subscribing-gateway.ts';
import { gatewayBefore, testGateway } from '../../fixtures/gateways/test-gateway.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';
import { answerOf, HELD, hold, streamingServer } from '../../fixtures/passthrough/held-streams.ts';
import {
  AuthorizationServer,
  bearer,
  LIFETIME_SECONDS,
  RESOURCE,
} from '../../fixtures/servers/authorization-server.ts';
import { SubscribingServer } from '../../fixtures/servers/subscribing-server.ts';
import { done } from '../../fixtures/wire/asked-calls.ts';

/** Tokens are valid for 30 s more than they say, since clocks can differ. */
const OVER_MS = (LIFETIME_SECONDS + 31) * 1_000;
const ended = (id: unknown) => ({
  resultType: 'complete',
  _meta: {
    [SUBSCRIPTION_ID]: id,
    'io.modelcontextprotocol/serverInfo': SERVER_INFO,
    'mrtr-gateway/reason': 'token_not_valid',
  },
});

/** Resolves when it is over, in whatever way. */
const over = (stream: Pick<EventEmitter, 'once'>) =>
  new Promise<void>((resolve) => void stream.once('close', resolve));

function requiring(
  issuer: AuthorizationServer,
  ...requiredScopes: readonly string[]
): GatewayOverrides {
  return {
    upstream: { authorization: 'strip' },
    identity: {
      source: 'jwt',
      mode: 'strict',
      issuer: issuer.issuer,
      audiences: [RESOURCE],
      jwks: { url: issuer.jwksUrl, file: null },
      requiredScopes,
      principalClaim: 'sub',
      resourceMetadata: null,
      credentialHeaders: [],
    },
  };
}

// Rule tokens-13: A GET response of unknown length is cut when its token expires. The response to a POST goes on.
test.each([
  ['an event stream of the endpoint', '/mcp', 'text/event-stream'],
  ['an event stream of another path', '/sse', 'text/event-stream'],
  ['what goes on as another type', '/feed', 'application/x-ndjson'],
])(
  '%s is cut when the token of its request is over, and a call goes on',
  async (_what, path, type) => {
    const issuer = await AuthorizationServer.start();
    const server = await streamingServer(type);
    const clock = new ManualClock(Date.now());
    const { url } = await testGateway(server.url, { ...requiring(issuer), clock });
    const token = await issuer.token('ada');
    const called = await answerOf(hold(url, 'POST', '/mcp', token));
    const stream = await answerOf(hold(url, 'GET', path, token));
    expect([called.statusCode, stream.statusCode]).toEqual([200, 200]);
    const upstream = server.streams[1]!;
    const bothOver = Promise.all([over(stream.resume()), over(upstream)]);
    clock.advance(OVER_MS);
    await bothOver;
    expect([stream.complete, upstream.writableFinished]).toEqual([false, false]);
    expect((await answerOf(hold(url, 'GET', path, token))).statusCode).toBe(401);
    server.streams[0]!.end(`data: ${JSON.stringify(done(HELD.id))}\n\n`);
    expect(await text(called)).toContain('done');
  },
);

// Rule tokens-12 (RFC 7519, section 4.1.4): A listen stream ends 30 s after its token expires by the clock of the
// machine, with `mrtr-gateway/reason: token_not_valid`.
test('a listener is told that it ends because of its token, and hears nothing more', async () => {
  const issuer = await AuthorizationServer.start();
  const clock = new ManualClock(Date.now());
  const overrides = { ...requiring(issuer), clock };
  const { url } = await gatewayBefore(await SubscribingServer.start(), overrides);
  const token = await issuer.token('ada');
  const listener = await ListeningClient.open(url, { toolsListChanged: true }, bearer(token));
  clock.advance(OVER_MS);
  const answered = await listener.answered;
  expect(answered?.response.result).toEqual(ended(answered?.response.id));
  expect((await callTool(url, 'any', {}, bearer(token))).status).toBe(401);
});

// Rule tokens-14: A reload of `identity` ends only what goes on for callers whom it refuses or names differently.
test('a listener and a stream end when another configuration refuses their token, and those of others stay', async () => {
  const issuer = await AuthorizationServer.start();
  const streaming = await streamingServer();
  const { server, gateway, url } = await gatewayBefore(
    await SubscribingServer.start(),
    requiring(issuer),
  );
  const other = await testGateway(streaming.url, requiring(issuer));
  const [ada, bob] = [await issuer.token('ada', { scope: 'mcp:tools' }), await issuer.token('bob')];
  const listening = (token: string) =>
    ListeningClient.open(url, { toolsListChanged: true }, bearer(token));
  const [adas, bobs] = [await listening(ada), await listening(bob)];
  const stream = await answerOf(hold(other.url, 'GET', '/mcp', ada));
  const kept = await answerOf(hold(other.url, 'GET', '/mcp', bob));
  const streamOver = over(stream.resume());
  const narrower = requiring(issuer, 'mcp:admin');
  const reload = (of: typeof gateway, to: string) =>
    of.reload(() => ({ ...testConfig(to, narrower), listen: { host: '127.0.0.1', port: 0 } }));
  expect(await reload(gateway, server.url)).toBe(true);
  expect(await reload(other, streaming.url)).toBe(true);
  const answered = await adas.answered;
  expect(answered?.response.result).toEqual(ended(answered?.response.id));
  await streamOver;
  expect(stream.complete).toBe(false);
  await server.changed('tools');
  await bobs.until(2);
  expect(bobs.heard).toEqual(['tools/list_changed']);
  streaming.streams[1]!.end('data: last\n\n');
  expect(await text(kept)).toContain('last');
});
