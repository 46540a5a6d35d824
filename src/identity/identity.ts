/**
 * Identifies callers: by their access token, by a header that a trusted proxy sets, and by their credentials, since
 * callers with different credentials must not share a session.
 */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { BlockList, isIP, isIPv6 } from 'node:net';
import { inBackground } from '../lib/background.ts';
import type { Clock, Timer } from '../lib/clock.ts';
import { sha256 } from '../lib/crypto.ts';
import {
  ANONYMOUS_KEY,
  callerKindOf,
  CREDENTIALS_PREFIX,
  type Caller,
  type Grants,
} from '../model/request.ts';
import type { Log } from '../ops/log.ts';
import { throttledLog } from '../ops/throttled-log.ts';
import { bearerTokenOf, verifyToken, type TokenRules, type TokenVerdict } from './access-token.ts';
import { KeySet, type JwksSource } from './key-set.ts';
import type { ResourceMetadata } from './protected-resource.ts';

export interface TokenIdentity extends TokenRules {
  readonly source: 'jwt';
  /** `optional`: callers without a token are anonymous. */
  readonly mode: 'strict' | 'optional';
  readonly jwks: JwksSource;
  readonly resourceMetadata: ResourceMetadata | null;
}

export type IdentitySource =
  | { readonly source: 'none' }
  /** A trusted proxy sets this header to the principal, and removes it from client requests. */
  | { readonly source: 'header'; readonly header: string }
  | TokenIdentity;

/** Who is known to have sent a request. */
export interface Known {
  /** `null` if the source names nobody and need not. */
  readonly principal: string | null;
  /** What the token says besides. Absent without one. */
  readonly grants?: Grants;
}

/** What the identity source says of the caller of a request. */
export type IdentityVerdict =
  /** `overAtMs`: when the token is over that names it, in ms of `Clock.elapsed`. */
  | ({ readonly kind: 'known'; readonly overAtMs?: number } & Known)
  | { readonly kind: 'no-header' | 'no-token' }
  | Exclude<TokenVerdict, { readonly kind: 'valid' }>;

export interface IdentityOptions {
  readonly identity: IdentitySource;
  /** The claims of tokens that are read besides, since rules name them. */
  readonly claims?: readonly string[];
  /** If it is not empty, only they can name callers in a header. */
  readonly trustedProxies: readonly string[];
  readonly clock: Clock;
  readonly log: Log;
}

/** What goes on for a caller after its request was let in, such as a stream. */
interface Ongoing {
  readonly request: IncomingMessage;
  readonly principal: string | null;
  readonly end: () => void;
  /** Until the token is over; `null` without one. */
  timer: Timer | null;
  isOver: boolean;
}

const NOBODY = { kind: 'known', principal: null } as const satisfies IdentityVerdict;

export class Identity {
  readonly #options: IdentityOptions;
  readonly #isTrusted: (address: string) => boolean;
  readonly #keys: KeySet | null;
  /** The log of refused callers, by what is wrong with them. */
  readonly #refusals = new Map<string, (expected: string) => void>();
  /** What was found by a token, or by an address, which is unknown once the connection is closed. */
  readonly #verdicts = new WeakMap<IncomingMessage, IdentityVerdict>();
  readonly #ongoing = new Set<Ongoing>();
  /** What identifies callers in place of this one. */
  #next: Identity | null = null;

  constructor(options: IdentityOptions) {
    const { identity, clock, log, trustedProxies } = options;
    this.#options = options;
    this.#isTrusted = trustCheck(trustedProxies);
    const onFailure = (problem: string) => log.event('identity.keys_unavailable', { problem });
    this.#keys =
      identity.source === 'jwt' ? new KeySet({ source: identity.jwks, clock, onFailure }) : null;
  }

  /** What keeps the gateway from identifying callers; `null` if nothing does. */
  get problem(): string | null {
    return this.#keys?.isReady === false ? 'no keys to verify tokens with' : null;
  }

  /** Prepares the identification. Resolves when it is ready, or retries in the background. */
  async start(): Promise<void> {
    await this.#keys?.start();
  }

  close(): void {
    this.#keys?.close();
  }

  /** Has another one identify callers from here on. What goes on for those whom it refuses, or names otherwise, ends. */
  replaceBy(next: Identity): void {
    this.close();
    this.#next = next;
    const ongoing = [...this.#ongoing];
    this.#ongoing.clear();
    for (const one of ongoing) this.#watch(one);
  }

  /**
   * Ends what goes on for the caller of a request that was identified, as soon as its token is over or a later configuration
   * refuses it.
   * @returns a function to call when it is over anyway
   */
  untilRefused(request: IncomingMessage, end: () => void): () => void {
    const { principal } = this.knownOf(request);
    const ongoing: Ongoing = { request, principal, end, timer: null, isOver: false };
    this.#watch(ongoing);
    return () => {
      ongoing.isOver = true;
      ongoing.timer?.cancel();
      this.#forget(ongoing);
    };
  }

  #watch(ongoing: Ongoing): void {
    ongoing.timer?.cancel();
    ongoing.timer = null;
    if (this.#next !== null) return inBackground(this.#next.#watchIfKnown(ongoing));
    this.#ongoing.add(ongoing);
    const verdict = this.#verdictOf(ongoing.request);
    if (verdict?.kind !== 'known' || verdict.overAtMs === undefined) return;
    const { clock } = this.#options;
    ongoing.timer = clock.setTimer(Math.max(0, verdict.overAtMs - clock.elapsed()), () => {
      this.#ongoing.delete(ongoing);
      ongoing.end();
    });
  }

  async #watchIfKnown(ongoing: Ongoing): Promise<void> {
    const verdict = await this.identify(ongoing.request);
    if (ongoing.isOver) return;
    if (verdict.kind === 'known' && verdict.principal === ongoing.principal) this.#watch(ongoing);
    else ongoing.end();
  }

  /** Forgets it, whichever one watches it now. */
  #forget(ongoing: Ongoing): void {
    this.#ongoing.delete(ongoing);
    if (this.#next !== null) this.#next.#forget(ongoing);
  }

  /** Identifies the caller of a request, once for each request. Only a token takes time. Never rejects. */
  identify(request: IncomingMessage): IdentityVerdict | Promise<IdentityVerdict> {
    const { identity } = this.#options;
    if (identity.source === 'none') return NOBODY;
    const known = this.#verdictOf(request);
    if (known !== undefined) return known;
    const keep = (verdict: IdentityVerdict): IdentityVerdict => {
      this.#verdicts.set(request, verdict);
      return verdict;
    };
    return identity.source === 'header'
      ? keep(this.#named(request, identity.header))
      : this.#verified(request.headers.authorization, identity).then(keep);
  }

  /** Who sent a request that was identified. */
  knownOf(request: IncomingMessage): Known {
    const verdict = this.#verdictOf(request);
    return verdict?.kind === 'known' ? verdict : NOBODY;
  }

  /** Returns what is known of a request. A header alone is read again: that takes less than to remember it. */
  #verdictOf(request: IncomingMessage): IdentityVerdict | undefined {
    const { identity, trustedProxies } = this.#options;
    return identity.source === 'header' && trustedProxies.length === 0
      ? this.#named(request, identity.header)
      : this.#verdicts.get(request);
  }

  /** Returns the address of the client: that of the peer, or what trusted proxies say of it (`X-Forwarded-For`). */
  addressOf({ headers, socket }: IncomingMessage): string | undefined {
    let address = socket.remoteAddress;
    if (this.#options.trustedProxies.length === 0) return address;
    const hops = String(headers['x-forwarded-for'] ?? '').split(',');
    while (address !== undefined && this.#isTrusted(address) && hops.length > 0) {
      const hop = hops.pop()?.trim() ?? '';
      if (isIP(hop) === 0) break;
      address = hop;
    }
    return address;
  }

  #named({ headers, socket }: IncomingMessage, header: string): IdentityVerdict {
    const name = headers[header.toLowerCase()];
    if (typeof name !== 'string' || name === '') return { kind: 'no-header' };
    if (this.#isTrusted(socket.remoteAddress ?? '')) {
      return { kind: 'known', principal: `header:${name}` };
    }
    const problem = 'the identity header comes from a peer that edge.trustedProxies does not list';
    const expected = `one of edge.trustedProxies: ${this.#options.trustedProxies.join(', ')}`;
    this.#logRefusal(problem, expected);
    return { kind: 'no-header' };
  }

  async #verified(
    authorization: string | undefined,
    identity: TokenIdentity,
  ): Promise<IdentityVerdict> {
    if (authorization === undefined && identity.mode === 'optional') return NOBODY;
    const token = bearerTokenOf(authorization);
    if (token === null || this.#keys === null) return { kind: 'no-token' };
    const { clock, claims = [] } = this.#options;
    const verdict = await verifyToken(token, { ...identity, claims }, this.#keys, clock);
    if (verdict.kind === 'invalid') {
      const { problem, expected } = verdict;
      this.#logRefusal(problem, expected);
    } else if (verdict.kind === 'insufficient-scope') {
      const expected = `identity.requiredScopes: ${identity.requiredScopes.join(', ')}`;
      this.#logRefusal('it lacks a scope', expected);
    }
    if (verdict.kind !== 'valid') return verdict;
    const { principal, grants, leftMs } = verdict;
    return { kind: 'known', principal, grants, overAtMs: clock.elapsed() + leftMs };
  }

  /** @param problem one of few, which hold nothing of a request */
  #logRefusal(problem: string, expected: string): void {
    const { clock, log } = this.#options;
    let refused = this.#refusals.get(problem);
    refused ??= throttledLog<string>(clock, (latest, requests) =>
      log.event('identity.refused', { problem, expected: latest, requests }),
    );
    this.#refusals.set(problem, refused);
    refused(expected);
  }
}

/** Creates the check of the peers that can name callers. */
function trustCheck(proxies: readonly string[]): (address: string) => boolean {
  if (proxies.length === 0) return () => true;
  const trusted = new BlockList();
  for (const proxy of proxies) {
    const [address = '', bits] = proxy.split('/');
    const family = familyOf(address);
    if (bits === undefined) trusted.addAddress(address, family);
    else trusted.addSubnet(address, Number(bits), family);
  }
  // A socket for both families shows IPv4 peers as IPv6 addresses; the list knows that they are the same.
  return (address) => address !== '' && trusted.check(address, familyOf(address));
}

function familyOf(address: string): 'ipv6' | 'ipv4' {
  return isIPv6(address) ? 'ipv6' : 'ipv4';
}

export interface CallerOptions {
  /** Headers that are credentials, besides `Authorization`. In lower case. */
  readonly credentialHeaders: readonly string[];
  /** Whether the client's `Authorization` is sent upstream: not with `strip`, and not with `exchange`. */
  readonly authorization: 'forward' | 'strip' | 'exchange';
  /** Further headers that go upstream. In lower case. */
  readonly forwardHeaders: readonly string[];
  /** The header that names the conversation, if one is configured. */
  readonly conversationHeader?: string | null;
}

/**
 * Describes the caller of a request. Without an identity source, the same credentials mean the same
 * principal, and callers without credentials are anonymous.
 * @param known the principal that the identity source names, if it names one, and what its token grants
 */
export function callerOf(
  headers: IncomingHttpHeaders,
  { principal: named, grants }: Known,
  options: CallerOptions,
): Caller {
  const keys = credentialHeadersOf(headers, options.credentialHeaders);
  const digest = digestOf(headers.authorization, keys);
  const keysDigest = digestOf(undefined, keys);
  const principal = named === null ? principalBy(digest) : principalWith(named, keysDigest);
  const principalKey = principal ?? ANONYMOUS_KEY;
  return {
    kind: callerKindOf({ principal, principalKey }),
    principal,
    principalKey,
    credentialsKey: options.authorization === 'forward' ? digest : keysDigest,
    conversation: conversationOf(headers, options.conversationHeader ?? null),
    ...(grants !== undefined && { grants }),
    headers: forwardedHeaders(headers, options),
  };
}

/** @returns the principal that nobody names, by its credentials; `null` without any */
function principalBy(digest: string): string | null {
  return digest === '' ? null : `${CREDENTIALS_PREFIX}${digest}`;
}

/** Different credentials of one name are different principals, since only `Authorization` is refreshed. */
function principalWith(named: string, digest: string): string {
  return digest === '' ? named : named.replace(':', `+${digest}:`);
}

/** Returns the credentials that a request has, with their names. */
function credentialHeadersOf(
  headers: IncomingHttpHeaders,
  names: readonly string[],
): readonly (readonly [name: string, value: string])[] {
  return names.flatMap((name) => {
    const value = headers[name];
    return value === undefined ? [] : [[name, String(value)] as const];
  });
}

/** Returns a digest of credentials, or an empty text if there are none. */
function digestOf(
  authorization: string | undefined,
  keys: ReturnType<typeof credentialHeadersOf>,
): string {
  if (keys.length > 0) return sha256(JSON.stringify([authorization ?? null, keys]));
  return authorization === undefined ? '' : sha256(authorization);
}

function conversationOf(headers: IncomingHttpHeaders, name: string | null): string | null {
  const value = name === null ? undefined : headers[name.toLowerCase()];
  return value === undefined ? null : sha256(String(value));
}

function forwardedHeaders(
  headers: IncomingHttpHeaders,
  { authorization, forwardHeaders }: CallerOptions,
): Record<string, string> {
  const forwarded: Record<string, string> = {};
  const copy = (name: string) => {
    const value = headers[name];
    if (typeof value === 'string') forwarded[name] = value;
  };
  if (authorization === 'forward') copy('authorization');
  for (const name of TRACE_CONTEXT) copy(name);
  for (const name of forwardHeaders) copy(name);
  for (const name in headers) if (name.startsWith(PARAMETER_PREFIX)) copy(name);
  return forwarded;
}

/** Trace Context (W3C). */
const TRACE_CONTEXT = ['traceparent', 'tracestate'];
/** Headers that repeat parameters of a tool (streamable-http, "Custom Headers from Tool Parameters"). */
const PARAMETER_PREFIX = 'mcp-param-';
