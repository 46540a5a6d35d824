/**
 * Tells the user of this machine from callers that a proxy on this machine lets in. Only the first has a session of
 * its own without credentials: callers behind a proxy cannot be told apart.
 */
import type { IncomingMessage } from 'node:http';
import { isLoopbackHost } from '../lib/http.ts';

export interface LocalUserOptions {
  /** The host on which the gateway listens. */
  readonly listenHost: string;
  readonly allowedHosts: readonly string[];
  readonly trustedProxies: readonly string[];
}

/** The parts of a request that show where it comes from. */
export interface RequestOrigin extends Pick<IncomingMessage, 'headers' | 'httpVersion'> {
  readonly socket: { readonly remoteAddress?: string | undefined };
}

/** What proxies add. One of them is enough: a client on this machine has no reason to send it. */
const PROXY_HEADERS: ReadonlySet<string> = new Set([
  'forwarded',
  'via',
  'x-real-ip',
  'x-client-ip',
  'x-cluster-client-ip',
  'x-original-host',
  'x-original-url',
  'true-client-ip',
  'cf-connecting-ip',
  'fastly-client-ip',
]);
const PROXY_PREFIXES = ['x-forwarded-', 'x-original-forwarded-', 'x-envoy-'];
/** The name in a `Host` header, without the port. */
const HOST_NAME = /^(\[[^\]]*\]|[^:]*)(?::\d{1,5})?$/;

/** Creates the check of anonymous requests. It returns why a request is not the local user's, or `null`. */
export function localUserCheck(
  options: LocalUserOptions,
): (request: RequestOrigin) => string | null {
  const excluded = excludedBy(options);
  if (excluded !== null) return () => excluded;
  return ({ headers, httpVersion, socket }) => {
    const { remoteAddress = '' } = socket;
    if (!isLoopbackHost(remoteAddress)) return 'the request comes from another machine';
    const name = HOST_NAME.exec(headers.host ?? '')?.[1] ?? '';
    if (!isLoopbackHost(name)) return 'Host is no loopback name';
    // No client of MCP sends these, and proxies do that add no header at all.
    if (httpVersion === '1.0') return 'the request is HTTP/1.0, as those of proxies';
    if (headers.connection?.toLowerCase() === 'close') {
      return 'the request has "Connection: close", as those of proxies';
    }
    const header = Object.keys(headers).find(isOfProxy);
    return header === undefined ? null : `the request has the header ${header}`;
  };
}

function isOfProxy(header: string): boolean {
  return PROXY_HEADERS.has(header) || PROXY_PREFIXES.some((prefix) => header.startsWith(prefix));
}

function excludedBy({ listenHost, allowedHosts, trustedProxies }: LocalUserOptions): string | null {
  if (!isLoopbackHost(listenHost)) return 'the gateway does not listen on loopback';
  if (allowedHosts.length > 0) return 'edge.allowedHosts is set';
  return trustedProxies.length > 0 ? 'edge.trustedProxies is set' : null;
}
