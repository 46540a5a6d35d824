/**
 * What holds for every request that comes in, whatever it is for: sound HTTP, an origin that may call,
 * and no legacy methods from a modern client. The handlers behind it see only what passed.
 */
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { MODERN_REVISION } from '../../protocol/revisions.ts';
import { allowOrigin, answerPreflight, isPreflight } from './cors.ts';
import { httpProblem } from './http-guard.ts';
import { isAllowedHost, isAllowedOrigin, type OriginPolicy } from './origin.ts';
import { BODY_TOO_LARGE, refuse } from './refuse.ts';

export interface GuardOptions {
  readonly policy: OriginPolicy;
  /** Paths on which MCP is served. */
  readonly paths: readonly string[];
  /** Whether GET and DELETE are for legacy clients and passed on. */
  readonly legacyClients: 'pass-through' | 'reject';
  /** A body that is declared to be larger is refused before a byte of it is read. */
  readonly maxBodyBytes: number;
  /** Called with a `Host` or `Origin` that may not call, so that the operator can let it. */
  readonly refused: (header: 'Host' | 'Origin', value: string) => void;
}

/** Installs the checks; errors of the HTTP framework become JSON-RPC errors as well. */
export function guard(app: FastifyInstance, options: GuardOptions): void {
  app.addHook('onRequest', (request, reply, next) => {
    if (passes(request, reply, options)) next();
  });
  app.setErrorHandler((error: FastifyError, _request, reply) => {
    const status = error.statusCode ?? 500;
    const message = MESSAGES[error.code] ?? 'The request could not be read';
    // A defect of ours: nobody knows how far the request came.
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
    refuse(reply, problem.httpStatus, problem.message, { connection: 'close' });
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
  const mcp = isMcp(request, options);
  if (mcp && origin !== undefined) allowOrigin(reply, origin);
  if (mcp && isPreflight(request)) {
    answerPreflight(request, reply);
    return false;
  }
  if (mcp && isGoneMethod(request, options)) {
    // streamable-http, "Earlier Streamable HTTP Revisions"
    refuse(reply, 405, `${request.method} is not part of this protocol revision`, {
      allow: 'POST',
    });
    return false;
  }
  return true;
}

/** True for what the router takes for a route's path, which it compares after decoding. */
function isMcp({ routeOptions, url }: FastifyRequest, { paths }: GuardOptions): boolean {
  // A method that no handler knows has no route.
  return paths.includes(routeOptions.url ?? url.split('?')[0] ?? '');
}

function isGoneMethod(request: FastifyRequest, { legacyClients }: GuardOptions): boolean {
  if (request.method === 'POST' || request.method === 'OPTIONS') return false;
  return legacyClients === 'reject' || request.headers['mcp-protocol-version'] === MODERN_REVISION;
}
