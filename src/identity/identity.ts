/**
 * Identifies callers: by a header that a trusted proxy sets, and by their credentials, since callers with
 * different credentials must not share a session.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { callerKindOf, CREDENTIALS_PREFIX, LOCAL_USER_KEY, type Caller } from '../model/request.ts';
import { sha256 } from '../lib/crypto.ts';

/** What names the principal. */
type NamedBy =
  | { readonly source: 'none' }
  /** A trusted proxy sets this header to the principal, and removes it from client requests. */
  | { readonly source: 'header'; readonly header: string };

export type IdentitySource = NamedBy & {
  /** Headers that are credentials, besides `Authorization`. In lower case. */
  readonly credentialHeaders: readonly string[];
};

export interface CallerOptions {
  readonly identity: IdentitySource;
  /** `strip`: the client's `Authorization` is not sent upstream. */
  readonly authorization: 'forward' | 'strip';
  /** Further headers that go upstream. In lower case. */
  readonly forwardHeaders: readonly string[];
  /** The header that names the conversation, if one is configured. */
  readonly conversationHeader?: string | null;
}

const ANONYMOUS = 'anonymous';

/**
 * Identifies the caller of a request. Without an identity source, the same credentials mean the same
 * principal, and callers without credentials are anonymous.
 * @returns `null` if a source is configured and does not name anybody
 */
export function callerOf(headers: IncomingHttpHeaders, options: CallerOptions): Caller | null {
  const name = nameOf(headers, options.identity);
  if (name === null && options.identity.source !== 'none') return null;
  const { identity, authorization } = options;
  const keys = credentialHeadersOf(headers, identity.credentialHeaders);
  const digest = digestOf(headers.authorization, keys);
  const principal =
    name === null
      ? digest === ''
        ? null
        : `${CREDENTIALS_PREFIX}${digest}`
      : `${namePrefixOf(digestOf(undefined, keys))}${name}`;
  const principalKey = principal ?? ANONYMOUS;
  return {
    kind: callerKindOf({ principal, principalKey }),
    principal,
    principalKey,
    credentialsKey: authorization === 'forward' ? digest : digestOf(undefined, keys),
    conversation: conversationOf(headers, options.conversationHeader ?? null),
    headers: forwardedHeaders(headers, options),
  };
}

/** Different credentials of one name are different principals, since only `Authorization` is refreshed. */
function namePrefixOf(digest: string): string {
  return digest === '' ? 'header:' : `header+${digest}:`;
}

/** Returns the credentials that a request has, with their names. */
function credentialHeadersOf(
  headers: IncomingHttpHeaders,
  names: readonly string[],
): readonly (readonly [name: string, value: string])[] {
  return names.flatMap((name) => {
    const value = headers[name];
    return value === undefined ? [] : [[name, String(value)] as const];
  });
}

/** Returns a digest of credentials, or an empty text if there are none. */
function digestOf(
  authorization: string | undefined,
  keys: ReturnType<typeof credentialHeadersOf>,
): string {
  if (keys.length > 0) return sha256(JSON.stringify([authorization ?? null, keys]));
  return authorization === undefined ? '' : sha256(authorization);
}

/** Returns an anonymous caller as the local user. Its pointers are those of any anonymous caller. */
export function asLocalUser(caller: Caller): Caller {
  return { ...caller, kind: 'local-user', principalKey: LOCAL_USER_KEY };
}

/** Tells whether a caller is acceptable: false if a source is configured and does not name anybody. */
export function isKnownCaller(headers: IncomingHttpHeaders, identity: IdentitySource): boolean {
  return identity.source === 'none' || nameOf(headers, identity) !== null;
}

/** Reads the name from the identity source. */
function nameOf(headers: IncomingHttpHeaders, identity: IdentitySource): string | null {
  if (identity.source === 'none') return null;
  const value = headers[identity.header.toLowerCase()];
  return typeof value === 'string' && value !== '' ? value : null;
}

function conversationOf(headers: IncomingHttpHeaders, name: string | null): string | null {
  const value = name === null ? undefined : headers[name.toLowerCase()];
  return value === undefined ? null : sha256(String(value));
}

function forwardedHeaders(
  headers: IncomingHttpHeaders,
  { authorization, forwardHeaders }: CallerOptions,
): Record<string, string> {
  const forwarded: Record<string, string> = {};
  for (const name in headers) {
    const wanted =
      name.startsWith('mcp-param-') ||
      name === 'traceparent' ||
      name === 'tracestate' ||
      forwardHeaders.includes(name) ||
      (name === 'authorization' && authorization === 'forward');
    const value = wanted ? headers[name] : undefined;
    if (typeof value === 'string') forwarded[name] = value;
  }
  return forwarded;
}
