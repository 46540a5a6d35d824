/** The refusal of a caller, with the challenge that tells its client what to do (authorization, "Error Handling"). */
import type { CallerRefusal } from '../model/request.ts';
import type { IdentityVerdict } from './identity.ts';

export interface ChallengeOptions {
  /** The URL of the gateway's own metadata; `null` if it has none. */
  readonly metadataUrl: string | null;
  readonly requiredScopes: readonly string[];
}

const RETRY_AFTER_SECONDS = '5';

/** Returns the refusal of a caller that is not known. */
export function refusalOf(
  verdict: Exclude<IdentityVerdict, { readonly kind: 'known' }>,
  options: ChallengeOptions,
): CallerRefusal {
  switch (verdict.kind) {
    case 'no-header':
      return {
        httpStatus: 401,
        message: 'The identity header is missing; the proxy must set it',
        // A 401 must have a challenge (RFC 9110, section 15.5.2). With a scheme that clients know they would log in here.
        headers: { 'www-authenticate': 'Trusted-Proxy' },
      };
    case 'no-token':
      return challenged(401, 'An access token is required: Authorization: Bearer', {}, options);
    case 'invalid': {
      const message = `The access token is refused: ${verdict.problem}`;
      const error = { error: 'invalid_token', error_description: message };
      return challenged(401, message, error, options);
    }
    case 'insufficient-scope': {
      const message = `The access token lacks a scope; required: ${options.requiredScopes.join(' ')}`;
      return challenged(403, message, { error: 'insufficient_scope' }, options);
    }
    case 'unavailable':
      return {
        httpStatus: 503,
        message: 'Access tokens cannot be verified now, since the keys cannot be read; retry later',
        headers: { 'retry-after': RETRY_AFTER_SECONDS },
      };
  }
}

/**
 * Returns the refusal of a request for which a token needs further scopes (authorization, "Runtime Insufficient Scope Errors").
 * It names all that the request needs, since clients of 2025-11-25 ask for these and no others.
 * @param hasToken false if there was none, so that no scope can be missing in it
 */
export function scopeRefusalOf(
  scopes: readonly string[],
  hasToken: boolean,
  { metadataUrl, requiredScopes }: ChallengeOptions,
): CallerRefusal {
  const needed = [...new Set([...requiredScopes, ...scopes])];
  const message = `An access token with these scopes is required: ${needed.join(' ')}`;
  const options = { metadataUrl, requiredScopes: needed };
  if (!hasToken) return challenged(401, message, {}, options);
  const error = { error: 'insufficient_scope', error_description: message };
  return challenged(403, message, error, options);
}

/** Returns the refusal of a caller whose token yields none for the server. */
export function exchangeRefusalOf(
  kind: 'invalid' | 'forbidden' | 'failed',
  options: ChallengeOptions,
): CallerRefusal {
  switch (kind) {
    case 'invalid': {
      const message = 'The access token is refused: the authorization server does not exchange it';
      const error = { error: 'invalid_token', error_description: message };
      return challenged(401, message, error, options);
    }
    case 'forbidden':
      return {
        httpStatus: 403,
        message: 'The authorization server issues no token for this server to this caller',
        headers: {},
      };
    case 'failed':
      return {
        httpStatus: 502,
        message: 'The access token cannot be exchanged now: the authorization server failed',
        headers: {},
      };
  }
}

function challenged(
  httpStatus: number,
  message: string,
  error: Readonly<Record<string, string>>,
  { metadataUrl, requiredScopes }: ChallengeOptions,
): CallerRefusal {
  const parameters = Object.entries({
    ...error,
    ...(requiredScopes.length > 0 && { scope: requiredScopes.join(' ') }),
    ...(metadataUrl !== null && { resource_metadata: metadataUrl }),
  }).map(([name, value]) => `${name}="${value}"`);
  const challenge = ['Bearer', parameters.join(', ')].filter((part) => part !== '').join(' ');
  return { httpStatus, message, headers: { 'www-authenticate': challenge } };
}
