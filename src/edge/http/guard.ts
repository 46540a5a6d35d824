/**
 * The checks on every incoming request, whatever it is for: sound HTTP, `Host` and `Origin` against DNS rebinding
 * (streamable-http, "Security & Endpoint"), the declared size of the body, and the HTTP method; and cross-origin access for
 * the pages of allowed origins (the Fetch standard, "CORS protocol"). Handlers see only what passed.
 */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { FastifyError, FastifyInstance } from 'fastify';
import { MODERN_REVISION } from '../../protocol/meta.ts';
import {
  BODY_TOO_LARGE,
  LEGACY_ADVICE,
  NO_SUCH_PATH,
  refuse,
  removedMethod,
} from '../response-writer.ts';
import { isLoopbackHost, pathOf } from '../../lib/http.ts';
import { indexOfName } from './header-fields.ts';

export interface GuardOptions {
  readonly policy: OriginPolicy;
  /** Paths on which MCP is served. */
  readonly paths: readonly string[];
  /** Whether GET and DELETE are passed through, as legacy clients need. */
  readonly legacyClients: 'pass-through' | 'reject';
  /** A body with a larger `Content-Length` is refused before a byte of it is read. */
  readonly maxBodyBytes: number;
  /** The header in which a proxy names the caller, in lower case; `null` if none does. It must not be repeated. */
  readonly identityHeader: string | null;
  /** Headers that the pages of allowed origins can send, besides those of MCP. In lower case. */
  readonly requestHeaders: readonly string[];
  /** Reports a `Host` or `Origin` that was refused, so that the operator can allow it. */
  readonly refused: (header: 'Host' | 'Origin', value: string) => void;
  /**
   * Reports a modern request to a path that is not one of `paths`: its client has a wrong URL. Never rejects.
   * @returns why it is refused; `null` if it is not
   */
  readonly strayed: (request: IncomingMessage, path: string) => Promise<string | null>;
}

type HttpProblem = readonly [
  httpStatus: number,
  message: string,
  headers?: Readonly<Record<string, string>>,
];

export class Guard {
  readonly #options: GuardOptions;
  readonly #singleHeaders: readonly string[];
  /** The last `Host` that was allowed: most requests have the same one. */
  #allowedHost: string | null = null;

  constructor(options: GuardOptions) {
    this.#options = options;
    const { identityHeader } = options;
    this.#singleHeaders =
      identityHeader === null ? SINGLE_HEADERS : [...SINGLE_HEADERS, identityHeader];
  }

  /** Checks the requests that the HTTP framework serves, and turns its errors into JSON-RPC errors. */
  install(app: FastifyInstance): void {
    const { paths, strayed } = this.#options;
    app.addHook('onRequest', (request, reply, next) => {
      // As the router compares paths: after decoding. A method without a handler has no route.
      const sentTo = pathOf(request.url);
      const isMcp = paths.includes(request.routeOptions.url ?? sentTo);
      if (!this.passes(request.raw, reply.raw, isMcp)) return void reply.hijack();
      if (isMcp || !isModernPost(request.raw)) return next();
      strayed(request.raw, sentTo).then((problem) => {
        if (problem === null) next();
        else refuse(reply.hijack().raw, 404, problem);
      }, next);
    });
    app.setErrorHandler((error: FastifyError, _request, reply) =>
      refuseError(reply.hijack().raw, error),
    );
    app.setNotFoundHandler((_request, reply) => {
      refuse(reply.hijack().raw, 404, NO_SUCH_PATH);
    });
  }

  /**
   * Checks a request before its body is read.
   * @param isMcp whether it is for the path of a route
   * @returns false if the request has its response
   */
  passes(request: IncomingMessage, response: ServerResponse, isMcp: boolean): boolean {
    const problem = this.#problemOf(request);
    if (problem !== null) {
      refuse(response, ...problem);
      return false;
    }
    if (!isMcp) return true;
    const { origin } = request.headers;
    if (origin !== undefined) allowOrigin(response, origin);
    if (isPreflight(request)) {
      respondToPreflight(request, response, this.#options.requestHeaders);
      return false;
    }
    const removed = this.#removedMethod(request);
    if (removed !== null) refuse(response, 405, removed, { allow: 'POST' });
    return removed === null;
  }

  /** @returns how a request is refused, whatever it is for; `null` if it is not */
  #problemOf(request: IncomingMessage): HttpProblem | null {
    const { policy, maxBodyBytes, refused } = this.#options;
    const { headers } = request;
    const problem = httpProblem(request, this.#singleHeaders);
    if (problem !== null) return [...problem, { connection: 'close' }];
    const { origin, host = '' } = headers;
    if (host !== this.#allowedHost && !isAllowedHost(host, policy)) {
      refused('Host', host);
      return [403, 'Host not allowed (edge.allowedHosts)'];
    }
    this.#allowedHost = host;
    if (!isAllowedOrigin(origin, host, policy)) {
      refused('Origin', origin ?? '');
      return [403, ORIGIN_NOT_ALLOWED];
    }
    if (policy.onLoopback && origin === undefined && isOfOtherPage(headers)) {
      return [403, 'A page of another origin asks for this (Sec-Fetch-Site)'];
    }
    return Number(headers['content-length'] ?? 0) > maxBodyBytes ? [413, BODY_TOO_LARGE] : null;
  }

  /** @returns why a method is refused; `null` if it is not */
  #removedMethod({ method = '', headers }: IncomingMessage): string | null {
    if (method === 'POST' || method === 'OPTIONS') return null;
    if (headers['mcp-protocol-version'] === MODERN_REVISION) return removedMethod(method);
    const { legacyClients } = this.#options;
    return legacyClients === 'reject' ? `${removedMethod(method)}; ${LEGACY_ADVICE}` : null;
  }
}

function isModernPost({ method, headers }: IncomingMessage): boolean {
  return method === 'POST' && headers['mcp-protocol-version'] === MODERN_REVISION;
}

/** Refuses a request for an error of the HTTP framework. */
export function refuseError(response: ServerResponse, error: FastifyError): void {
  const { statusCode: status = 500, code } = error;
  // A defect in the gateway: how far the request came is not known, and what has begun cannot become a refusal.
  if (status < 500) refuse(response, status, MESSAGES[code] ?? 'The request is not valid HTTP');
  else if (response.headersSent) response.destroy();
  else refuse(response, status, 'Internal error', {}, 'unknown');
}

const MESSAGES: Readonly<Record<string, string>> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: 'Content-Type must be application/json',
};

const ORIGIN_NOT_ALLOWED =
  'Origin not allowed: the page of a browser client must be listed in edge.allowedOrigins, also one of this machine';

/** Headers that must not be repeated: it would be open which of them counts. */
const SINGLE_HEADERS = ['host', 'origin', 'authorization', 'content-type', 'content-length'];

/** More than any client needs, and few enough to scan. */
const MAX_HEADERS = 100;

/**
 * Finds what a proxy must refuse although HTTP allows it: requests that two parsers could read differently.
 * @returns the HTTP status and the message of the refusal, or `null`
 */
function httpProblem(
  request: IncomingMessage,
  singleHeaders: readonly string[],
): readonly [number, string] | null {
  const { rawHeaders, headers, url = '' } = request;
  if (rawHeaders.length / 2 > MAX_HEADERS) {
    return [431, `Too many headers: at most ${MAX_HEADERS} are allowed`];
  }
  const repeated = repeatedHeader(rawHeaders, singleHeaders);
  if (repeated !== null) return [400, `Duplicate ${repeated} header`];
  if (headers.host === undefined || headers.host === '') {
    return [400, 'The Host header is missing'];
  }
  if (!url.startsWith('/') || url.startsWith('//')) {
    return [400, 'The request target must be a path'];
  }
  const transferEncoding = headers['transfer-encoding'];
  if (transferEncoding !== undefined && transferEncoding.trim().toLowerCase() !== 'chunked') {
    return [501, 'Unsupported Transfer-Encoding: only "chunked" is supported'];
  }
  return null;
}

/**
 * @param rawHeaders names and values alternating, as in `IncomingMessage.rawHeaders`
 * @param singleHeaders in lower case
 */
function repeatedHeader(
  rawHeaders: readonly string[],
  singleHeaders: readonly string[],
): string | null {
  let seen = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const index = indexOfName(singleHeaders, rawHeaders[at]!);
    if (index < 0) continue;
    if ((seen & (1 << index)) !== 0) return singleHeaders[index]!;
    seen |= 1 << index;
  }
  return null;
}

export interface OriginPolicy {
  /** Origins as browsers send them, such as `https://app.example.com`. */
  readonly allowedOrigins: readonly string[];
  /** Values of `Host` besides the names of this machine, such as `mcp.example.com`. */
  readonly allowedHosts: readonly string[];
  /** Whether the gateway listens on loopback, where the browser of its user reaches it. */
  readonly onLoopback: boolean;
}

/**
 * Returns true if the page is allowed. A request without an `Origin` comes from no page. On loopback the gateway's own
 * origin is allowed, which no page has: those of servers are sandboxed.
 * @param host the `Host`, which was checked
 */
export function isAllowedOrigin(
  origin: string | undefined,
  host: string,
  { allowedOrigins, onLoopback }: OriginPolicy,
): boolean {
  if (origin === undefined || allowedOrigins.includes(origin)) return true;
  return onLoopback && origin === `http://${host}`;
}

/** Browsers send no `Origin` with what a page shows or links to, but this header, which no page can set. */
function isOfOtherPage(headers: IncomingHttpHeaders): boolean {
  return ['cross-site', 'same-site'].includes(String(headers['sec-fetch-site']));
}

const HOST = /^(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::\d{1,5})?$/i;

/** Returns the name or address in a `Host`, in lower case; `null` if it is not valid. */
export function hostName(host: string): string | null {
  return HOST.exec(host)?.[1]?.toLowerCase() ?? null;
}

/**
 * Returns true if the `Host` names this gateway. On loopback another name means that a page has rebound its
 * own name to this machine. Its GET requests carry no `Origin`, so that only `Host` shows it.
 */
export function isAllowedHost(host: string, policy: OriginPolicy): boolean {
  if (!policy.onLoopback) return true;
  const name = hostName(host);
  if (name === null) return false;
  return (
    isLoopbackHost(name) ||
    policy.allowedHosts.includes(name) ||
    policy.allowedOrigins.some((origin) => URL.parse(origin)?.hostname === name)
  );
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
  const parameterHeaders = (headers['access-control-request-headers'] ?? '')
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
