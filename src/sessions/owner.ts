/** Whose session a request uses. */
import type { EdgeRequest } from '../model/request.ts';
import type { SessionRequest } from '../upstream/upstream.ts';

export interface SessionOwner extends SessionRequest {
  /** A text that is equal for the same principal only. */
  readonly principalKey: string;
  /** A digest of the credentials that go upstream. Different credentials never share a session. */
  readonly credentialsKey: string;
  /** Anonymous callers cannot be told apart, and must not see each other's state in a session. */
  readonly anonymous: boolean;
}

/**
 * Names the owner of the session that a request uses.
 * @returns everything about the caller that two requests on one session must share
 */
export function sessionOwnerOf({ profile, clientInfo, caller }: EdgeRequest): SessionOwner {
  return {
    profile,
    clientInfo,
    headers: caller.headers,
    principalKey: caller.principalKey,
    credentialsKey: caller.credentialsKey,
    anonymous: caller.principal === null,
  };
}
