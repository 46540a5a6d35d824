/** What the bridge needs to know of a client request, and what it answers. No HTTP in here. */
import type { ClientProfile } from '../protocol/translate/client-profile.ts';
import type { JsonObject } from '../protocol/json/json.ts';
import type { ProgressToken } from '../protocol/progress-token.ts';
import type { Failure } from './outcome.ts';

/** Who is calling, as the identity source found out. */
export interface Caller {
  /** Equal for the same principal only; the key of pools and quotas. */
  readonly principalKey: string;
  /** What a pointer is bound to; `null` for an anonymous caller. */
  readonly principal: string | null;
  /** A digest of the credentials that go upstream. */
  readonly credentialsKey: string;
  /** Headers that go upstream with this request: credentials, and what the client addressed to the server. */
  readonly headers: Readonly<Record<string, string>>;
}

export interface EdgeRequest {
  readonly method: string;
  readonly params: JsonObject;
  /** Members of the request's `_meta` that go upstream: trace context and vendor keys. */
  readonly forwardedMeta: JsonObject;
  readonly profile: ClientProfile;
  readonly clientInfo: JsonObject | null;
  readonly logLevel: string | null;
  readonly progressToken: ProgressToken | null;
  readonly inputResponses: JsonObject | null;
  readonly requestState: string | null;
  readonly caller: Caller;
}

/** The client's side of one request while it waits. */
export interface Leg {
  /** Sends a notification to the client; never after the answer. */
  notify(method: string, params: JsonObject): void;
  /**
   * Resolves when the client has taken what waits for it, or there is nobody to take it any more; `null`
   * while it keeps up.
   */
  readonly backlog: Promise<void> | null;
  /** Aborts when the client closes its connection before it has the whole answer. */
  readonly closed: AbortSignal;
}

export type CallAnswer =
  | { readonly kind: 'result'; readonly result: JsonObject }
  | { readonly kind: 'failed'; readonly failure: Failure };
