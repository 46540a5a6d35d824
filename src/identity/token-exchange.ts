/**
 * Exchanges the access token of a caller for one that the server behind a route accepts (RFC 8693). A token is exchanged once
 * until the new one has nearly expired, however many requests need it at a time.
 */
import type { IncomingMessage } from 'node:http';
import { z } from 'zod';
import type { Clock } from '../lib/clock.ts';
import { LruMap } from '../lib/containers.ts';
import { sha256 } from '../lib/crypto.ts';
import { Cached, type Timed } from '../lib/cached.ts';
import { bearerTokenOf } from './access-token.ts';
import { fetchJson } from './fetch-json.ts';

export interface TokenExchangeConfig {
  readonly tokenEndpoint: URL;
  readonly clientId: string;
  readonly clientSecret: string;
  /** Where the new token is to be used. */
  readonly resource: string | null;
  readonly scopes: readonly string[];
}

export type Exchanged =
  | { readonly kind: 'token'; readonly authorization: string }
  /** The authorization server does not accept the token. */
  | { readonly kind: 'invalid' }
  /** The caller, or the gateway for it, may not use the server. */
  | { readonly kind: 'forbidden' }
  /** No token, and not because of the caller. */
  | { readonly kind: 'failed' };

export interface TokenExchangeOptions {
  readonly config: TokenExchangeConfig;
  readonly clock: Clock;
  /** Called for each exchange that yields no token. `problem` contains nothing of a token. */
  readonly onFailure: (problem: string) => void;
}

const GRANT = 'urn:ietf:params:oauth:grant-type:token-exchange';
const ACCESS_TOKEN = 'urn:ietf:params:oauth:token-type:access_token';
/** The tokens that are kept. */
const MAX_TOKENS = 10_000;
/** How long a token is kept whose lifetime is not said, in ms. */
const UNKNOWN_LIFETIME_MS = 60_000;
/** How long a refusal is kept, so that its caller does not have the authorization server asked for each request. */
const REFUSED_MS = 2_000;
/** A token is not used in the last tenth of its life, nor in the last half minute. */
const MAX_MARGIN_MS = 30_000;

/** RFC 8693, section 2.2.1. A token that is not a bearer token cannot be sent as one. */
const granted = z.object({
  access_token: z.string().regex(/^[\x21-\x7e]{1,16384}$/),
  token_type: z.string().regex(/^bearer$/i),
  expires_in: z.number().min(0).optional(),
});
/** RFC 6749, section 5.2. */
const refused = z.object({ error: z.string().regex(/^[a-z_]{1,64}$/) });

/** What an error code means for the caller (RFC 8693, section 2.2.2). Others are faults of the configuration. */
const MEANINGS: ReadonlyMap<string, Exchanged> = new Map([
  ['invalid_request', { kind: 'invalid' }],
  ['invalid_grant', { kind: 'invalid' }],
  ['access_denied', { kind: 'forbidden' }],
  ['invalid_scope', { kind: 'forbidden' }],
  ['invalid_target', { kind: 'forbidden' }],
]);

export class TokenExchange {
  readonly #options: TokenExchangeOptions;
  readonly #authorizations = new WeakMap<IncomingMessage, string>();
  /** By a digest of what is signed in the token that was exchanged: a signature can be spelled in several ways. */
  readonly #kept = new LruMap<string, Cached<Exchanged>>(MAX_TOKENS);

  constructor(options: TokenExchangeOptions) {
    this.#options = options;
  }

  /** Exchanges the token of a request that was verified, if it has one. Never rejects. */
  async exchangeFor(request: IncomingMessage): Promise<Exchanged['kind']> {
    const token = bearerTokenOf(request.headers.authorization);
    if (token === null) return 'token';
    const exchanged = await this.exchange(token);
    if (exchanged.kind === 'token') this.#authorizations.set(request, exchanged.authorization);
    return exchanged.kind;
  }

  /** Returns what the server gets of a request whose token was exchanged. */
  headersOf(request: IncomingMessage): { readonly authorization?: string } {
    const authorization = this.#authorizations.get(request);
    return authorization === undefined ? {} : { authorization };
  }

  /** Exchanges a token that was verified. Never rejects. */
  exchange(token: string): Promise<Exchanged> {
    const key = sha256(token.split('.', 2).join('.'));
    let kept = this.#kept.get(key);
    if (kept === undefined) this.#kept.set(key, (kept = new Cached()));
    return kept.get(this.#options.clock, () => this.#request(token));
  }

  async #request(token: string): Promise<Timed<Exchanged>> {
    const { config, clock, onFailure } = this.#options;
    const { tokenEndpoint, clientId, clientSecret, resource, scopes } = config;
    const form = new URLSearchParams({
      grant_type: GRANT,
      subject_token: token,
      subject_token_type: ACCESS_TOKEN,
      requested_token_type: ACCESS_TOKEN,
      ...(resource !== null && { resource }),
      ...(scopes.length > 0 && { scope: scopes.join(' ') }),
    });
    // Both are encoded as form values first (RFC 6749, section 2.3.1).
    const login = [clientId, clientSecret].map(formEncoded).join(':');
    const headers = { authorization: `Basic ${Buffer.from(login).toString('base64')}` };
    try {
      const { status, body } = await fetchJson(tokenEndpoint, { form, headers }, clock);
      const answer = status === 200 ? granted.safeParse(body) : null;
      if (answer?.success === true) {
        const { access_token, expires_in } = answer.data;
        const authorization = `Bearer ${access_token}`;
        return { value: { kind: 'token', authorization }, keepMs: keepMsOf(expires_in) };
      }
      const error = refused.safeParse(body).data?.error ?? null;
      onFailure(
        status === 200
          ? 'the response has no bearer token'
          : `the authorization server responded with ${error ?? 'no error code'} (HTTP status ${status})`,
      );
      const meaning = status < 500 && error !== null ? MEANINGS.get(error) : undefined;
      return { value: meaning ?? { kind: 'failed' }, keepMs: REFUSED_MS };
    } catch (error) {
      onFailure(error instanceof Error ? error.message || error.name : 'no response');
      return { value: { kind: 'failed' }, keepMs: REFUSED_MS };
    }
  }
}

function keepMsOf(expiresIn: number | undefined): number {
  if (expiresIn === undefined) return UNKNOWN_LIFETIME_MS;
  const lifetimeMs = expiresIn * 1_000;
  return lifetimeMs - Math.min(MAX_MARGIN_MS, lifetimeMs / 10);
}

function formEncoded(text: string): string {
  return new URLSearchParams([['', text]]).toString().slice(1);
}
