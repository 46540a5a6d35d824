/**
 * Who is calling. Only a verified source counts: a header that a trusted proxy in front of us sets. The
 * credentials themselves tell callers apart as well, since no two of them may share a session.
 */
import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import type { Caller } from '../bridge/leg.ts';

export type IdentitySource =
  | { readonly source: 'none' }
  /** A trusted proxy names the principal in this header, and removes it from what clients send. */
  | { readonly source: 'header'; readonly header: string };

export interface CallerOptions {
  readonly identity: IdentitySource;
  /** `strip`: the client's `Authorization` stays here. */
  readonly authorization: 'forward' | 'strip';
}

/** The principal that a configured source must name, and did not. */
export class UnknownPrincipal extends Error {
  readonly code = 'unknown_principal';

  constructor(header: string) {
    super(`the request has no ${header} header`);
    this.name = 'UnknownPrincipal';
  }
}

const ANONYMOUS = 'anonymous';
const FORWARDED = ['traceparent', 'tracestate'];

/**
 * The caller of a request.
 * Without an identity source, whoever holds the same credentials is the same principal, and callers
 * without any are anonymous.
 * @throws UnknownPrincipal when the configured header is missing
 */
export function callerOf(headers: IncomingHttpHeaders, options: CallerOptions): Caller {
  const authorization = headers.authorization;
  const credentialsKey = authorization === undefined ? '' : digest(authorization);
  const principal = principalOf(headers, options.identity, credentialsKey);
  return {
    principal,
    principalKey: principal ?? ANONYMOUS,
    credentialsKey: options.authorization === 'forward' ? credentialsKey : '',
    headers: forwardedHeaders(headers, options),
  };
}

/** False when a configured source names nobody. */
export function isKnownCaller(headers: IncomingHttpHeaders, identity: IdentitySource): boolean {
  try {
    principalOf(headers, identity, '');
    return true;
  } catch {
    return false;
  }
}

function principalOf(
  headers: IncomingHttpHeaders,
  identity: IdentitySource,
  credentialsKey: string,
): string | null {
  if (identity.source === 'none') return credentialsKey === '' ? null : `bearer:${credentialsKey}`;
  const value = headers[identity.header.toLowerCase()];
  if (typeof value !== 'string' || value === '') throw new UnknownPrincipal(identity.header);
  return `header:${value}`;
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

function digest(text: string): string {
  return createHash('sha256').update(text).digest('base64url');
}
