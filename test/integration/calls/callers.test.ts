/** Who calls, and what of the caller's request goes along to the server with a translated one. */
import { describe, expect, test } from 'vitest';
import { hurriedClock } from '../../fixtures/hurried-clock.ts';
import { startTestGateway } from '../../fixtures/gateways/gateway.ts';
import { callTool, send } from '../../fixtures/clients/modern-client.ts';
import { rawRequest, sendRaw, valuesOf } from '../../fixtures/clients/raw-http.ts';
import { INITIALIZE_RESULT, json, ScriptedServer } from '../../fixtures/servers/scripted-server.ts';
import { ground, rawCall, type Ground } from '../../fixtures/gateways/survival-testbed.ts';

const IDENTITY = { identity: { source: 'header', header: 'x-user' } } as const;
const TRACE = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';

/** The headers of everything that the server got after the first call of a caller. */
async function sentFor(field: Ground, headers: Record<string, string>) {
  // What the gateway asks at its start carries no caller's headers.
  await field.upstream.saw(({ method }) => method === 'DELETE');
  const before = field.upstream.received.length;
  expect((await callTool(field.url, 'echo', {}, { headers })).status).toBe(200);
  return field.upstream.received.slice(before);
}

describe('headers of the caller', () => {
  // Rule envelope-5 (streamable-http, "Server Behavior for Custom Headers"): Of the client's headers, only
  // `Authorization`, `traceparent`, `tracestate`, `Mcp-Param-*` and those of `upstream.forwardHeaders` go upstream.
  // The last are never logged or stored.
  test('that are the call’s own go with every message that it causes', async () => {
    const field = await ground();
    const own = {
      authorization: 'Bearer ada',
      traceparent: TRACE,
      tracestate: 'vendor=1',
      'mcp-param-region': 'us-west1',
      'mcp-param-text': '=?base64?SGVsbG8sIOS4lueVjA==?=',
    };
    const sent = await sentFor(field, { ...own, 'x-other': 'stays', 'user-agent': 'stays' });
    expect(sent.map(({ body }) => body?.method)).toContain('tools/call');
    for (const { headers } of sent) {
      expect(headers).toMatchObject(own);
      expect(headers).not.toHaveProperty('x-other');
      expect(headers['user-agent']).not.toBe('stays');
    }
  });

  // Rule envelope-5.
  test('that the operator names go with every message that it causes', async () => {
    const field = await ground({ upstream: { forwardHeaders: ['x-api-key', 'x-tenant'] } });
    const own = { 'x-api-key': 'key of ada', 'x-tenant': 'a' };
    const sent = await sentFor(field, { ...own, 'x-other': 'stays', x_api_key: 'stays' });
    expect(sent.map(({ body }) => body?.method)).toContain('tools/call');
    for (const { headers } of sent) {
      expect(headers).toMatchObject(own);
      expect(headers).not.toHaveProperty('x-other');
      expect(headers).not.toHaveProperty('x_api_key');
    }
    expect(JSON.stringify(field.gateway.log.lines)).not.toContain('key of ada');
  });

  // Rule envelope-7 (authorization, "Token Handling"): With `upstream.authorization: strip`, `Authorization` does not
  // go upstream. `upstream.headers` win over the client's.
  // Rule envelope-5.
  test('that are credentials stay here where the operator strips them', async () => {
    const field = await ground({ upstream: { authorization: 'strip' } });
    const sent = await sentFor(field, { authorization: 'Bearer ada' });
    expect(sent.map(({ body }) => body?.method)).toContain('tools/call');
    for (const { headers } of sent) expect(headers).not.toHaveProperty('authorization');
  });

  // Rules envelope-5, envelope-7.
  test('give way to the headers that the operator sets', async () => {
    const ours = { authorization: 'Bearer gateway', 'x-tenant': 'a' };
    const field = await ground({ upstream: { headers: ours } });
    const sent = await sentFor(field, { authorization: 'Bearer ada', 'x-tenant': 'b' });
    expect(sent.map(({ body }) => body?.method)).toContain('tools/call');
    for (const { headers } of sent) expect(headers).toMatchObject(ours);
  });
});

describe('where a proxy in front names the caller', () => {
  // Rule callers-5 (streamable-http, "Security & Endpoint" 3): With `identity.source: header`, a request without that
  // header gets 401 on every path. GET, HEAD and OPTIONS below `/.well-known/` pass.
  test.each<[string, string | Buffer]>([
    ['a sound call', rawCall()],
    ['a body that is no JSON', rawCall({ body: '{' })],
    ['a body of another type', rawCall({ changes: { 'content-type': 'text/plain' } })],
    ['a legacy request', rawCall({ body: '{"jsonrpc":"2.0","id":1,"method":"tools/list"}' })],
  ])('%s without an identity gets 401, whatever else is wrong with it', async (_what, request) => {
    const field = await ground(IDENTITY);
    const answer = await sendRaw(field.url, request);
    expect(answer.status).toBe(401);
    expect(valuesOf(answer, 'www-authenticate')).toEqual(['Trusted-Proxy']);
    expect(JSON.parse(answer.body)).toEqual({
      jsonrpc: '2.0',
      error: { code: -32600, message: expect.any(String), data: { mayHaveActed: 'unknown' } },
    });
    expect(field.upstream.methods()).not.toContain('tools/call');
    expect(field.upstream.methods()).not.toContain('tools/list');
  });

  // Rule callers-5.
  test('a call with an identity is served, and the name does not go upstream', async () => {
    const field = await ground(IDENTITY);
    const sent = await sentFor(field, { 'x-user': 'ada' });
    for (const { headers } of sent) expect(headers).not.toHaveProperty('x-user');
  });

  // Rule callers-5.
  test('without an identity only the metadata for authorization can be read', async () => {
    const field = await ground(IDENTITY);
    const statuses: number[] = [];
    for (const [method, path] of [
      ['GET', '/mcp'],
      ['DELETE', '/mcp'],
      ['GET', '/health'],
      ['POST', '/message'],
      ['GET', '/.well-known/oauth-protected-resource'],
    ] as const) {
      const headers = [
        ['host', 'localhost'],
        ['x-from', 'me'],
      ] as const;
      statuses.push((await sendRaw(field.url, rawRequest(method, path, headers))).status);
    }
    expect(statuses.slice(0, -1)).toEqual([401, 401, 401, 401]);
    const passed = field.upstream.received.filter(({ headers }) => headers['x-from'] === 'me');
    expect(passed.map(({ path }) => path)).toEqual(['/.well-known/oauth-protected-resource']);
  });
});

// Rule callers-9: With `identity.source: header` and `edge.trustedProxies`, only these proxies name callers. The
// header of any other peer gets 401.
test('only a trusted proxy names callers, where some are listed', async () => {
  const headers = { 'x-user': 'ada' };
  for (const [proxy, status] of [
    ['127.0.0.0/8', 200],
    ['::ffff:127.0.0.1', 200],
    ['10.0.0.1', 401],
  ] as const) {
    const field = await ground({ ...IDENTITY, edge: { trustedProxies: [proxy] } });
    expect((await callTool(field.url, 'echo', {}, { headers })).status, proxy).toBe(status);
    const refusals = field.gateway.log.named('identity.refused');
    expect(refusals).toHaveLength(status === 200 ? 0 : 1);
  }
});

// Rule passthrough-5 (authorization, "Error Handling"): A `WWW-Authenticate` challenge of the server reaches the
// client word for word, with the status 401 or 403.
// Rule failures-1.
test('a server that refuses the caller’s credentials says so to the caller, word for word', async () => {
  const challenge =
    'Bearer error="invalid_token", resource_metadata="https://mcp.example/.well-known/oauth-protected-resource"';
  const field = await ground({}, (_received, response) => {
    response.writeHead(401, { 'www-authenticate': challenge }).end();
  });
  const answer = await sendRaw(field.url, rawCall({ tool: 'secret' }));
  expect(answer.status).toBe(401);
  expect(valuesOf(answer, 'www-authenticate')).toEqual([challenge]);
  expect(JSON.parse(answer.body).error).toMatchObject({ data: { reason: 'unauthorized' } });
  expect((await send(field.url, 'server/discover')).status, 'others go on').toBe(200);
});

// Rule responses-10: A refusal of credentials on an event stream has its challenge in `error.data.wwwAuthenticate`:
// `realm`, `error`, `scope` and `resource_metadata`.
test('a challenge that comes after the response has begun is in the error', async () => {
  const challenge =
    'Bearer realm="mcp", error="insufficient_scope", scope="files:read", error_description="got Bearer ada-secret-token", resource_metadata="https://mcp.example/x"';
  const field = await ground({ clock: hurriedClock(100) }, (_received, response) => {
    setTimeout(() => response.writeHead(403, { 'www-authenticate': challenge }).end(), 200);
  });
  const headers = { authorization: 'Bearer ada-secret-token' };
  const { status, streamed, response } = await callTool(field.url, 'secret', {}, { headers });
  expect([status, streamed]).toEqual([200, true]);
  expect(response.error.data).toMatchObject({
    reason: 'unauthorized',
    wwwAuthenticate:
      'Bearer realm="mcp", error="insufficient_scope", scope="files:read", resource_metadata="https://mcp.example/x"',
  });
  expect(JSON.stringify(response)).not.toContain('ada-secret-token');
});

// Rule discover-8 (authorization, "Error Handling"; caching, "Cache Scope"): Results are kept by caller and
// credentials. If the server refuses credentials, the caller gets its status and challenge.
test('a server that wants credentials for everything is found out with those of the first who has some', async () => {
  const challenge = 'Bearer resource_metadata="https://mcp.example/.well-known/x"';
  const server = await ScriptedServer.start(({ method, headers, body }, response) => {
    if (headers.authorization !== 'Bearer good') {
      return json(response, 401, {}, { 'www-authenticate': challenge });
    }
    if (body?.method !== 'initialize')
      return void response.writeHead(method === 'GET' ? 405 : 202).end();
    const message = { jsonrpc: '2.0', id: body.id, result: INITIALIZE_RESULT };
    return json(response, 200, message, { 'mcp-session-id': 's' });
  });
  const gateway = await startTestGateway(server.url);
  const discover = (headers: Record<string, string>) =>
    send(gateway.url, 'server/discover', {}, { headers });
  for (const headers of [{}, { authorization: 'Bearer bad' }]) {
    const refused = await discover(headers);
    expect([refused.status, refused.headers.get('www-authenticate')]).toEqual([401, challenge]);
  }
  const known = await discover({ authorization: 'Bearer good' });
  expect(known.response.result).toMatchObject({ capabilities: INITIALIZE_RESULT.capabilities });
  expect((await discover({ authorization: 'Bearer bad' })).status, 'nor told afterwards').toBe(401);
  await gateway.close();
  await server.stop();
});
