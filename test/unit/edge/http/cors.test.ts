import fastify, { type FastifyInstance } from 'fastify';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { allowOrigin, respondToPreflight, isPreflight } from '../../../../src/edge/http/guard.ts';

const ORIGIN = 'https://app.example';
let server: FastifyInstance;

beforeAll(async () => {
  server = fastify();
  server.addHook('onRequest', async (request, reply) => {
    const { origin } = request.headers;
    if (origin !== undefined) allowOrigin(reply.raw, origin);
    if (isPreflight(request.raw))
      respondToPreflight(request.raw, reply.hijack().raw, ['x-api-key']);
  });
  server.all('/mcp', async () => ({ served: true }));
  await server.ready();
});
afterAll(() => server.close());

function preflight(asked: string | undefined) {
  return server.inject({
    method: 'OPTIONS',
    url: '/mcp',
    headers: {
      origin: ORIGIN,
      'access-control-request-method': 'POST',
      ...(asked === undefined ? {} : { 'access-control-request-headers': asked }),
    },
  });
}

async function allowedHeaders(asked?: string): Promise<string[]> {
  const { headers } = await preflight(asked);
  return String(headers['access-control-allow-headers']).split(', ');
}

describe('a preflight', () => {
  test('gets a response without a body, for the page that asked', async () => {
    const answer = await preflight(undefined);
    expect(answer.statusCode).toBe(204);
    expect(answer.body).toBe('');
    expect(answer.headers['access-control-allow-origin']).toBe(ORIGIN);
    expect(answer.headers.vary).toBe('origin');
    expect(answer.headers['access-control-allow-methods']).toContain('POST');
  });

  test('allows each header of the transport by its name: browsers take no wildcard for credentials', async () => {
    const allowed = await allowedHeaders();
    for (const name of [
      ...['authorization', 'content-type', 'accept', 'mcp-protocol-version', 'mcp-method'],
      ...['mcp-name', 'x-api-key'],
    ]) {
      expect(allowed).toContain(name);
    }
    expect(allowed).not.toContain('*');
  });

  // Rule callers-3.
  test('allows the Mcp-Param headers that it asks for, and nothing else that it asks for', async () => {
    const allowed = await allowedHeaders('Mcp-Param-Region, x-evil, mcp-param-a b, mcp-param-');
    expect(allowed).toContain('mcp-param-region');
    expect(allowed.filter((name) => name.startsWith('mcp-param'))).toEqual(['mcp-param-region']);
    expect(allowed).not.toContain('x-evil');
  });
});

test.each([
  ['without an origin', { 'access-control-request-method': 'POST' }],
  ['without the method it is about', { origin: ORIGIN }],
])('OPTIONS %s is no preflight', async (_what, headers) => {
  const answer = await server.inject({ method: 'OPTIONS', url: '/mcp', headers });
  expect(answer.json()).toEqual({ served: true });
});

test('a page may read how to authorize, and caches keep its response apart', async () => {
  const headers = { origin: ORIGIN };
  const answer = await server.inject({ method: 'POST', url: '/mcp', headers });
  expect(answer.headers['access-control-allow-origin']).toBe(ORIGIN);
  expect(answer.headers['access-control-expose-headers']).toContain('www-authenticate');
  expect(answer.headers.vary).toBe('origin');
  expect(answer.headers).not.toHaveProperty('access-control-allow-credentials');
});
