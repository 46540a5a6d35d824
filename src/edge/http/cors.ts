/** Cross-origin access for the web pages of allowed origins (the Fetch standard, "CORS protocol"). */
import type { IncomingMessage, ServerResponse } from 'node:http';

/**
 * Browsers accept no wildcard for `authorization`, so every name is listed. `Mcp-Param-*` has any number of
 * names and is echoed.
 */
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

/** Lets the page of an allowed origin read the response. */
export function allowOrigin(response: ServerResponse, origin: string): void {
  response.setHeader('access-control-allow-origin', origin);
  response.setHeader('access-control-expose-headers', 'www-authenticate, mcp-session-id');
  response.setHeader('vary', 'origin');
}

/** Returns true if a browser asks whether it can send the real request. */
export function isPreflight({ method, headers }: IncomingMessage): boolean {
  if (method !== 'OPTIONS' || headers.origin === undefined) return false;
  return headers['access-control-request-method'] !== undefined;
}

/** Responds to the preflight of an allowed origin. */
export function respondToPreflight({ headers }: IncomingMessage, response: ServerResponse): void {
  const parameterHeaders = String(headers['access-control-request-headers'] ?? '')
    .split(',')
    .map((name) => name.trim().toLowerCase())
    .filter((name) => /^mcp-param-[!#$%&'*+.^_`|~0-9a-z-]+$/.test(name));
  response
    .writeHead(204, {
      'access-control-allow-methods': 'POST, GET, DELETE, OPTIONS',
      'access-control-allow-headers': [...ALLOWED_HEADERS, ...parameterHeaders].join(', '),
      'access-control-max-age': PREFLIGHT_AGE_SECONDS,
    })
    .end();
}
