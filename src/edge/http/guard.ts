/**
 * The checks on every incoming request, whatever it is for: sound HTTP, `Host`, `Origin`, the declared
 * size of the body, and the HTTP method. Handlers see only what passed.
 */
import type { IncomingMessage } from 'node:http';
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { MODERN_REVISION } from '../../protocol/revisions.ts';
import { allowOrigin, isPreflight, respondToPreflight } from './cors.ts';
import { readHeader } from './header-fields.ts';
import { isAllowedHost, isAllowedOrigin, type OriginPolicy } from './origin.ts';
import { BODY_TOO_LARGE, refuse } from './refusal.ts';

export interface GuardOptions {
  readonly policy: OriginPolicy;
  /** Paths on which MCP is served. */
  readonly paths: readonly string[];
  /** Whether GET and DELETE are passed through, as legacy clients need. */
  readonly legacyClients: 'pass-through' | 'reject';
  /** A body with a larger `Content-Length` is refused before a byte of it is read. */
  readonly maxBodyBytes: number;
  /** Reports a `Host` or `Origin` that was refused, so that the operator can allow it. */
  readonly refused: (header: 'Host' | 'Origin', value: string) => void;
}

/** Installs the checks, and turns errors of the HTTP framework into JSON-RPC errors. */
export function guard(app: FastifyInstance, options: GuardOptions): void {
  app.addHook('onRequest', (request, reply, next) => {
    if (passes(request, reply, options)) next();
  });
  app.setErrorHandler((error: FastifyError, _request, reply) => {
    const status = error.statusCode ?? 500;
    const message = MESSAGES[error.code] ?? 'The request is not valid HTTP';
    // A defect in the gateway: how far the request came is not known.
    if (status >= 500) refuse(reply, status, 'Internal error', {}, 'unknown');
    else refuse(reply, status, message);
  });
  app.setNotFoundHandler((_request, reply) => {
    refuse(reply, 404, 'Not found');
  });
}

const MESSAGES: Readonly<Record<string, string>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: BODY_TOO_LARGE,
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: 'The body does not match its Content-Length',
  FST_ERR_CTP_INVALID_MEDIA_TYPE: 'Content-Type must be application/json',
};

function passes(request: FastifyRequest, reply: FastifyReply, options: GuardOptions): boolean {
  const problem = httpProblem(request.raw);
  if (problem !== null) {
    const [httpStatus, message] = problem;
    refuse(reply, httpStatus, message, { connection: 'close' });
    return false;
  }
  const { origin, host = '' } = request.headers;
  if (!isAllowedHost(host, options.policy)) {
    options.refused('Host', host);
    refuse(reply, 403, 'Host not allowed');
    return false;
  }
  if (!isAllowedOrigin(origin, options.policy)) {
    options.refused('Origin', origin ?? '');
    refuse(reply, 403, 'Origin not allowed');
    return false;
  }
  if (Number(request.headers['content-length'] ?? 0) > options.maxBodyBytes) {
    refuse(reply, 413, BODY_TOO_LARGE);
    return false;
  }
  if (!isMcp(request, options)) return true;
  if (origin !== undefined) allowOrigin(reply, origin);
  if (isPreflight(request)) {
    respondToPreflight(request, reply);
    return false;
  }
  if (isRemovedMethod(request, options)) {
    // streamable-http, "Earlier Streamable HTTP Revisions"
    const message = `${request.method} is not part of this protocol revision`;
    refuse(reply, 405, message, { allow: 'POST' });
    return false;
  }
  return true;
}

/** Headers that must not be repeated: it would be open which of them counts. */
const SINGLE_HEADERS = ['host', 'origin', 'authorization', 'content-type', 'content-length'];

/** More than any client needs, and few enough to scan. */
const MAX_HEADERS = 100;

/**
 * Finds what a proxy must refuse although HTTP allows it: requests that two parsers could read differently.
 * @returns the HTTP status and the message of the refusal, or `null`
 */
function httpProblem(request: IncomingMessage): readonly [number, string] | null {
  const { rawHeaders, headers, url = '' } = request;
  if (rawHeaders.length / 2 > MAX_HEADERS) {
    return [431, `Too many headers: at most ${MAX_HEADERS} are allowed`];
  }
  for (const name of SINGLE_HEADERS) {
    if (readHeader(rawHeaders, name).type === 'repeated') return [400, `Duplicate ${name} header`];
  }
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

/** Returns true for the path of a route, as the router compares it: after decoding. */
function isMcp({ routeOptions, url }: FastifyRequest, { paths }: GuardOptions): boolean {
  // A method without a handler has no route.
  return paths.includes(routeOptions.url ?? url.split('?')[0] ?? '');
}

function isRemovedMethod(request: FastifyRequest, { legacyClients }: GuardOptions): boolean {
  if (request.method === 'POST' || request.method === 'OPTIONS') return false;
  return legacyClients === 'reject' || request.headers['mcp-protocol-version'] === MODERN_REVISION;
}
