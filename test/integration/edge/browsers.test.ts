/** What a web page may do, as its browser sees it. */
import { describe, expect, test } from 'vitest';
import { startTestGateway } from '../../fixtures/gateways/gateway.ts';
import { callTool } from '../../fixtures/clients/modern-client.ts';
import { ScriptedServer } from '../../fixtures/servers/scripted-server.ts';
import { callsOf, expectUnharmed, ground } from '../../fixtures/gateways/survival-testbed.ts';

const PAGE = 'https://app.example';
const WITH_PAGE = { edge: { allowedOrigins: [PAGE] } };

function preflight(url: string, origin: string, headers = 'mcp-method, mcp-param-region') {
  return fetch(url, {
    method: 'OPTIONS',
    headers: {
      origin,
      'access-control-request-method': 'POST',
      'access-control-request-headers': headers,
    },
  });
}

/** OPTIONS requests that reached the server. */
const passedOptions = (field: Awaited<ReturnType<typeof ground>>) =>
  field.upstream.received.filter(({ method }) => method === 'OPTIONS');

describe('a preflight', () => {
  // Rule callers-3: The CORS preflight of an allowed origin gets 204 with all headers of the transport and of the
  // configuration. That of another origin gets 403.
  test('of a page that may call gets its response here, and says what the call may carry', async () => {
    const field = await ground(WITH_PAGE);
    const answer = await preflight(field.url, PAGE);
    expect(answer.status).toBe(204);
    expect(answer.headers.get('access-control-allow-origin')).toBe(PAGE);
    const allowed = (answer.headers.get('access-control-allow-headers') ?? '').split(', ');
    expect(allowed).toEqual(
      expect.arrayContaining(['authorization', 'mcp-method', 'mcp-name', 'mcp-param-region']),
    );
    expect(passedOptions(field)).toEqual([]);
    await expectUnharmed(field);
  });

  // Rule callers-3.
  test('of any other page is refused', async () => {
    const field = await ground(WITH_PAGE);
    const answer = await preflight(field.url, 'https://evil.example');
    expect(answer.status).toBe(403);
    expect(answer.headers.get('access-control-allow-origin')).toBeNull();
    expect(passedOptions(field)).toEqual([]);
  });

  // Rule callers-3.
  test('to a path beside the routes is the server’s to respond to', async () => {
    const server = await ScriptedServer.start(({ method }, response) => {
      response.writeHead(method === 'OPTIONS' ? 204 : 401, { 'x-of': 'server' }).end();
    });
    const gateway = await startTestGateway(server.url, WITH_PAGE);
    const url = new URL('/.well-known/oauth-protected-resource', gateway.url).href;
    const answer = await preflight(url, PAGE);
    expect([answer.status, answer.headers.get('x-of')]).toEqual([204, 'server']);
    await gateway.close();
    await server.stop();
  });
});

// Rule callers-1.
test.each(['/mcp', '/health', '/.well-known/oauth-protected-resource'])(
  'a page that may not call gets nothing of %s',
  async (path) => {
    const field = await ground(WITH_PAGE);
    const headers = { origin: 'https://evil.example', 'x-from': 'client' };
    const answer = await fetch(new URL(path, field.url), { headers });
    expect(answer.status).toBe(403);
    expect(await answer.json()).toEqual({
      jsonrpc: '2.0',
      error: { code: -32600, message: expect.any(String), data: { mayHaveActed: 'no' } },
    });
    expect(field.upstream.received.filter((seen) => seen.headers['x-from'])).toEqual([]);
  },
);

test('the origin of a page is checked before anything else of its request', async () => {
  const field = await ground(WITH_PAGE);
  const headers = { origin: 'https://evil.example', 'content-type': 'text/plain' };
  const response = await fetch(field.url, { method: 'POST', headers, body: '{' });
  expect(response.status).toBe(403);
  expect(await response.json()).toMatchObject({ error: { code: -32600 } });
  await expectUnharmed(field);
});

// Rule callers-4: An allowed page can read its responses with `WWW-Authenticate` and `Mcp-Session-Id`. They have
// `Vary: origin`.
test('a page that may call can read its response, and how to authorize', async () => {
  const field = await ground(WITH_PAGE);
  const { status, headers } = await callTool(field.url, 'echo', {}, { headers: { origin: PAGE } });
  expect(status).toBe(200);
  expect(headers.get('access-control-allow-origin')).toBe(PAGE);
  expect(headers.get('access-control-expose-headers')).toContain('www-authenticate');
  expect(headers.get('vary')).toBe('origin');
  expect(callsOf(field)).toBe(1);
});
