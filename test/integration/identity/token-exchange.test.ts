/** Tokens of callers that are exchanged for tokens of the server, at a real authorization server (RFC 8693). */
import { decodeJwt } from 'jose';
import { describe, expect, test } from 'vitest';
import type { Config, HttpUpstreamConfig } from '../../../src/config/schema.ts';
import { systemClock, type Clock } from '../../../src/lib/clock.ts';
import { startTestGateway } from '../../fixtures/gateways/gateway.ts';
import { answersOf, greeter, reasonOf, text } from '../../fixtures/gateways/replica-testbed.ts';
import { LegacyHttpClient } from '../../fixtures/clients/legacy-http.ts';
import { callTool } from '../../fixtures/clients/modern-client.ts';
import { startModernServer } from '../../fixtures/servers/modern-server.ts';
import {
  AuthorizationServer,
  bearer,
  FORBIDDEN,
  RESOURCE,
  SECRET,
} from '../../fixtures/servers/authorization-server.ts';
import { json, legacyServer } from '../../fixtures/servers/scripted-server.ts';
import { LegacyServer } from '../../fixtures/servers/legacy-server.ts';
import { hurriedClock } from '../../fixtures/hurried-clock.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

type TokenExchange = NonNullable<HttpUpstreamConfig['tokenExchange']>;

const UPSTREAM = 'https://billing.internal/mcp';

function configOf(issuer: AuthorizationServer, changes: Partial<TokenExchange> = {}) {
  const identity: Extract<Config['identity'], { source: 'jwt' }> = {
    source: 'jwt',
    mode: 'strict',
    issuer: issuer.issuer,
    audiences: [RESOURCE],
    jwks: { url: issuer.jwksUrl, file: null },
    requiredScopes: [],
    principalClaim: 'sub',
    resourceMetadata: null,
    credentialHeaders: [],
  };
  const tokenExchange: TokenExchange = {
    tokenEndpoint: new URL('/token', issuer.issuer),
    clientId: 'gateway',
    clientSecret: SECRET,
    resource: UPSTREAM,
    scopes: ['mcp:tools'],
    ...changes,
  };
  return { identity, upstream: { authorization: 'exchange', tokenExchange } } as const;
}

async function start(changes: Partial<TokenExchange> = {}, clock: Clock = systemClock) {
  const issuer = await AuthorizationServer.start();
  const server = await legacyServer(({ body }, response) =>
    json(response, 200, { jsonrpc: '2.0', id: body.id, result: { content: [] } }),
  );
  stopAfterTest(() => server.stop());
  const gateway = await startTestGateway(server.url, { ...configOf(issuer, changes), clock });
  stopAfterTest(() => gateway.close());
  const tokens = () => server.received.map(({ headers }) => headers.authorization);
  return { issuer, server, gateway, url: gateway.url, tokens };
}

// Rule exchange-1 (RFC 8693, section 2): With `upstream.authorization: exchange`, the server gets a token for the
// same subject that was issued for it.
test('the server gets a token of its own for each caller, and one exchange serves many calls', async () => {
  const { issuer, url, tokens } = await start();
  const [ada, bob] = [await issuer.token('ada'), await issuer.token('bob')];
  const calls = Array.from({ length: 5 }, () => callTool(url, 'work', {}, bearer(ada)));
  for (const { response } of await Promise.all(calls)) expect(response.error).toBeUndefined();
  await callTool(url, 'work', {}, bearer(bob));
  expect(issuer.exchanged).toEqual([ada, bob]);
  const sent = new Set(tokens().filter((token) => token !== undefined));
  const claims = [...sent].map((token) => decodeJwt(token.replace('Bearer ', '')));
  expect(claims.map(({ sub, aud }) => ({ sub, aud }))).toEqual([
    { sub: 'ada', aud: UPSTREAM },
    { sub: 'bob', aud: UPSTREAM },
  ]);
});

// Rule exchange-1.
test('a token that is spelled in another way is not exchanged again', async () => {
  const { issuer, url } = await start();
  const token = await issuer.token('ada');
  // The last character of a signature has bits that say nothing.
  const others = [...'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_']
    .map((character) => token.slice(0, -1) + character)
    .filter((other) => bytesOf(other) === bytesOf(token));
  expect(others).toHaveLength(16);
  for (const spelled of [token, ...others, `${token}==`]) {
    const { response } = await callTool(url, 'work', {}, bearer(spelled));
    expect(response.error).toBeUndefined();
  }
  expect(issuer.exchanged).toEqual([token]);
});

function bytesOf(token: string): string {
  return Buffer.from(token.split('.')[2] ?? '', 'base64url').toString('hex');
}

// Rule exchange-1.
test('a retry with a renewed token goes on with the session of its caller', async () => {
  const issuer = await AuthorizationServer.start();
  const { tools, effects } = greeter();
  const legacy = await LegacyServer.start({ tools });
  stopAfterTest(() => legacy.stop());
  const gateway = await startTestGateway(legacy.url, configOf(issuer));
  stopAfterTest(() => gateway.close());
  const asked = await callTool(gateway.url, 'greet', {}, bearer(await issuer.token('ada')));
  const retried = await callTool(
    gateway.url,
    'greet',
    answersOf(asked, 'Ada'),
    bearer(await issuer.token('ada')),
  );
  expect([text(retried), effects]).toEqual(['Hello Ada', ['Ada']]);
});

// Rule exchange-1.
test('requests of legacy clients get the token as well', async () => {
  const { issuer, url, tokens } = await start();
  const token = await issuer.token('ada');
  const sent = await fetch(url, {
    method: 'POST',
    headers: { ...bearer(token).headers, 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'work' } }),
  });
  expect(sent.status).toBe(200);
  const last = tokens().at(-1) ?? '';
  expect(last).not.toContain(token);
  expect(decodeJwt(last.replace('Bearer ', ''))).toMatchObject({ sub: 'ada', aud: UPSTREAM });
});

// Rule exchange-2 (RFC 8693, section 2.2.2): A token that cannot be exchanged gets 401 or 403. If the authorization
// server fails, the caller gets 502.
describe('without a token for the server', () => {
  test.each<[string, Partial<TokenExchange>, number, string]>([
    ['it is not for this caller', { resource: FORBIDDEN }, 403, 'invalid_target'],
    ['the gateway is refused', { clientSecret: 'another secret' }, 502, 'invalid_client'],
    [
      'nobody responds',
      { tokenEndpoint: new URL('http://127.0.0.1:9/token') },
      502,
      'ECONNREFUSED',
    ],
  ])('since %s', async (_why, changes, status, problem) => {
    const { issuer, url, server, gateway } = await start(changes);
    const token = await issuer.token('ada');
    const refused = await callTool(url, 'work', {}, bearer(token));
    expect(refused.status).toBe(status);
    expect(refused.response.error.data.mayHaveActed).toBe('unknown');
    expect(server.methods()).not.toContain('tools/call');
    const lines = gateway.log.named('identity.exchange_failed');
    expect(lines[0]?.['problem']).toContain(problem);
    const logged = JSON.stringify(gateway.log.lines);
    for (const secret of [token, SECRET, 'another secret']) expect(logged).not.toContain(secret);
  });

  test('since the authorization server no longer knows the token', async () => {
    const { issuer, url } = await start();
    const token = await issuer.token('ada');
    await issuer.rotate();
    const refused = await callTool(url, 'work', {}, bearer(token));
    expect(refused.status).toBe(401);
    expect(refused.headers.get('www-authenticate')).toContain('error="invalid_token"');
    expect(reasonOf(refused)).toBeUndefined();
  });

  test('the authorization server is not asked for each request', async () => {
    const { issuer, url } = await start({ resource: FORBIDDEN }, hurriedClock(0.01));
    const token = await issuer.token('ada');
    for (let times = 0; times < 5; times += 1) {
      expect((await callTool(url, 'work', {}, bearer(token))).status).toBe(403);
    }
    expect(issuer.exchanged).toEqual([token]);
  });
});

// Rule exchange-1.
test('a modern server gets the exchanged token in the session of a legacy client, too', async () => {
  const issuer = await AuthorizationServer.start();
  const server = await startModernServer();
  const gateway = await startTestGateway(server.url, configOf(issuer));
  stopAfterTest(() => gateway.close());
  const token = await issuer.token('ada');
  const client = await LegacyHttpClient.open(gateway.url, { ...bearer(token).headers });
  expect(await client.text('echo')).toBe('{}');
  const sent = server.headers.filter((headers) => headers['mcp-method'] === 'tools/call');
  expect(sent.map(({ authorization = '' }) => decodeJwt(authorization.slice(7)))).toMatchObject([
    { sub: 'ada', aud: UPSTREAM },
  ]);
  expect(issuer.exchanged).toEqual([token]);
});
