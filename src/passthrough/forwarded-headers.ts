/** Which header fields pass from one side to the other, and which of them are ours to set. */
import { validateHeaderName, validateHeaderValue, type IncomingHttpHeaders } from 'node:http';
import type { FastifyRequest } from 'fastify';

export interface RequestHeaderRules {
  /** Set on the request; they win over the client's. Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** What becomes of the client's `Authorization` header. */
  readonly authorization: 'forward' | 'strip';
}

/** RFC 9110, section 7.6.1, and what older intermediaries take for hop-by-hop. */
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

/** For the recipient at the end, so no sender may name them in `Connection` (RFC 9110, 7.6.1). */
const END_TO_END =
  /^(accept(-.*)?|authorization|content-.*|cookie|host|last-event-id|mcp-.*|origin)$/;

/** True when `Connection` asks for the removal of a header that decides what the request means. */
export function removesEndToEndHeaders({ connection }: IncomingHttpHeaders): boolean {
  return connectionOptions(connection).some((name) => END_TO_END.test(name));
}

/**
 * The headers for the upstream.
 * @param incoming the client's, `host` being the upstream's already
 * @param hasBody whether a body is sent along
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
    // Some servers read `_` as `-`; a client must not reach our headers through that.
    const spelled = name.replaceAll('_', '-');
    if (spelled in ours || !passesUpstream(spelled, rules)) continue;
    if (name === 'content-length' && !hasBody) continue;
    headers[name] = value;
  }
  // A body without a declared type stays one.
  if (request.headers['content-type'] === undefined) delete headers['content-type'];
  return Object.assign(headers, ours);
}

function passesUpstream(name: string, { authorization }: RequestHeaderRules): boolean {
  if (name === 'authorization') return authorization === 'forward';
  // "Expect" was answered by our HTTP server.
  if (name === 'expect' || name === 'forwarded' || name === 'x-real-ip') return false;
  return !HOP_BY_HOP.has(name) && !name.startsWith('x-forwarded-');
}

/** Who asks, as far as the HTTP framework was told to believe proxies in front of us. */
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
  /** The public path behind which the upstream's path stands. */
  readonly path: string;
  /** Headers that the gateway has set on this response already; they win. */
  readonly set: Readonly<Record<string, unknown>>;
}

/** The headers for the client. One that HTTP does not allow is left out. */
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

/** A redirect within the upstream leads through us; any other stays as it is. */
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
