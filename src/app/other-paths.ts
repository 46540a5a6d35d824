/** The paths beside the routes: which of them are handed on, and what of the operator's goes along. */
import { isDeepStrictEqual } from 'node:util';
import type { FastifyRequest } from 'fastify';
import { sleep, type Clock } from '../lib/clock.ts';
import { callerOf, type IdentitySource } from '../identity/identity.ts';
import type { RequestHeaderRules } from '../passthrough/forwarded-headers.ts';
import type { Route } from './route.ts';

const GREETING_WAIT_MS = 3_000;

/** The paths beside the routes that are handed on unread. */
export function otherPaths(
  routes: readonly Route[],
  legacyClients: 'pass-through' | 'reject',
): readonly string[] {
  // With several upstreams nobody could say whose such a path is.
  const origins = new Set(routes.map((route) => route.config.upstream.url.origin));
  if (origins.size > 1) return [];
  // How to authorize is there for modern clients as well (authorization server discovery, "Protected
  // Resource Metadata Discovery Requirements").
  return legacyClients === 'pass-through' ? ['/*'] : ['/.well-known/*'];
}

/**
 * What becomes of the headers of a request for a path beside the routes. The operator's are credentials
 * for MCP and go to no other paths than those to which the server itself wants messages posted
 * (2024-11-05 transports, "HTTP with SSE").
 */
export async function headerRulesBeside(
  routes: readonly Route[],
  request: FastifyRequest,
  path: string,
  { identity, clock }: { readonly identity: IdentitySource; readonly clock: Clock },
): Promise<RequestHeaderRules> {
  const posted = request.method === 'POST' ? routes : [];
  await Promise.all(posted.map((route) => greetedFor(request, route, identity, clock)));
  const told = posted.filter(({ upstream }) => upstream.messagePaths.has(path));
  const takers =
    told.length > 0 ? told : posted.filter(({ upstream }) => upstream.messagePaths.resembles(path));
  const [rules, ...others] = takers.map(({ config: { upstream } }) => ({
    headers: upstream.headers,
    authorization: upstream.authorization,
  }));
  // Whose messages they are is open when routes with the same path differ.
  if (rules !== undefined && others.every((other) => isDeepStrictEqual(other, rules))) return rules;
  const strips = routes.some(({ config }) => config.upstream.authorization === 'strip');
  return { headers: {}, authorization: strips ? 'strip' : 'forward' };
}

/** A server that has let nobody in yet may let in who posts here, and say where messages are posted. */
async function greetedFor(
  { headers }: FastifyRequest,
  { upstream, config }: Route,
  identity: IdentitySource,
  clock: Clock,
): Promise<void> {
  const { headers: ours, authorization } = config.upstream;
  if (upstream.greetedKind !== null || upstream.knownKind === 'streamable-http') return;
  if (Object.keys(ours).length === 0) return;
  const caller = callerOf(headers, { identity, authorization });
  if (caller === null) return;
  const greeted = upstream.greet(caller.headers).catch(() => null);
  await Promise.race([greeted, sleep(clock, GREETING_WAIT_MS)]);
}
