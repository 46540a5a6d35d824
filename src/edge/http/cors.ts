/** Cross-origin access for the web pages that may call (the Fetch standard, "CORS protocol"). */
import type { FastifyReply, FastifyRequest } from 'fastify';

/** Browsers take no wildcard for `authorization`, hence every name; `Mcp-Param-*` is open-ended and echoed. */
const ALLOWED_HEADERS = [
  'authorization',
  'content-type',
  'accept',
  'mcp-protocol-version',
  'mcp-method',
  'mcp-name',
  'mcp-session-id',
  'last-event-id',
];
const PREFLIGHT_AGE_SECONDS = '600';

/** Lets the page at this (allowed) origin read the answer. */
export function allowOrigin(reply: FastifyReply, origin: string): void {
  reply.raw.setHeader('access-control-allow-origin', origin);
  reply.raw.setHeader('access-control-expose-headers', 'www-authenticate, mcp-session-id');
  reply.raw.setHeader('vary', 'origin');
}

/** True for a browser's question whether it may send the real request. */
export function isPreflight(request: FastifyRequest): boolean {
  const { origin, 'access-control-request-method': method } = request.headers;
  return request.method === 'OPTIONS' && origin !== undefined && method !== undefined;
}

/** Answers a preflight of an allowed origin. */
export function answerPreflight(request: FastifyRequest, reply: FastifyReply): void {
  const asked = String(request.headers['access-control-request-headers'] ?? '')
    .split(',')
    .map((name) => name.trim().toLowerCase())
    .filter((name) => /^mcp-param-[!#$%&'*+.^_`|~0-9a-z-]+$/.test(name));
  reply.hijack();
  reply.raw
    .writeHead(204, {
      'access-control-allow-methods': 'POST, GET, DELETE, OPTIONS',
      'access-control-allow-headers': [...ALLOWED_HEADERS, ...asked].join(', '),
      'access-control-max-age': PREFLIGHT_AGE_SECONDS,
    })
    .end();
}
