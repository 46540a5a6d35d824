/** Binds the sessions of legacy clients to their caller, if the operator's proxy names callers. */
import type { IncomingHttpHeaders } from 'node:http';
import { callerOf } from '../identity/identity.ts';
import type { PassThroughOptions } from '../passthrough/passthrough.ts';
import { SessionSeal } from '../seal/session-seal.ts';
import type { Route } from './route.ts';
import type { SharedServices } from './shared.ts';

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
