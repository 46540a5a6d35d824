/**
 * The callers of a route: who they are by the identity source, or why they are refused. Of those without credentials, the user of
 * this machine is told from callers that a proxy on this machine lets in: only the first has a session of its own, since
 * callers behind a proxy cannot be told apart.
 */
import type { IncomingMessage } from 'node:http';
import { exchangeRefusalOf, refusalOf } from '../identity/challenge.ts';
import type { Config } from '../config/schema.ts';
import type { EdgeRoute } from '../edge/options.ts';
import { callerOf, type CallerOptions, type IdentityVerdict } from '../identity/identity.ts';
import { LOCAL_USER_KEY, type Caller, type CallerRefusal } from '../model/request.ts';
import { challengeOf } from './rights.ts';
import type { Route } from '../routes/route.ts';
import type { PublicServices } from '../routes/shared-services.ts';
import { isLoopbackHost } from '../lib/http.ts';

/**
 * Creates the reader of callers of a route. The log says once what it costs that callers cannot be told apart.
 * @param path on which they come: that of the route, or of one of its dialects
 * @param sharesSessions false where clients have the sessions that they began: there it costs nothing
 */
export function identification(
  route: Route,
  { config, identity, log }: PublicServices,
  path = route.config.path,
  sharesSessions = true,
) {
  const { config: settings, tokenExchange } = route;
  const options = callerOptionsOf(route, config);
  const challenge = challengeOf(config, path);
  const whyNotLocal = localUserCheck({ ...config.edge, listenHost: config.listen.host });
  let isCostLogged = !sharesSessions || settings.sessions.scope !== null;
  const judge = (request: IncomingMessage, verdict: IdentityVerdict): Caller | CallerRefusal => {
    if (verdict.kind !== 'known') return refusalOf(verdict, challenge);
    const address = identity.addressOf(request);
    const caller = {
      ...callerOf(request.headers, verdict, options),
      ...(address !== undefined && { address }),
    };
    if (caller.kind !== 'anonymous') return caller;
    const reason = whyNotLocal(request);
    if (reason === null) return asLocalUser(caller);
    if (!isCostLogged) log.event('session.not_reused', { route: settings.id, reason });
    isCostLogged = true;
    return caller;
  };
  /** Has the token of an identified caller exchanged. @returns why there is none for the server, or `null` */
  const exchanged = async (request: IncomingMessage): Promise<CallerRefusal | null> => {
    const kind = (await tokenExchange?.exchangeFor(request)) ?? 'token';
    return kind === 'token' ? null : exchangeRefusalOf(kind, challenge);
  };
  /** Never rejects. */
  return (request: IncomingMessage): ReturnType<EdgeRoute['identify']> => {
    const verdict = identity.identify(request);
    if (!(verdict instanceof Promise)) return judge(request, verdict);
    return verdict.then(async (known) => {
      const caller = judge(request, known);
      if ('httpStatus' in caller || tokenExchange === null) return caller;
      const refused = await exchanged(request);
      if (refused !== null) return refused;
      return { ...caller, headers: { ...caller.headers, ...tokenExchange.headersOf(request) } };
    });
  };
}

/** Returns what tells the callers of a route apart, and which of their headers go to its server. */
export function callerOptionsOf(
  { config: { upstream, sessions } }: Route,
  { identity: { credentialHeaders } }: Config,
): CallerOptions {
  const { authorization, forwardHeaders } = upstream;
  const conversationHeader = sessions.key.header;
  return { credentialHeaders, authorization, forwardHeaders, conversationHeader };
}

/** Returns an anonymous caller as the local user. Its pointers are those of any anonymous caller. */
export function asLocalUser(caller: Caller): Caller {
  return { ...caller, kind: 'local-user', principalKey: LOCAL_USER_KEY };
}

export interface LocalUserOptions {
  /** The host on which the gateway listens. */
  readonly listenHost: string;
  readonly allowedHosts: readonly string[];
  readonly trustedProxies: readonly string[];
}

/** The parts of a request that show where it comes from. */
export interface RequestOrigin extends Pick<IncomingMessage, 'headers' | 'httpVersion'> {
  readonly socket: { readonly remoteAddress?: string | undefined };
}

/** What proxies add. One of them is enough: a client on this machine has no reason to send it. */
const PROXY_HEADERS: ReadonlySet<string> = new Set([
  'forwarded',
  'via',
  'x-real-ip',
  'x-client-ip',
  'x-cluster-client-ip',
  'x-original-host',
  'x-original-url',
  'true-client-ip',
  'cf-connecting-ip',
  'fastly-client-ip',
]);
const PROXY_PREFIXES = ['x-forwarded-', 'x-original-forwarded-', 'x-envoy-'];
/** The name in a `Host` header, without the port. */
const HOST_NAME = /^(\[[^\]]*\]|[^:]*)(?::\d{1,5})?$/;

/** Creates the check of anonymous requests. It returns why a request is not the local user's, or `null`. */
export function localUserCheck(
  options: LocalUserOptions,
): (request: RequestOrigin) => string | null {
  const excluded = excludedBy(options);
  if (excluded !== null) return () => excluded;
  return ({ headers, httpVersion, socket }) => {
    const { remoteAddress = '' } = socket;
    if (!isLoopbackHost(remoteAddress)) return 'the request comes from another machine';
    const name = HOST_NAME.exec(headers.host ?? '')?.[1] ?? '';
    if (!isLoopbackHost(name)) return 'Host is not a loopback name';
    // No client of MCP sends these, and proxies do that add no header at all.
    if (httpVersion === '1.0') return 'the request is HTTP/1.0, as those of proxies';
    if (headers.connection?.toLowerCase() === 'close') {
      return 'the request has "Connection: close", as those of proxies';
    }
    const header = Object.keys(headers).find(isOfProxy);
    return header === undefined ? null : `the request has the header ${header}`;
  };
}

function isOfProxy(header: string): boolean {
  return PROXY_HEADERS.has(header) || PROXY_PREFIXES.some((prefix) => header.startsWith(prefix));
}

function excludedBy({ listenHost, allowedHosts, trustedProxies }: LocalUserOptions): string | null {
  if (!isLoopbackHost(listenHost)) return 'the gateway does not listen on loopback';
  if (allowedHosts.length > 0) return 'edge.allowedHosts is set';
  return trustedProxies.length > 0 ? 'edge.trustedProxies is set' : null;
}
