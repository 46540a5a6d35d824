/** Callers with access tokens of a real authorization server: who gets in, who does not, and how each is told. */
import { describe, expect, test } from 'vitest';
import { systemClock, type Clock } from '../../../src/lib/clock.ts';
import type { Config } from '../../../src/config/schema.ts';
import {
  AuthorizationServer,
  bearer,
  LIFETIME_SECONDS,
  RESOURCE,
} from '../../fixtures/servers/authorization-server.ts';
import { callTool } from '../../fixtures/clients/modern-client.ts';
import { startTestGateway, type GatewayOverrides } from '../../fixtures/gateways/gateway.ts';
import { ground, rawCall } from '../../fixtures/gateways/survival-testbed.ts';
import {
  answersOf,
  greeter,
  legacyServer,
  reasonOf,
  text,
} from '../../fixtures/gateways/replica-testbed.ts';
import { rawRequest, sendRaw, valuesOf } from '../../fixtures/clients/raw-http.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

type TokenIdentity = Extract<Config['identity'], { source: 'jwt' }>;

const METADATA = {
  resource: RESOURCE,
  scopesSupported: ['mcp:tools'],
};
const METADATA_URL = 'https://mcp.example.com/.well-known/oauth-protected-resource/mcp';

const LATER: Clock = { ...systemClock, now: () => Date.now() + (LIFETIME_SECONDS + 30) * 1_000 };

function identityOf(
  issuer: Pick<AuthorizationServer, 'issuer' | 'jwksUrl'>,
  changes: Partial<TokenIdentity> = {},
): TokenIdentity {
  return {
    source: 'jwt',
    mode: 'strict',
    issuer: issuer.issuer,
    audiences: [RESOURCE],
    jwks: { url: issuer.jwksUrl, file: null },
    requiredScopes: ['mcp:tools'],
    principalClaim: 'sub',
    resourceMetadata: METADATA,
    credentialHeaders: [],
    ...changes,
  };
}

async function guarded(changes: Partial<TokenIdentity> = {}, overrides: GatewayOverrides = {}) {
  const issuer = await AuthorizationServer.start();
  const upstream = { authorization: 'strip' } as const;
  const field = await ground({ identity: identityOf(issuer, changes), upstream, ...overrides });
  return { issuer, ...field };
}

/** A gateway in front of a server whose tool asks a name. */
async function greeting(changes: Partial<TokenIdentity> = {}, clock: Clock = systemClock) {
  const issuer = await AuthorizationServer.start();
  const { tools } = greeter();
  const legacy = await legacyServer({ tools });
  const identity = identityOf(issuer, changes);
  const gateway = await startTestGateway(legacy.url, { identity, clock });
  stopAfterTest(() => gateway.close());
  return { issuer, legacy, gateway, url: gateway.url };
}

describe('a caller without a valid token', () => {
  // Rule tokens-6 (authorization, "Error Handling"): A request without a token gets 401 with a challenge that has the
  // scopes and the metadata URL. A refused token adds `error="invalid_token"`.
  // Rule callers-5.
  test('gets a challenge that says where to get one, whatever it requests', async () => {
    const { url, upstream } = await guarded();
    await upstream.saw(({ method }) => method === 'DELETE');
    const before = upstream.received.length;
    const challenge = `Bearer scope="mcp:tools", resource_metadata="${METADATA_URL}"`;
    for (const request of [
      rawCall(),
      rawCall({ body: '{' }),
      rawCall({ body: '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}' }),
      rawRequest('GET', '/mcp', [['host', 'localhost']]),
      rawRequest('DELETE', '/mcp', [['host', 'localhost']]),
      rawRequest('POST', '/messages', [['host', 'localhost']]),
      rawCall({ changes: { authorization: 'Basic YWRhOmFkYQ==' } }),
    ]) {
      const answer = await sendRaw(url, request);
      expect([answer.status, ...valuesOf(answer, 'www-authenticate')]).toEqual([401, challenge]);
      const data = { mayHaveActed: request.includes('POST ') ? 'unknown' : 'no' };
      expect(JSON.parse(answer.body).error).toMatchObject({ code: -32600, data });
    }
    expect(upstream.received.slice(before)).toEqual([]);
  });

  // Rule dialects-3.
  test('is told of the metadata of a dialect on the path of that dialect', async () => {
    const { url } = await guarded({}, { dialects: { sagas: '/drafts/sagas' } });
    const metadata = '/.well-known/oauth-protected-resource/drafts/sagas';
    const refused = await sendRaw(
      url,
      rawRequest('POST', '/drafts/sagas', [['host', 'localhost']]),
    );
    expect([refused.status, ...valuesOf(refused, 'www-authenticate')]).toEqual([
      401,
      `Bearer scope="mcp:tools", resource_metadata="https://mcp.example.com${metadata}"`,
    ]);
    const document = await fetch(new URL(metadata, url));
    expect(await document.json()).toMatchObject({
      resource: 'https://mcp.example.com/drafts/sagas',
    });
  });

  // Rule tokens-6.
  test.each([
    ['has expired', 'it has expired'],
    ['is for another resource', 'it is for another audience'],
    ['is from another issuer', 'it is from another issuer'],
    ['is signed with another key', 'its key is not a key of the issuer'],
    ['is no JWT', 'it is not a valid JWT'],
  ])('is told why, if its token %s', async (what, problem) => {
    const other = await AuthorizationServer.start();
    const { url, issuer, upstream, gateway } = await guarded(
      what === 'is from another issuer' ? { jwks: identityOf(other).jwks } : {},
      what === 'has expired' ? { clock: LATER } : {},
    );
    const resource = what === 'is for another resource' ? 'https://other.example/mcp' : RESOURCE;
    const signer = /another (?:issuer|key)/.test(what) ? other : issuer;
    const token = what === 'is no JWT' ? 'opaque' : await signer.token('ada', { resource });
    const answer = await callTool(url, 'echo', {}, bearer(token));
    expect(answer.status).toBe(401);
    expect(answer.headers.get('www-authenticate')).toBe(
      `Bearer error="invalid_token", error_description="The access token is refused: ${problem}", ` +
        `scope="mcp:tools", resource_metadata="${METADATA_URL}"`,
    );
    expect(gateway.log.named('identity.refused')).toEqual([
      { problem, expected: expect.any(String) as string, requests: 1 },
    ]);
    expect(upstream.methods()).not.toContain('tools/call');
  });

  // Rule tokens-3 (authorization, "Scope Challenge Handling"): A token that lacks a scope gets 403 with
  // `error="insufficient_scope"` and all scopes that are needed.
  test('is told which scopes are needed, if its token lacks one', async () => {
    const { url, issuer, upstream, gateway } = await guarded({
      requiredScopes: ['mcp:tools', 'mcp:admin'],
    });
    const token = await issuer.token('ada', { scope: 'mcp:tools' });
    const answer = await callTool(url, 'echo', {}, bearer(token));
    expect(answer.status).toBe(403);
    expect(answer.headers.get('www-authenticate')).toBe(
      `Bearer error="insufficient_scope", scope="mcp:tools mcp:admin", resource_metadata="${METADATA_URL}"`,
    );
    expect(gateway.log.named('identity.refused')).toEqual([
      {
        problem: 'it lacks a scope',
        expected: 'identity.requiredScopes: mcp:tools, mcp:admin',
        requests: 1,
      },
    ]);
    expect(upstream.methods()).not.toContain('tools/call');
    const enough = await issuer.token('ada');
    expect((await callTool(url, 'echo', {}, bearer(enough))).status).toBe(200);
  });

  // Rule tokens-7: With `identity.mode: optional`, callers without a token are anonymous. An invalid token is
  // refused.
  test('is served only if tokens are optional, and only without any', async () => {
    const { url } = await guarded({ mode: 'optional' });
    expect((await callTool(url, 'echo')).status).toBe(200);
    expect((await callTool(url, 'echo', {}, bearer('opaque'))).status).toBe(401);
  });
});

describe('a caller with a token', () => {
  // Rule tokens-8 (authorization security considerations, "Token Audience Binding and Validation"): A token for the
  // gateway does not reach the server, unless `upstream.authorization` is `forward`.
  test('is served, and its token stays here', async () => {
    const { url, issuer, upstream } = await guarded();
    await upstream.saw(({ method }) => method === 'DELETE');
    const before = upstream.received.length;
    expect((await callTool(url, 'echo', {}, bearer(await issuer.token('ada')))).status).toBe(200);
    const sent = upstream.received.slice(before);
    expect(sent.map(({ body }) => body?.method)).toContain('tools/call');
    for (const { headers } of sent) expect(headers).not.toHaveProperty('authorization');
  });

  // Rule tokens-9: Sessions and parked calls belong to the principal, and outlive its tokens and the keys that signed
  // them.
  // Rules pointer-3, pointer-4.
  test('goes on with a parked call after its token and the keys of the issuer have changed', async () => {
    let laterMs = 0;
    const clock: Clock = { ...systemClock, elapsed: () => systemClock.elapsed() + laterMs };
    const { issuer, legacy, url } = await greeting({}, clock);
    const first = await issuer.token('ada');
    const asked = await callTool(url, 'greet', {}, bearer(first));
    await issuer.rotate();
    laterMs = 10_000;
    const second = await issuer.token('ada');
    const bob = await issuer.token('bob');
    const stolen = await callTool(url, 'greet', answersOf(asked, 'Mallory'), bearer(bob));
    expect(stolen.response.error).toMatchObject({ code: -32602 });
    const late = await callTool(url, 'greet', answersOf(asked, 'Ada'), bearer(first));
    expect([late.status, reasonOf(late)], 'the key was withdrawn').toEqual([401, undefined]);
    const done = await callTool(url, 'greet', answersOf(asked, 'Ada'), bearer(second));
    expect(text(done)).toBe('Hello Ada');
    await callTool(url, 'greet', {}, bearer(second));
    const sessions = legacy.received.filter(({ method }) => method === 'tools/call');
    expect(new Set(sessions.map(({ session }) => session)).size).toBe(1);
  });

  // Rule passthrough-11.
  test('has its legacy session to itself, and keeps it with a new token', async () => {
    const { issuer, url } = await greeting();
    const initialize = await legacyRequest(url, await issuer.token('ada'), 'initialize');
    const session = { 'mcp-session-id': initialize.headers.get('mcp-session-id') ?? '' };
    const list = async (client: string) =>
      (await legacyRequest(url, await issuer.token(client), 'tools/list', session)).status;
    expect([initialize.status, await list('ada'), await list('bob')]).toEqual([200, 200, 404]);
  });

  // Rule tokens-5.
  test('is told to retry later while the keys cannot be read, and nobody else gets in', async () => {
    const { issuer: stopped } = await AuthorizationServer.start().then(async (issuer) => {
      const token = await issuer.token('ada');
      await issuer.stop();
      return { issuer: { issuer, token } };
    });
    const field = await ground({ identity: identityOf(stopped.issuer), admin: true });
    const answer = await callTool(field.url, 'echo', {}, bearer(stopped.token));
    expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '5']);
    expect(answer.response.error).toMatchObject({
      code: -32603,
      data: { mayHaveActed: 'unknown' },
    });
    expect((await callTool(field.url, 'echo')).status).toBe(401);
    const ready = await fetch(`${field.gateway.adminUrl}/readyz`);
    expect([ready.status, await ready.json()]).toEqual([
      503,
      expect.objectContaining({ identity: 'no keys to verify tokens with' }),
    ]);
    expect(field.gateway.log.named('identity.keys_unavailable')).not.toEqual([]);
    expect(field.upstream.methods()).not.toContain('tools/call');
  });
});

function legacyRequest(
  url: string,
  token: string,
  method: string,
  headers: Record<string, string> = {},
): Promise<Response> {
  const clientInfo = { name: 'old', version: '1' };
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo };
  return fetch(url, {
    method: 'POST',
    headers: {
      ...bearer(token).headers,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...headers,
    },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method,
      params: method === 'initialize' ? params : {},
    }),
  });
}

describe('the metadata of the protected resource', () => {
  // Rule tokens-10 (RFC 9728, sections 3 and 3.1): With `identity.resourceMetadata`, the gateway serves its own
  // metadata to everybody at the well-known paths. Those of the server get 404.
  test('is the gateway’s own where it is configured, and never the server’s', async () => {
    const { url, issuer, upstream } = await guarded();
    const get = (path: string) => fetch(new URL(`/.well-known/${path}`, url));
    for (const path of ['oauth-protected-resource/mcp', 'oauth-protected-resource']) {
      const answer = await get(path);
      expect([answer.status, await answer.json()]).toEqual([
        200,
        {
          resource: RESOURCE,
          authorization_servers: [issuer.issuer],
          scopes_supported: ['mcp:tools'],
          bearer_methods_supported: ['header'],
        },
      ]);
    }
    for (const path of ['oauth-protected-resource/other', 'oauth-authorization-server/mcp']) {
      expect((await get(path)).status, path).toBe(404);
    }
    expect(upstream.received.filter(({ path }) => path.startsWith('/.well-known'))).toEqual([]);
  });

  // Rule tokens-10.
  test('is the server’s where the gateway has none', async () => {
    const { url, upstream } = await guarded({ resourceMetadata: null });
    await fetch(new URL('/.well-known/oauth-protected-resource/mcp', url));
    const passed = upstream.received.filter(({ path }) => path.startsWith('/.well-known'));
    expect(passed).toHaveLength(1);
    const refused = await callTool(url, 'echo');
    expect(refused.headers.get('www-authenticate')).toBe('Bearer scope="mcp:tools"');
  });

  // Rule tokens-10.
  test('can be read by a page of an allowed origin', async () => {
    const origin = 'https://app.example';
    const { url } = await guarded({}, { edge: { allowedOrigins: [origin] } });
    const at = new URL('/.well-known/oauth-protected-resource/mcp', url);
    const asked = { origin, 'access-control-request-method': 'GET' };
    for (const method of ['OPTIONS', 'GET']) {
      const answer = await fetch(at, { method, headers: method === 'GET' ? { origin } : asked });
      expect(answer.ok).toBe(true);
      expect(answer.headers.get('access-control-allow-origin')).toBe(origin);
    }
  });
});
