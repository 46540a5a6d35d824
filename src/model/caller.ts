/** Who sent a request: what pools, quotas and pointers need to know. */

/**
 * How a caller is known.
 * - `verified`: a proxy or a token names the principal, whatever its credentials are
 * - `credentials`: its credentials are all that is known
 * - `local-user`: it has no credentials, and runs on the machine of a gateway that only that machine reaches
 * - `anonymous`: nothing tells it from others
 */
export type CallerKind = 'verified' | 'credentials' | 'local-user' | 'anonymous';

/** The start of the principal of a caller that only its credentials tell from others. */
export const CREDENTIALS_PREFIX = 'bearer:';
/** The key of the local user, who is no principal. */
export const LOCAL_USER_KEY = 'local-user';

/** Tells how a caller is known from what identifies it. */
export function callerKindOf({
  principal,
  principalKey,
}: Pick<Caller, 'principal' | 'principalKey'>): CallerKind {
  if (principal !== null) {
    return principal.startsWith(CREDENTIALS_PREFIX) ? 'credentials' : 'verified';
  }
  return principalKey === LOCAL_USER_KEY ? 'local-user' : 'anonymous';
}

/** A caller, as the configured identity source names it. */
export interface Caller {
  readonly kind: CallerKind;
  /** Equal for the same principal only. Session pools and quotas are keyed by it. */
  readonly principalKey: string;
  /** The principal that a pointer is bound to; `null` for an anonymous caller. */
  readonly principal: string | null;
  /** A digest of the credentials that go upstream. */
  readonly credentialsKey: string;
  /** The header that names the conversation (`sessions.key.header`); `null` if none does. */
  readonly conversation: string | null;
  /** Headers that go upstream with this request: credentials, and what the client addressed to the server. */
  readonly headers: Readonly<Record<string, string>>;
}
