/**
 * What the pass-through is told of the routes: which other paths it passes through, with which of the operator's headers, and
 * which sessions belong to a caller.
 */
import { isDeepStrictEqual } from 'node:util';
import type { FastifyRequest } from 'fastify';
import type { IncomingHttpHeaders } from 'node:http';
import { sleep, type Clock } from '../lib/clock.ts';
import { callerOf, type IdentitySource } from '../identity/identity.ts';
import type { RequestHeaderRules } from '../passthrough/request.ts';
import type { Route, SharedServices } from './route.ts';
import type { PassThroughOptions } from '../passthrough/passthrough.ts';
import { SessionSeal } from '../seal/session-seal.ts';

const HANDSHAKE_WAIT_MS = 3_000;

/** Returns the patterns of other paths that are passed through. */
export function otherPaths(
  routes: readonly Route[],
  legacyClients: 'pass-through' | 'reject',
): readonly string[] {
  // With several upstreams, it is not known which one such a path belongs to.
  const origins = new Set(routes.map((route) => route.config.upstream.url.origin));
  if (origins.size > 1) return [];
  // Modern clients need the metadata for authorization as well (authorization server discovery, "Protected
  // Resource Metadata Discovery Requirements").
  return legacyClients === 'pass-through' ? ['/*'] : ['/.well-known/*'];
}

/**
 * Decides about the headers of a request for another path. The operator's headers are credentials for MCP: they
 * are sent only to the paths that the server named for messages (2024-11-05 transports, "HTTP with SSE").
 */
export async function otherPathHeaderRules(
  routes: readonly Route[],
  request: FastifyRequest,
  path: string,
  { identity, clock }: { readonly identity: IdentitySource; readonly clock: Clock },
): Promise<RequestHeaderRules> {
  const posted = request.method === 'POST' ? routes : [];
  await Promise.all(posted.map((route) => learnMessagePaths(request, route, identity, clock)));
  const exact = posted.filter(({ upstream }) => upstream.messagePaths.has(path));
  const receivers =
    exact.length > 0
      ? exact
      : posted.filter(({ upstream }) => upstream.messagePaths.resembles(path));
  const [rules, ...others] = receivers.map(({ config: { upstream } }) => ({
    headers: upstream.headers,
    authorization: upstream.authorization,
  }));
  // Routes that share the path must agree, since the receiver is not known.
  if (rules !== undefined && others.every((other) => isDeepStrictEqual(other, rules))) return rules;
  const strips = routes.some(({ config }) => config.upstream.authorization === 'strip');
  return { headers: {}, authorization: strips ? 'strip' : 'forward' };
}

/** Tries the handshake with the caller's credentials, since the server may name its message path only after one. */
async function learnMessagePaths(
  { headers }: FastifyRequest,
  { upstream, config }: Route,
  identity: IdentitySource,
  clock: Clock,
): Promise<void> {
  const { headers: ours, authorization, forwardHeaders } = config.upstream;
  if (upstream.greetedKind !== null || upstream.knownKind === 'streamable-http') return;
  if (Object.keys(ours).length === 0) return;
  const caller = callerOf(headers, { identity, authorization, forwardHeaders });
  if (caller === null) return;
  const greeted = upstream.greet(caller.headers).catch(() => null);
  await Promise.race([greeted, sleep(clock, HANDSHAKE_WAIT_MS)]);
}

/** Returns the options of the pass-through for sessions; none if callers are not named. */
export function sessionsOf(
  { config: { id, upstream } }: Route,
  routes: readonly Route[],
  { config, log, sealKeys }: SharedServices,
): Pick<PassThroughOptions, 'sessions' | 'onForeignSession'> {
  const {
    identity,
    seal: { audience },
  } = config;
  if (identity.source === 'none') return {};
  const { authorization, forwardHeaders } = upstream;
  const seal = new SessionSeal({ keys: sealKeys, audience, route: id });
  const principalOf = (headers: IncomingHttpHeaders) =>
    callerOf(headers, { identity, authorization, forwardHeaders })?.principal ?? null;
  return {
    sessions: {
      seal: (mark, plain, { headers }) => {
        const principal = principalOf(headers);
        return principal === null ? null : seal.seal(mark, plain, principal);
      },
      open: (mark, sealed, { headers }) => {
        const principal = principalOf(headers);
        return principal === null ? null : seal.open(mark, sealed, principal);
      },
      isMessagePath: (path) =>
        routes.some(
          ({ upstream: { messagePaths, knownKind }, config }) =>
            // Over Streamable HTTP, a message without a session is posted to the endpoint.
            (knownKind === 'http-sse' || config.upstream.url.pathname !== path) &&
            (messagePaths.has(path) || messagePaths.resembles(path)),
        ),
    },
    onForeignSession: () => log.event('passthrough.session_refused', { route: id }),
  };
}
