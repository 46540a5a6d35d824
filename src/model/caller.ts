/** Who sent a request: what pools, quotas and pointers need to know. */

/** A caller, as the configured identity source names it. */
export interface Caller {
  /** Equal for the same principal only. Session pools and quotas are keyed by it. */
  readonly principalKey: string;
  /** The principal that a pointer is bound to; `null` for an anonymous caller. */
  readonly principal: string | null;
  /** A digest of the credentials that go upstream. */
  readonly credentialsKey: string;
  /** Headers that go upstream with this request: credentials, and what the client addressed to the server. */
  readonly headers: Readonly<Record<string, string>>;
}
