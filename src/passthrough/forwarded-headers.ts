/** Header fields of requests and responses that are passed through: which are forwarded, and which the gateway sets. */
import { validateHeaderName, validateHeaderValue, type IncomingHttpHeaders } from 'node:http';
import type { FastifyRequest } from 'fastify';

export interface RequestHeaderRules {
  /** Set on the request, in place of the client's. Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** Whether the client's `Authorization` header is forwarded. */
  readonly authorization: 'forward' | 'strip';
}

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

/** For the final recipient, so a sender must not name them in `Connection` (RFC 9110, 7.6.1). */
const END_TO_END =
  /^(accept(-.*)?|authorization|content-.*|cookie|host|last-event-id|mcp-.*|origin)$/;

/** Tells whether `Connection` asks to remove a header that the meaning of the request depends on. */
export function removesEndToEndHeaders({ connection }: IncomingHttpHeaders): boolean {
  return connectionOptions(connection).some((name) => END_TO_END.test(name));
}

/**
 * Returns the headers for the upstream.
 * @param incoming of the client, with the `host` of the upstream
 * @param hasBody whether the request has a body
 */
export function upstreamHeaders(
  request: FastifyRequest,
  incoming: IncomingHttpHeaders,
  rules: RequestHeaderRules,
  hasBody: boolean,
): IncomingHttpHeaders {
  const ours: Record<string, string> = { ...forwardedFor(request), ...rules.headers };
  const headers: IncomingHttpHeaders = {};
  for (const [name, value] of Object.entries(incoming)) {
    // Some servers read `_` as `-`: a client must not replace the operator's headers through that.
    const spelled = name.replaceAll('_', '-');
    if (spelled in ours || !passesUpstream(spelled, rules)) continue;
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
  /** Headers that the gateway has set on this response. They take precedence. */
  readonly set: Readonly<Record<string, unknown>>;
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
    if (!isSendable(name, value)) continue;
    if (name === 'vary' && rules.set[name] !== undefined) {
      headers[name] = `${String(rules.set[name])}, ${String(value)}`;
    } else if (rules.set[name] === undefined) {
      headers[name] = value;
    }
  }
  const { location } = headers;
  if (location !== undefined) headers.location = publicLocation(location, rules);
  return headers;
}

/** Rewrites a redirect within the upstream to the public address; any other stays as it is. */
function publicLocation(location: string, { upstream, path }: ResponseHeaderRules): string {
  if (!URL.canParse(location)) return location;
  const url = new URL(location);
  if (url.origin !== upstream.origin) return location;
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
