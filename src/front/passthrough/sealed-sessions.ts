/**
 * Sessions of legacy clients whose callers are named: each belongs to the caller that opened it. Its id, and its URL
 * for messages, are sealed for that caller on the way to the client, and opened on the way back.
 */
import type { IncomingHttpHeaders } from 'node:http';
import type { PassedRequest } from '../../edge/options.ts';
import { pathOf } from '../../lib/http.ts';
import type { Caller } from '../../model/request.ts';
import { plainName } from './known-headers.ts';
import { queryOf } from './request.ts';

/** Seals for a caller, and opens what was sealed for that caller. */
export interface SessionSealing {
  /** @returns `null` if the caller is not named, or the text is too long */
  seal(mark: 'id' | 'endpoint', plain: string, caller: Caller): string | null;
  open(mark: 'id' | 'endpoint', sealed: string, caller: Caller): string | null;
  /** Tells whether the server is known to accept messages of sessions on this path. */
  isMessagePath(path: string): boolean;
  /** Called for each request with a session that was not sealed for its caller. */
  onForeign(): void;
}

/** The session of a request, opened. */
export interface OpenedSession {
  /** The id of the server; `null` if the request has none. */
  readonly id: string | null;
  /** The server's URL for messages, if the request used a sealed one. */
  readonly endpoint: { readonly path: string; readonly query: string } | null;
}

const SESSION_HEADER = 'mcp-session-id';
/** Of the URL for messages over HTTP+SSE. */
const SESSION_PARAMETER = 'mrtr-session';

/**
 * Opens the session id and the URL of a request.
 * @returns `null` if they were not sealed for this caller
 */
export function openSession(request: PassedRequest, sealing: SessionSealing): OpenedSession | null {
  const id = openId(request, sealing);
  const endpoint = openEndpoint(request, sealing);
  return id === undefined || endpoint === undefined ? null : { id, endpoint };
}

/** Tells whether a request is posted to the sealed URL of a session, which replies on its stream. */
export function isSealedMessage(target = ''): boolean {
  return new URLSearchParams(queryOf(target)).has(SESSION_PARAMETER);
}

function openId(
  { raw, caller }: PassedRequest,
  sealing: SessionSealing,
): string | null | undefined {
  const named = Object.entries(raw.headers).filter(([name]) => plainName(name) === SESSION_HEADER);
  const [only, ...others] = named;
  if (only === undefined) return null;
  const [name, value] = only;
  if (others.length > 0 || name !== SESSION_HEADER || typeof value !== 'string') return undefined;
  return sealing.open('id', value, caller) ?? undefined;
}

function openEndpoint(
  { raw, caller }: PassedRequest,
  sealing: SessionSealing,
): OpenedSession['endpoint'] | undefined {
  const query = new URLSearchParams(queryOf(raw.url));
  const [sealed, ...others] = query.getAll(SESSION_PARAMETER);
  if (sealed === undefined) return null;
  const target = others.length > 0 ? null : sealing.open('endpoint', sealed, caller);
  if (target === null || raw.method !== 'POST') return undefined;
  return { path: pathOf(target), query: queryOf(target) };
}

/** Puts the server's session id into the headers for the upstream. */
export function withSession(
  headers: IncomingHttpHeaders,
  { raw: { method } }: PassedRequest,
  { id }: OpenedSession,
): IncomingHttpHeaders {
  return {
    ...headers,
    ...(id === null ? {} : { [SESSION_HEADER]: id }),
    // A stream can name the endpoint of its session, and a compressed one cannot be read.
    ...(method === 'GET' ? { 'accept-encoding': 'identity' } : {}),
  };
}

/**
 * Puts the sealed session id into the headers for the client.
 * @returns `null` if it cannot be sealed
 */
export function withSealedSession(
  headers: IncomingHttpHeaders,
  { raw, caller }: PassedRequest,
  session: OpenedSession,
  sealing: SessionSealing,
): IncomingHttpHeaders | null {
  const id = headers[SESSION_HEADER];
  if (id === undefined) return headers;
  if (typeof id !== 'string') return null;
  // A client keeps the sealed id that it has, even if another key seals by now.
  const kept = id === session.id ? raw.headers[SESSION_HEADER] : undefined;
  const sealed = typeof kept === 'string' ? kept : sealing.seal('id', id, caller);
  return sealed === null ? null : { ...headers, [SESSION_HEADER]: sealed };
}

/**
 * Seals the server's URL for messages into the path of the client's stream.
 * @param endpoint of the server, relative or absolute
 * @param upstream the URL of the stream at the server
 * @returns `null` if it cannot be sealed; a URL of another origin stays as it is
 */
export function sealedEndpoint(
  endpoint: string,
  upstream: URL,
  { raw, caller }: PassedRequest,
  sealing: SessionSealing,
): string | null {
  const url = URL.parse(endpoint, upstream.href);
  if (url?.origin !== upstream.origin) return endpoint;
  const sealed = sealing.seal('endpoint', `${url.pathname}${url.search}`, caller);
  return sealed === null ? null : `${pathOf(raw.url)}?${SESSION_PARAMETER}=${sealed}`;
}
