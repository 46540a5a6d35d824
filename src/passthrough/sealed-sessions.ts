/**
 * Sessions of legacy clients where it is known who calls: each belongs to whoever opened it. Its id, and
 * the URL to which its messages are posted, are sealed for that caller on their way to the client, and
 * opened on their way back. Anybody else brings an id that the server never gave.
 */
import type { IncomingHttpHeaders } from 'node:http';
import type { FastifyRequest } from 'fastify';

/** Seals for the caller of a request, and opens what was sealed for that caller. */
export interface SessionSealing {
  /** @returns `null` where nothing can be sealed: the caller is not known, or the text is too long */
  seal(mark: 'id' | 'endpoint', plain: string, request: FastifyRequest): string | null;
  open(mark: 'id' | 'endpoint', sealed: string, request: FastifyRequest): string | null;
  /** Whether the server wants messages of sessions posted to this path, as far as that is known. */
  isMessagePath(path: string): boolean;
}

/** What a request says of its session, once it is opened. */
export interface OpenedSession {
  /** As the server knows it; `null` when the request names none. */
  readonly id: string | null;
  /** Where a message is posted to, when its URL is one of ours. */
  readonly endpoint: { readonly path: string; readonly query: string } | null;
}

const SESSION_HEADER = 'mcp-session-id';
/** In the URL to which a client posts messages over HTTP+SSE. */
const SESSION_PARAMETER = 'mrtr-session';

/**
 * Opens what names the session of a request.
 * @returns `null` when that was not sealed for this caller
 */
export function openSession(
  request: FastifyRequest,
  sealing: SessionSealing,
): OpenedSession | null {
  const id = openId(request, sealing);
  const endpoint = openEndpoint(request, sealing);
  return id === undefined || endpoint === undefined ? null : { id, endpoint };
}

function openId(request: FastifyRequest, sealing: SessionSealing): string | null | undefined {
  const named = Object.entries(request.headers).filter(
    // Some servers read `_` as `-`.
    ([name]) => name.replaceAll('_', '-') === SESSION_HEADER,
  );
  const [only, ...others] = named;
  if (only === undefined) return null;
  const [name, value] = only;
  if (others.length > 0 || name !== SESSION_HEADER || typeof value !== 'string') return undefined;
  return sealing.open('id', value, request) ?? undefined;
}

function openEndpoint(
  request: FastifyRequest,
  sealing: SessionSealing,
): OpenedSession['endpoint'] | undefined {
  const url = request.raw.url ?? '';
  const at = url.indexOf('?');
  const values = new URLSearchParams(at < 0 ? '' : url.slice(at)).getAll(SESSION_PARAMETER);
  const [sealed, ...others] = values;
  if (sealed === undefined) return null;
  const target = others.length > 0 ? null : sealing.open('endpoint', sealed, request);
  if (target === null || request.method !== 'POST') return undefined;
  const query = target.indexOf('?');
  return query < 0
    ? { path: target, query: '' }
    : { path: target.slice(0, query), query: target.slice(query + 1) };
}

/** The headers for the upstream, with the session as the server knows it. */
export function withSession(
  headers: IncomingHttpHeaders,
  { method }: FastifyRequest,
  { id }: OpenedSession,
): IncomingHttpHeaders {
  return {
    ...headers,
    ...(id === null ? {} : { [SESSION_HEADER]: id }),
    // A stream may name the endpoint of its session, and a compressed one cannot be read.
    ...(method === 'GET' ? { 'accept-encoding': 'identity' } : {}),
  };
}

/**
 * The headers for the client, with the session as this client may know it.
 * @returns `null` when the session cannot be told to the client
 */
export function withSealedSession(
  headers: IncomingHttpHeaders,
  request: FastifyRequest,
  { id }: OpenedSession,
  sealing: SessionSealing,
): IncomingHttpHeaders | null {
  const told = headers[SESSION_HEADER];
  if (told === undefined) return headers;
  if (typeof told !== 'string') return null;
  // A client keeps the name that it has, also when another key seals by now.
  const kept = told === id ? request.headers[SESSION_HEADER] : undefined;
  const sealed = typeof kept === 'string' ? kept : sealing.seal('id', told, request);
  return sealed === null ? null : { ...headers, [SESSION_HEADER]: sealed };
}

/**
 * The URL that a client is told instead of the server's own: the one of its stream, which it has reached.
 * @param endpoint what the server told, relative or not
 * @param upstream the URL of the stream at the server
 * @returns `null` for what cannot be sealed; another origin, where the gateway is not asked, as it came
 */
export function sealedEndpoint(
  endpoint: string,
  upstream: URL,
  request: FastifyRequest,
  sealing: SessionSealing,
): string | null {
  if (!URL.canParse(endpoint, upstream.href)) return endpoint;
  const url = new URL(endpoint, upstream);
  if (url.origin !== upstream.origin) return endpoint;
  const sealed = sealing.seal('endpoint', `${url.pathname}${url.search}`, request);
  const [path = ''] = (request.raw.url ?? '').split('?', 1);
  return sealed === null ? null : `${path}?${SESSION_PARAMETER}=${sealed}`;
}
