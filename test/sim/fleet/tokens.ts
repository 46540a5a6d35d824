/** The access tokens of callers: JWTs of an authorization server of which the gateways read the keys. */
import { createPrivateKey, createPublicKey, sign } from 'node:crypto';
import http from 'node:http';
import { below } from '../engine/random.ts';
import { simulation, type Simulation } from '../engine/simulation.ts';

/** What is wrong with a token that nobody must take. */
export const WRONG = ['another key', 'expired', 'another audience'] as const;
type Wrong = (typeof WRONG)[number];

export const ISSUER = 'https://issuer.example';
export const AUDIENCE = 'https://gateway.example/mcp';
const LIFETIME_MS = 20_000;
/** Some clients use a token for so long after its end, unless they hear that it is over. */
const LATE_MS = 3_000;
/** Longer than clocks are wrong, and that is tolerated. */
const LONG_OVER_MS = 3_600_000;
/** A private key of Ed25519 is any 32 bytes (RFC 8410, section 7). */
const KEY_PREFIX = '302e020100300506032b657004220420';
const keyOf = (byte: number) =>
  createPrivateKey({
    key: Buffer.concat([Buffer.from(KEY_PREFIX, 'hex'), Buffer.alloc(32, byte)]),
    format: 'der',
    type: 'pkcs8',
  });
const KEY = keyOf(7);
const OTHER_KEY = keyOf(8);

/** The public keys of the issuer. */
const PUBLIC_KEYS = {
  keys: [{ ...createPublicKey(KEY).export({ format: 'jwk' }), kid: 'only', alg: 'EdDSA' }],
};

/** The tokens that the callers of one simulation have. */
class Tokens {
  /** For which time a caller has renewed its token before it had to. */
  readonly #renewed = new Map<string, number>();

  /** The token that a caller has now: a new one from time to time, which some callers take late. */
  of(caller: string): string {
    const { nowMs, seed } = simulation();
    const offsetMs = below(`${seed}:token:${caller}`, LIFETIME_MS);
    const nth = Math.floor((nowMs + offsetMs) / LIFETIME_MS);
    const isLate = below(`${seed}:late:${caller}`, 2) === 0 && this.#renewed.get(caller) !== nth;
    const sinceMs = nowMs + offsetMs - nth * LIFETIME_MS;
    const endMs = (nth + (isLate && sinceMs < LATE_MS ? 0 : 1)) * LIFETIME_MS - offsetMs;
    return write(caller, endMs);
  }

  /** The caller has heard that its token is over. */
  renew(caller: string): void {
    const { nowMs, seed } = simulation();
    const offsetMs = below(`${seed}:token:${caller}`, LIFETIME_MS);
    this.#renewed.set(caller, Math.floor((nowMs + offsetMs) / LIFETIME_MS));
  }
}

const issuing = new WeakMap<Simulation, Tokens>();

/** Listens at `port` for those who want the keys of the issuer. */
export function startIssuer(port: number): void {
  const server = http.createServer((_, response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(PUBLIC_KEYS));
  });
  // They compare with the clock of the machine.
  Object.assign(server, { requestTimeout: 0, headersTimeout: 0 });
  server.listen(port, '127.0.0.1');
}

/** From now on, the callers of the simulation that runs have tokens. */
export function issueTokens(): void {
  issuing.set(simulation(), new Tokens());
}

/** The credentials of a caller: a token, or its name where nobody verifies them. */
export function bearerOf(caller: string): string {
  return issuing.get(simulation())?.of(caller) ?? caller;
}

/** Called when a caller hears that its credentials are not valid. */
export function renewToken(caller: string): void {
  issuing.get(simulation())?.renew(caller);
}

/** A token of a caller that nobody must take. */
export function wrongToken(caller: string, wrong: Wrong): string {
  const { nowMs } = simulation();
  switch (wrong) {
    case 'expired':
      return write(caller, nowMs - LONG_OVER_MS);
    case 'another key':
      return write(caller, nowMs + LIFETIME_MS, { key: OTHER_KEY });
    case 'another audience':
      return write(caller, nowMs + LIFETIME_MS, { audience: 'https://another.example' });
  }
}

/** Who sends a token, as a server reads it whose clock is right. @returns `null` if it is over */
export function readToken(token: string): string | null {
  const [, payload = ''] = token.split('.');
  const { sub, exp } = JSON.parse(Buffer.from(payload, 'base64url').toString()) as Claims;
  return exp * 1_000 > simulation().wallMs(ISSUER) ? sub : null;
}

/** Until when a server takes credentials, in virtual time. */
export function tokenEndMs(credentials: string): number {
  const [, payload] = credentials.split('.');
  if (payload === undefined) return Infinity;
  const { exp } = JSON.parse(Buffer.from(payload, 'base64url').toString()) as Claims;
  return simulation().nowMs + exp * 1_000 - simulation().wallMs(ISSUER);
}

interface Claims {
  readonly sub: string;
  /** In seconds since the epoch. */
  readonly exp: number;
}

function write(caller: string, endMs: number, { key = KEY, audience = AUDIENCE } = {}): string {
  const exp = Math.ceil(simulation().wallMs(ISSUER) + endMs - simulation().nowMs) / 1_000;
  const claims = { iss: ISSUER, aud: audience, sub: caller, exp };
  const parts = [{ alg: 'EdDSA', kid: 'only' }, claims].map((part) =>
    Buffer.from(JSON.stringify(part)).toString('base64url'),
  );
  const text = parts.join('.');
  return `${text}.${sign(null, Buffer.from(text), key).toString('base64url')}`;
}
