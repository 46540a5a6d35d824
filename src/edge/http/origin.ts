/**
 * The checks of `Origin` and `Host` against DNS rebinding (streamable-http, "Security & Endpoint"), and cross-origin
 * access for the web pages of allowed origins (the Fetch standard, "CORS protocol").
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { isLoopbackHost } from '../../lib/loopback.ts';

export interface OriginPolicy {
  /** Origins as browsers send them, such as `https://app.example.com`. */
  readonly allowedOrigins: readonly string[];
  /** Values of `Host` besides the names of this machine, such as `mcp.example.com`. */
  readonly allowedHosts: readonly string[];
  /** Whether pages served from this machine are allowed, as they are if the gateway listens on loopback. */
  readonly allowLoopback: boolean;
}

/** Returns true if the page is allowed. A request without an `Origin` comes from no page. */
export function isAllowedOrigin(origin: string | undefined, policy: OriginPolicy): boolean {
  if (origin === undefined) return true;
  if (policy.allowedOrigins.includes(origin)) return true;
  return policy.allowLoopback && URL.canParse(origin) && isLoopbackUrl(new URL(origin));
}

const HOST = /^(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::\d{1,5})?$/i;

/**
 * Returns true if the `Host` names this gateway. On loopback another name means that a page has rebound its
 * own name to this machine. Its GET requests carry no `Origin`, so that only `Host` shows it.
 */
export function isAllowedHost(host: string, policy: OriginPolicy): boolean {
  if (!policy.allowLoopback) return true;
  const name = HOST.exec(host)?.[1];
  if (name === undefined) return false;
  return (
    isLoopbackHost(name) ||
    policy.allowedHosts.includes(name.toLowerCase()) ||
    policy.allowedOrigins.some(
      (origin) => URL.canParse(origin) && new URL(origin).hostname === name.toLowerCase(),
    )
  );
}

function isLoopbackUrl({ protocol, hostname }: URL): boolean {
  return /^https?:$/.test(protocol) && isLoopbackHost(hostname);
}

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

/**
 * Responds to the preflight of an allowed origin.
 * @param requestHeaders further headers that pages can send, in lower case
 */
export function respondToPreflight(
  { headers }: IncomingMessage,
  response: ServerResponse,
  requestHeaders: readonly string[],
): void {
  const parameterHeaders = String(headers['access-control-request-headers'] ?? '')
    .split(',')
    .map((name) => name.trim().toLowerCase())
    .filter((name) => /^mcp-param-[!#$%&'*+.^_`|~0-9a-z-]+$/.test(name));
  response
    .writeHead(204, {
      'access-control-allow-methods': 'POST, GET, DELETE, OPTIONS',
      'access-control-allow-headers': [
        ...ALLOWED_HEADERS,
        ...requestHeaders,
        ...parameterHeaders,
      ].join(', '),
      'access-control-max-age': PREFLIGHT_AGE_SECONDS,
    })
    .end();
}
