/**
 * A request that is passed through: its target, always at the origin of the upstream, its bounded body, and which header
 * fields are forwarded or set, in both directions.
 */
import { Transform, type Readable } from 'node:stream';
import {
  validateHeaderName,
  validateHeaderValue,
  type IncomingHttpHeaders,
  type IncomingMessage,
} from 'node:http';
import type { FastifyRequest } from 'fastify';
import { pathOf } from '../../lib/http.ts';
import { plainName, type KnownHeaders } from './known-headers.ts';

export const INVALID_TARGET =
  'Invalid request target: expected a path without dot segments or encoded slashes';

/**
 * Reads the path of a request target.
 * @param requestTarget of the request line, with the query
 * @returns `null` if an intermediary and the upstream could read it differently: dot segments in any spelling,
 *   another authority, a fragment, or characters that a URL does not allow
 */
export function plainPath(requestTarget: string): string | null {
  if (requestTarget.includes('#')) return null;
  const path = pathOf(requestTarget);
  const origin = 'http://upstream.invalid';
  const url = path.startsWith('/') ? URL.parse(path, origin) : null;
  if (url?.origin !== origin || url.pathname !== path) return null;
  return hasDotSegment(path) ? null : path;
}

/** Metadata for authorization, which clients read before they can authorize: RFC 9728 and RFC 8414, section 3. */
const METADATA = /^\/\.well-known\/[\w.~:@/-]+$/;

/** Tells whether a request reads metadata, with a path that no intermediary can take for another one. */
export function readsMetadata(method: string, requestTarget: string): boolean {
  if (!['GET', 'HEAD', 'OPTIONS'].includes(method)) return false;
  return METADATA.test(plainPath(requestTarget) ?? '');
}

/** Encoded slashes and backslashes count: the upstream may decode before it resolves. */
function hasDotSegment(path: string): boolean {
  let decoded: string;
  try {
    decoded = decodeURIComponent(path);
  } catch {
    return true;
  }
  return decoded.split(/[/\\]/).some((segment) => segment === '.' || segment === '..');
}

/** Returns the query of a request target, without `?`. */
export function queryOf(target = ''): string {
  return target.slice(pathOf(target).length + 1);
}

/**
 * Joins the configured query of the upstream and that of the client, without `?`. The client's parameters that a server could
 * take for one of the operator's are dropped.
 */
export function joinedQuery(upstream: URL, requestTarget: string): string {
  const own = upstream.search.slice(1);
  const clients = queryOf(requestTarget).split('&');
  const pinned = new Set(parameterNames(own));
  const others = clients.filter((part) => !parameterNames(part).some((name) => pinned.has(name)));
  return [own, ...others].filter((part) => part !== '').join('&');
}

/** Returns the names in a query as lax servers read them: some split at `;`, and PHP takes several characters for `_`. */
function parameterNames(query: string): string[] {
  return query
    .split(/[&;]/)
    .flatMap((part) => [...new URLSearchParams(part).keys()])
    .map((name) => name.trim().toLowerCase().split('\0', 1)[0] ?? '')
    .flatMap((name) => [name.split('[', 1)[0] ?? '', name])
    .map((name) => name.replaceAll(/[. [-]/g, '_'));
}

/** Tells whether a request says that it has a body. */
export function hasBody({ headers }: Pick<IncomingMessage, 'headers'>): boolean {
  const { 'transfer-encoding': coding, 'content-length': length } = headers;
  return coding !== undefined || Number(length ?? 0) > 0;
}

export class BodyTooLarge extends Error {
  readonly code = 'body_too_large';
  constructor(maxBytes: number) {
    super(`the body is larger than ${maxBytes} bytes`);
    this.name = 'BodyTooLarge';
  }
}

/**
 * Passes on a body of at most `maxBytes`. A longer one ends with a `BodyTooLarge` error. The source stays open, since
 * its connection carries the response.
 */
export function boundedBody(source: Readable, maxBytes: number): Readable {
  let bytes = 0;
  const bounded = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.byteLength;
      if (bytes > maxBytes) done(new BodyTooLarge(maxBytes));
      else done(null, chunk);
    },
  });
  source.once('error', (error) => bounded.destroy(error));
  // The reader may be gone when the body turns out to be too long.
  bounded.on('error', () => {});
  return source.pipe(bounded);
}

export interface RequestHeaderRules {
  /** Set on the request, in place of the client's. Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** Whether the client's `Authorization` header is forwarded. */
  readonly authorization: 'forward' | 'strip' | 'exchange';
}

/**
 * Those of a browser for all ports of a host, and so, on loopback, of all applications of this machine. They pass in neither
 * direction there.
 */
const SHARED_BY_PORTS = new Set(['clear-site-data', 'cookie', 'set-cookie']);

/** RFC 9110, section 7.6.1, and those that older intermediaries treat as hop-by-hop. */
const HOP_BY_HOP = new Set([
  'connection',
  'http2-settings',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authentication-info',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** Tells whether `Connection` asks to remove a header that the meaning of the request depends on. */
export function removesKnownHeaders(
  { connection }: IncomingHttpHeaders,
  known: KnownHeaders,
): boolean {
  return connectionOptions(connection).some((name) => known.has(name));
}

/**
 * Returns the headers for the upstream.
 * @param incoming of the client, with the `host` of the upstream
 * @param hasBody whether the request has a body
 */
export function upstreamHeaders(
  request: FastifyRequest,
  incoming: IncomingHttpHeaders,
  rules: RequestHeaderRules & { readonly onLoopback: boolean; readonly known: KnownHeaders },
  hasBody: boolean,
): IncomingHttpHeaders {
  const ours: Record<string, string> = { ...forwardedFor(request), ...rules.headers };
  const headers: IncomingHttpHeaders = {};
  for (const [name, value] of Object.entries(incoming)) {
    if (name in ours || rules.known.isDouble(name, incoming)) continue;
    if (!passesUpstream(plainName(name), rules)) continue;
    if (rules.onLoopback && SHARED_BY_PORTS.has(name)) continue;
    if (name === 'content-length' && !hasBody) continue;
    headers[name] = value;
  }
  // The library adds a type; a body without one keeps none.
  if (request.headers['content-type'] === undefined) delete headers['content-type'];
  return Object.assign(headers, ours);
}

function passesUpstream(name: string, { authorization }: RequestHeaderRules): boolean {
  if (name === 'authorization') return authorization === 'forward';
  // The gateway's own HTTP server has responded to `Expect`.
  if (name === 'expect' || name === 'forwarded' || name === 'x-real-ip') return false;
  return !HOP_BY_HOP.has(name) && !name.startsWith('x-forwarded-');
}

/** Returns the client's address, host and protocol, as the trusted proxies report them. */
function forwardedFor(request: FastifyRequest): Record<string, string> {
  const nearestFirst = request.ips ?? [request.ip];
  return {
    'x-forwarded-for': nearestFirst.toReversed().join(', '),
    'x-forwarded-host': request.host,
    'x-forwarded-proto': request.protocol,
  };
}

export interface ResponseHeaderRules {
  readonly upstream: URL;
  /** The public path of the upstream's path. */
  readonly path: string;
  /** Rewrites a challenge of the server. */
  readonly challenge: (challenge: string) => string;
  /** Headers that the gateway has set on this response. They take precedence. */
  readonly set: Readonly<Record<string, unknown>>;
  /** Whether the gateway listens on loopback. */
  readonly onLoopback: boolean;
}

/** Returns the headers for the client, without those that HTTP does not allow. */
export function downstreamHeaders(
  upstream: IncomingHttpHeaders,
  rules: ResponseHeaderRules,
): IncomingHttpHeaders {
  const named = new Set(connectionOptions(upstream.connection));
  const headers: IncomingHttpHeaders = {};
  for (const [name, value] of Object.entries(upstream)) {
    if (value === undefined || HOP_BY_HOP.has(name) || named.has(name)) continue;
    if (rules.onLoopback && SHARED_BY_PORTS.has(name)) continue;
    if (!isSendable(name, value)) continue;
    if (name === 'vary' && rules.set[name] !== undefined) {
      headers[name] = `${String(rules.set[name])}, ${String(value)}`;
    } else if (rules.set[name] === undefined) {
      headers[name] = value;
    }
  }
  const challenges = headers['www-authenticate'] as string | string[] | undefined;
  if (challenges !== undefined) {
    // Several challenges are one list (RFC 9110, section 11.6.1).
    headers['www-authenticate'] = [challenges].flat().map(rules.challenge).join(', ');
  }
  const { location } = headers;
  if (location !== undefined) headers.location = publicLocation(location, rules);
  return rules.onLoopback ? Object.assign(headers, withoutOrigin(headers)) : headers;
}

/**
 * Returns the headers that keep what a server sends from being a page of this machine, which browsers and local applications
 * trust: a document gets an origin of its own, whatever other policies it has (Content Security Policy 3, "sandbox").
 */
function withoutOrigin(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  const policies = ['sandbox', headers['content-security-policy'] ?? []].flat();
  return {
    'content-security-policy': policies.join(', '),
    'x-content-type-options': 'nosniff',
  };
}

/** Rewrites a redirect within the upstream to the public address; any other stays as it is. */
function publicLocation(location: string, { upstream, path }: ResponseHeaderRules): string {
  const url = URL.parse(location);
  if (url?.origin !== upstream.origin) return location;
  const pathname = url.pathname === upstream.pathname ? path : url.pathname;
  // A path that begins with two slashes would name another host.
  return `${pathname.replace(/^\/+/, '/')}${url.search}${url.hash}`;
}

function isSendable(name: string, value: string | string[]): boolean {
  try {
    validateHeaderName(name);
    for (const one of [value].flat()) validateHeaderValue(name, one);
    return true;
  } catch {
    return false;
  }
}

function connectionOptions(connection: string | string[] | undefined): string[] {
  return [connection ?? []]
    .flat()
    .flatMap((line) => line.split(','))
    .map((name) => name.trim().toLowerCase())
    .filter((name) => name !== '');
}
