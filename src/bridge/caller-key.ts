/** By whom what a server shows is remembered. */
import { profileKey } from '../protocol/client-profile.ts';
import type { EdgeRequest } from './leg.ts';

/** A text that is equal for the same principal with the same credentials only. */
export function callerKey({ caller }: EdgeRequest): string {
  return JSON.stringify([caller.principalKey, caller.credentialsKey]);
}

/** The same, for what may also differ by what a client declares. */
export function clientKey(request: EdgeRequest): string {
  return JSON.stringify([callerKey(request), profileKey(request.profile)]);
}
