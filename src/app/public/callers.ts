/** The callers of a route: who they are by the identity source, or why they are refused. */
import type { IncomingMessage } from 'node:http';
import { exchangeRefusalOf, refusalOf } from '../../identity/challenge.ts';
import { asLocalUser, callerOf, type IdentityVerdict } from '../../identity/identity.ts';
import { localUserCheck } from '../../identity/local-user.ts';
import type { Caller, CallerRefusal } from '../../model/request.ts';
import { resourceOf } from './own-metadata.ts';
import type { Route } from '../routes/route.ts';
import type { PublicServices } from '../shared-services.ts';

export interface RouteCallers {
  /** Never rejects. */
  readonly identify: (
    request: IncomingMessage,
  ) => Caller | CallerRefusal | Promise<Caller | CallerRefusal>;
  /** @returns `null` if the caller is known */
  readonly refusalOf: (request: IncomingMessage) => Promise<CallerRefusal | null>;
}

/**
 * Creates the reader of callers of a route. The log says once what it costs that callers cannot be told apart.
 * @param path on which they come: that of the route, or of one of its dialects
 */
export function callersOf(
  { config: { id, path: routePath, upstream, sessions }, tokenExchange }: Route,
  { config, identity, log }: PublicServices,
  path = routePath,
): RouteCallers {
  const { edge, listen } = config;
  const { credentialHeaders } = config.identity;
  const { authorization, forwardHeaders } = upstream;
  const conversationHeader = sessions.key.header;
  const options = { credentialHeaders, authorization, forwardHeaders, conversationHeader };
  const challenge = {
    metadataUrl: resourceOf(config, path)?.metadataUrl ?? null,
    requiredScopes: config.identity.source === 'jwt' ? config.identity.requiredScopes : [],
  };
  const whyNotLocal = localUserCheck({ ...edge, listenHost: listen.host });
  let isCostLogged = sessions.scope !== null;
  const judge = (request: IncomingMessage, verdict: IdentityVerdict): Caller | CallerRefusal => {
    if (verdict.kind !== 'known') return refusalOf(verdict, challenge);
    const address = identity.addressOf(request);
    const caller = {
      ...callerOf(request.headers, verdict.principal, options),
      ...(address !== undefined && { address }),
    };
    if (caller.kind !== 'anonymous') return caller;
    const reason = whyNotLocal(request);
    if (reason === null) return asLocalUser(caller);
    if (!isCostLogged) log.event('session.for_each_call', { route: id, reason });
    isCostLogged = true;
    return caller;
  };
  /** Has the token of an identified caller exchanged. @returns why there is none for the server, or `null` */
  const exchanged = async (request: IncomingMessage): Promise<CallerRefusal | null> => {
    const kind = (await tokenExchange?.exchangeFor(request)) ?? 'token';
    return kind === 'token' ? null : exchangeRefusalOf(kind, challenge);
  };
  return {
    refusalOf: async (request) => {
      const verdict = await identity.identify(request);
      return verdict.kind === 'known' ? exchanged(request) : refusalOf(verdict, challenge);
    },
    identify: (request) => {
      const verdict = identity.identify(request);
      if (!(verdict instanceof Promise)) return judge(request, verdict);
      return verdict.then(async (known) => {
        const caller = judge(request, known);
        if ('httpStatus' in caller || tokenExchange === null) return caller;
        const refused = await exchanged(request);
        if (refused !== null) return refused;
        return { ...caller, headers: { ...caller.headers, ...tokenExchange.headersOf(request) } };
      });
    },
  };
}
