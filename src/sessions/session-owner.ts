/** Whose session a request uses, which owners share one, and whose sessions are counted together. */
import { sha256 } from '../lib/crypto.ts';
import type { EdgeRequest, CallerKind } from '../model/request.ts';
import { profileKey, type ClientProfile } from '../protocol/translate/client-profile.ts';
import type { SessionRequest } from '../upstream/legacy-server.ts';

export interface SessionOwner extends SessionRequest {
  readonly kind: CallerKind;
  /** A text that is equal for the same principal only. */
  readonly principalKey: string;
  /** A digest of the credentials that go upstream. */
  readonly credentialsKey: string;
  /** The header that names the conversation; `null` if none does. */
  readonly conversation: string | null;
}

/**
 * - `principal`: all calls of a principal use its home session
 * - `call`: a new session for each call, so that anonymous callers never share one
 * - `shared`: all callers use all sessions; only for servers that keep no state in a session
 */
export type SessionScope = 'principal' | 'call' | 'shared';

/**
 * Names the owner of the session that a request uses.
 * @returns everything about the caller that two requests on one session must share
 */
export function sessionOwnerOf({ profile, clientInfo, caller }: EdgeRequest): SessionOwner {
  const { headers, kind, principalKey, credentialsKey, conversation } = caller;
  return { profile, clientInfo, headers, kind, principalKey, credentialsKey, conversation };
}

/** Returns a text that is equal for owners that may share a session. */
function ownerKey(owner: SessionOwner, scope: SessionScope): string {
  const { clientInfo, profile, kind, credentialsKey, conversation } = owner;
  const isShared = scope === 'shared';
  // With a verified identity a session survives a refreshed token.
  const credentials = kind === 'verified' && !isShared ? '' : credentialsKey;
  return JSON.stringify([
    isShared ? '' : owner.principalKey,
    profileKey(profile),
    clientInfo === null ? '' : JSON.stringify(clientInfo),
    credentials,
    conversation,
  ]);
}

/** True if the server can ask the user or the model of the client. Roots are the caller's, not a call's. */
export function canBeAsked(profile: ClientProfile): boolean {
  return profile.elicitationForm || profile.elicitationUrl || profile.sampling;
}

/** How calls of one home that come at the same time are run; see `CallQueue`. */
export type HomeConcurrency = 'auto' | 'together' | 'queue';

export interface SharingOptions {
  /** `null`: `call` for anonymous owners, `principal` for others. */
  readonly scope: SessionScope | null;
  /** `separate`: each call has a session of its own, and a kept one if there is one. For the others see `CallQueue`. */
  readonly concurrency: HomeConcurrency | 'separate';
}

/** Which home an owner has, and how its calls run together. */
export interface HomeName {
  /** A digest, equal for owners that share a home. */
  readonly key: string;
  readonly concurrency: HomeConcurrency;
}

export class Sharing {
  readonly #options: SharingOptions;

  constructor(options: SharingOptions) {
    this.#options = options;
  }

  /**
   * Returns which home an owner has; `null` for one whose calls have sessions of their own. Callers that only the
   * operator's word brings together are not asked in each other's calls.
   */
  homeFor(owner: SessionOwner): HomeName | null {
    const { concurrency } = this.#options;
    const scope = this.scope(owner);
    if (scope === 'call' || concurrency === 'separate') return null;
    if (scope === 'shared' && concurrency === 'auto') return null;
    return { key: sha256(ownerKey(owner, scope)), concurrency };
  }

  /** Returns the home that a pointer names; `null` if it names none, or calls have sessions of their own. */
  homeNamed(key: string | undefined): HomeName | null {
    const { concurrency } = this.#options;
    return key === undefined || concurrency === 'separate' ? null : { key, concurrency };
  }

  /** Where no scope is configured, anonymous callers never meet. */
  scope({ kind }: SessionOwner): SessionScope {
    return this.#options.scope ?? (kind === 'anonymous' ? 'call' : 'principal');
  }

  /** Returns a text that is equal for owners whose requests can use the same session. */
  key(owner: SessionOwner): string {
    return ownerKey(owner, this.scope(owner));
  }

  /** Returns the same text, or `null` for an owner that must not share a session. */
  sharingKey(owner: SessionOwner): string | null {
    return this.scope(owner) === 'call' ? null : this.key(owner);
  }

  /** Whose sessions are counted together. Anonymous callers are not a principal, and nor is everybody. */
  principal(owner: SessionOwner): string | null {
    return this.scope(owner) === 'principal' ? owner.principalKey : null;
  }
}
