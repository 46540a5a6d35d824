/**
 * Who is calling. Only a verified source counts: a header that a trusted proxy in front of us sets. The
 * credentials themselves tell callers apart as well, since no two of them may share a session.
 */
import type { IncomingHttpHeaders } from 'node:http';
import type { Caller } from '../model/caller.ts';
import { sha256 } from '../lib/sha256.ts';

export type IdentitySource =
  | { readonly source: 'none' }
  /** A trusted proxy names the principal in this header, and removes it from what clients send. */
  | { readonly source: 'header'; readonly header: string };

export interface CallerOptions {
  readonly identity: IdentitySource;
  /** `strip`: the client's `Authorization` stays here. */
  readonly authorization: 'forward' | 'strip';
}

const ANONYMOUS = 'anonymous';
const FORWARDED = ['traceparent', 'tracestate'];

/**
 * The caller of a request; `null` when a configured source names nobody.
 * Without an identity source, whoever holds the same credentials is the same principal, and callers
 * without any are anonymous.
 */
export function callerOf(headers: IncomingHttpHeaders, options: CallerOptions): Caller | null {
  const name = nameOf(headers, options.identity);
  if (name === null && options.identity.source !== 'none') return null;
  const authorization = headers.authorization;
  const credentialsKey = authorization === undefined ? '' : sha256(authorization);
  const bearer = credentialsKey === '' ? null : `bearer:${credentialsKey}`;
  const principal = name === null ? bearer : `header:${name}`;
  return {
    principal,
    principalKey: principal ?? ANONYMOUS,
    credentialsKey: options.authorization === 'forward' ? credentialsKey : '',
    headers: forwardedHeaders(headers, options),
  };
}

/** False when a configured source names nobody. */
export function isKnownCaller(headers: IncomingHttpHeaders, identity: IdentitySource): boolean {
  return identity.source === 'none' || nameOf(headers, identity) !== null;
}

/** What the source says, if there is one. */
function nameOf(headers: IncomingHttpHeaders, identity: IdentitySource): string | null {
  if (identity.source === 'none') return null;
  const value = headers[identity.header.toLowerCase()];
  return typeof value === 'string' && value !== '' ? value : null;
}

function forwardedHeaders(
  headers: IncomingHttpHeaders,
  options: CallerOptions,
): Record<string, string> {
  const forwarded: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    const wanted =
      name.startsWith('mcp-param-') ||
      FORWARDED.includes(name) ||
      (name === 'authorization' && options.authorization === 'forward');
    if (wanted && typeof value === 'string') forwarded[name] = value;
  }
  return forwarded;
}
