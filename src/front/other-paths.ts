/**
 * What the pass-through is told of the routes: which other paths it passes through, with which of the operator's headers, and
 * which sessions belong to a caller.
 */
import type { IncomingMessage } from 'node:http';
import { isDeepStrictEqual } from 'node:util';
import { sleep } from '../lib/clock.ts';
import { callerOf } from '../identity/identity.ts';
import { callerOptionsOf } from './callers.ts';
import type { Config } from '../config/schema.ts';
import type { Caller } from '../model/request.ts';
import type { RequestHeaderRules } from './passthrough/request.ts';
import type { HttpRoute, Route } from '../routes/route.ts';
import type { PublicServices } from '../routes/shared-services.ts';
import type { SessionSealing } from './passthrough/sealed-sessions.ts';
import { SessionSeal } from '../seal/session-seal.ts';

const HANDSHAKE_WAIT_MS = 3_000;

/** Returns the patterns of other paths that are passed through. */
export function otherPaths(
  routes: readonly HttpRoute[],
  legacyClients: 'pass-through' | 'reject',
): readonly string[] {
  // With several upstreams, it is not known which one such a path belongs to.
  const origins = new Set(routes.map((route) => route.server.http.config.url.origin));
  if (origins.size > 1) return [];
  // Modern clients need the metadata for authorization as well (authorization server discovery, "Protected
  // Resource Metadata Discovery Requirements").
  return legacyClients === 'pass-through' ? ['/*'] : ['/.well-known/*'];
}

/** Returns the names of headers that tell callers and conversations apart, or that the operator sets or forwards. */
export function callerHeadersOf(
  routes: readonly HttpRoute[],
  { identity }: Config,
): readonly string[] {
  const ofRoutes = routes.flatMap(({ config: { upstream, sessions } }) => [
    ...Object.keys(upstream.headers),
    ...upstream.forwardHeaders,
    ...(sessions.key.header === null ? [] : [sessions.key.header]),
  ]);
  const ofProxy = identity.source === 'header' ? [identity.header] : [];
  return [...ofProxy, ...identity.credentialHeaders, ...ofRoutes];
}

/** Returns what becomes of the headers of a request for the server of a route. */
export function headerRules(
  { config: { upstream }, tokenExchange }: HttpRoute,
  raw: IncomingMessage,
): RequestHeaderRules {
  const headers = { ...upstream.headers, ...tokenExchange?.headersOf(raw) };
  return { headers, authorization: upstream.authorization };
}

/**
 * Decides about the headers of a request for another path. The operator's headers are credentials for MCP: they
 * are sent only to the paths that the server named for messages (2024-11-05 transports, "HTTP with SSE").
 */
export async function otherPathHeaderRules(
  routes: readonly HttpRoute[],
  raw: IncomingMessage,
  path: string,
  shared: PublicServices,
): Promise<RequestHeaderRules> {
  const posted = raw.method === 'POST' ? routes : [];
  const withHeaders = posted.filter(
    ({ config }) => Object.keys(config.upstream.headers).length > 0,
  );
  await Promise.all(withHeaders.map((route) => learnMessagePaths(raw, route, shared)));
  const receivers = receiversOf(posted, path);
  const [rules, ...others] = receivers.map((route) => headerRules(route, raw));
  // Routes that share the path must agree, since the receiver is not known.
  if (rules !== undefined && others.every((other) => isDeepStrictEqual(other, rules))) return rules;
  const strips = routes.some(({ config }) => config.upstream.authorization !== 'forward');
  return { headers: {}, authorization: strips ? 'strip' : 'forward' };
}

/** Returns the routes whose server wants messages of sessions posted to a path. */
export function receiversOf(routes: readonly HttpRoute[], path: string): readonly HttpRoute[] {
  const exact = routes.filter(({ server: { http } }) => http.upstream.messagePaths.has(path));
  if (exact.length > 0) return exact;
  return routes.filter(({ server: { http } }) => http.upstream.messagePaths.resembles(path));
}

/** Tries the handshake with the caller's credentials, since the server may name its message path only after one. */
export async function learnMessagePaths(
  raw: IncomingMessage,
  route: HttpRoute,
  shared: PublicServices,
): Promise<void> {
  const { upstream } = route.server;
  if (upstream.greetedKind !== null || upstream.traits?.namesPaths === false) return;
  const caller = knownCaller(raw, route, shared);
  const greeted = upstream.greet(caller.headers).catch(() => null);
  await Promise.race([greeted, sleep(shared.clock, HANDSHAKE_WAIT_MS)]);
}

/** Describes the caller of a request that was identified. */
export function knownCaller(
  raw: IncomingMessage,
  route: Route,
  { config, identity }: PublicServices,
): Caller {
  const caller = callerOf(raw.headers, identity.knownOf(raw), callerOptionsOf(route, config));
  const exchanged = route.tokenExchange?.headersOf(raw);
  return exchanged === undefined
    ? caller
    : { ...caller, headers: { ...caller.headers, ...exchanged } };
}

/** Returns what seals sessions that are passed through; `null` if callers are not named. */
export function sealingOf(
  route: HttpRoute,
  routes: readonly HttpRoute[],
  { config, log, sealKeys }: PublicServices,
): SessionSealing | null {
  const { id } = route.config;
  if (config.identity.source === 'none') return null;
  const seal = new SessionSeal({ keys: sealKeys, audience: config.seal.audience, route: id });
  // Callers whom nobody need name share their sessions with each other, and with nobody else.
  const principalOf = ({ principal }: Caller) => principal ?? '';
  return {
    seal: (mark, plain, caller) => seal.seal(mark, plain, principalOf(caller)),
    open: (mark, sealed, caller) => seal.open(mark, sealed, principalOf(caller)),
    isMessagePath: (path) =>
      routes.some(({ server: { http } }) => {
        const { messagePaths, traits } = http.upstream;
        // Where the server names no paths, a message without a session is posted to the endpoint.
        if (traits?.namesPaths !== true && http.config.url.pathname === path) return false;
        return messagePaths.has(path) || messagePaths.resembles(path);
      }),
    onForeign: () => log.event('passthrough.session_refused', { route: id }),
  };
}
