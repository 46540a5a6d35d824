/** Whose session a request takes: everything about the caller that a session must not mix. */
import type { SessionOwner } from '../upstream/pool/session-pool.ts';
import type { EdgeRequest } from './request.ts';

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
