/** Verifies the access tokens of callers: JWTs that an authorization server issued for this gateway (RFC 9068). */
import type { errors, JWTPayload } from 'jose';
import type { Clock } from '../lib/clock.ts';
import type { ClaimValue, Grants } from '../model/request.ts';
import { KeysUnavailable, loadJose, type KeySet } from './key-set.ts';

export interface TokenRules {
  readonly issuer: string;
  /** A token must be issued for one of them (authorization, "Token Handling"). */
  readonly audiences: readonly string[];
  readonly requiredScopes: readonly string[];
  /** The claim that names the caller. */
  readonly principalClaim: string;
  /** Claims that are read besides. */
  readonly claims?: readonly string[];
}

type JoseErrors = typeof errors;

export type TokenVerdict =
  /** `leftMs`: how long the token is valid yet. */
  | {
      readonly kind: 'valid';
      readonly principal: string;
      readonly grants: Grants;
      readonly leftMs: number;
    }
  /**
   * `problem`: for the caller and the log. It contains nothing of the token. `expected`: for the log, what the
   * configuration asks for.
   */
  | { readonly kind: 'invalid'; readonly problem: string; readonly expected: string }
  | { readonly kind: 'insufficient-scope' }
  | { readonly kind: 'unavailable' };

/** Signatures that only the issuer can make: no `none`, and no secret that the gateway would share. */
const ALGORITHMS = ['RS', 'PS', 'ES'].flatMap((family) =>
  ['256', '384', '512'].map((bits) => `${family}${bits}`),
);
ALGORITHMS.push('EdDSA', 'Ed25519');

/** How far the clocks of this machine and of the issuer can differ: NTP keeps machines closer. */
const CLOCK_TOLERANCE_SECONDS = 30;

/** RFC 6750, section 2.1. */
const BEARER = /^Bearer +([A-Za-z0-9._~+/-]+=*) *$/i;

/** Returns the token in an `Authorization` header, or `null`. */
export function bearerTokenOf(authorization: string | undefined): string | null {
  return BEARER.exec(authorization ?? '')?.[1] ?? null;
}

/** Verifies a token: signature, issuer, audience, times, scopes and the name of the caller. Never rejects. */
export async function verifyToken(
  token: string,
  rules: TokenRules,
  keys: KeySet,
  clock: Clock,
): Promise<TokenVerdict> {
  const { issuer, audiences, requiredScopes, principalClaim, claims = [] } = rules;
  const jose = await loadJose().catch(() => null);
  // Then there are no keys either, and the log says why.
  if (jose === null) return { kind: 'unavailable' };
  const { errors, jwtVerify } = jose;
  let payload: JWTPayload;
  try {
    ({ payload } = await jwtVerify(token, keys.find, {
      issuer,
      audience: [...audiences],
      algorithms: ALGORITHMS,
      clockTolerance: CLOCK_TOLERANCE_SECONDS,
      currentDate: new Date(clock.now()),
      requiredClaims: ['exp', principalClaim],
    }));
  } catch (error) {
    if (error instanceof KeysUnavailable) return { kind: 'unavailable' };
    const [problem, expected] = problemOf(error, errors, rules);
    return { kind: 'invalid', problem, expected };
  }
  const name = payload[principalClaim];
  if (typeof name !== 'string' || name === '') {
    return {
      kind: 'invalid',
      problem: `the claim ${principalClaim} is not a string`,
      expected: `the name of the caller (identity.principalClaim: ${principalClaim})`,
    };
  }
  const scopes = scopesOf(payload);
  if (!requiredScopes.every((scope) => scopes.has(scope))) return { kind: 'insufficient-scope' };
  // Another issuer may give the same name to somebody else.
  const principal = `jwt:${JSON.stringify([issuer, name])}`;
  const leftMs = (Number(payload.exp) + CLOCK_TOLERANCE_SECONDS) * 1_000 - clock.now();
  const read = new Map(claims.map((claim) => [claim, valuesOf(payload, claim)]));
  return { kind: 'valid', principal, grants: { scopes, claims: read }, leftMs };
}

/**
 * Reads the values of a claim, which can be a list.
 * @param claim its name, or the path to it as a JSON Pointer (RFC 6901), such as `/realm_access/roles`
 */
function valuesOf(payload: JWTPayload, claim: string): readonly ClaimValue[] {
  const steps = claim.startsWith('/') ? claim.slice(1).split('/').map(unescaped) : [claim];
  let value: unknown = payload;
  for (const step of steps) {
    const isMember = typeof value === 'object' && value !== null && Object.hasOwn(value, step);
    value = isMember ? (value as Readonly<Record<string, unknown>>)[step] : undefined;
  }
  return [value]
    .flat()
    .filter((one) => ['string', 'number', 'boolean'].includes(typeof one)) as ClaimValue[];
}

function unescaped(step: string): string {
  return step.replaceAll('~1', '/').replaceAll('~0', '~');
}

/** Reads the scopes: `scope` (RFC 8693, section 4.2), or `scp` of servers that name it so. */
function scopesOf({ scope, scp }: JWTPayload): ReadonlySet<string> {
  return new Set([scope ?? scp].flat().flatMap((one) => String(one ?? '').split(' ')));
}

const IN_TIME = `another time, by the clock of this machine (within ${CLOCK_TOLERANCE_SECONDS} s)`;
const A_KEY = 'a signature with one of the keys of identity.jwks';

/** What is wrong with a token by the code of the error, and what the configuration expects. */
const PROBLEMS: Readonly<Record<string, readonly [problem: string, expected: string]>> = {
  ERR_JWT_EXPIRED: ['it has expired', IN_TIME],
  ERR_JWKS_NO_MATCHING_KEY: ['its key is not a key of the issuer', A_KEY],
  ERR_JWKS_MULTIPLE_MATCHING_KEYS: [
    'it names no key',
    'a kid, since identity.jwks has several keys',
  ],
  ERR_JOSE_ALG_NOT_ALLOWED: ['its algorithm is not allowed', 'RS*, PS*, ES* or EdDSA'],
  ERR_JWS_SIGNATURE_VERIFICATION_FAILED: ['its signature is wrong', A_KEY],
};
const NO_JWT = ['it is not a valid JWT', 'a JWT, not an opaque token'] as const;

/** Returns what is wrong with a token, and what the configuration expects. */
function problemOf(
  error: unknown,
  errors: JoseErrors,
  { issuer, audiences }: TokenRules,
): readonly [problem: string, expected: string] {
  if (!(error instanceof errors.JOSEError)) return NO_JWT;
  if (!(error instanceof errors.JWTClaimValidationFailed)) return PROBLEMS[error.code] ?? NO_JWT;
  const { claim, reason } = error;
  if (reason === 'missing') return [`the claim ${claim} is missing`, `the claim ${claim}`];
  if (claim === 'iss') return ['it is from another issuer', `identity.issuer: ${issuer}`];
  if (claim === 'aud') {
    return ['it is for another audience', `one of identity.audiences: ${audiences.join(', ')}`];
  }
  if (claim === 'nbf') return ['it is not valid yet', IN_TIME];
  return [`the claim ${claim} is not valid`, 'a claim as RFC 7519 defines it'];
}
