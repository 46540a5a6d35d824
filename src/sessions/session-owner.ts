/** Whose session a request uses. */
import { sha256 } from '../lib/crypto.ts';
import type { EdgeRequest, CallerKind } from '../model/request.ts';
import { profileKey, type ClientProfile } from '../protocol/translate/client-profile.ts';
import type { JsonObject } from '../protocol/json.ts';
import type { SessionRequest } from '../upstream/options.ts';

export interface SessionOwner extends SessionRequest {
  readonly kind: CallerKind;
  /** A text that is equal for the same principal only. */
  readonly principalKey: string;
  /** A digest of the credentials that go upstream. */
  readonly credentialsKey: string;
  /** The header that names the conversation; `null` if none does. */
  readonly conversation: string | null;
  /** The members of `_meta` that go upstream. One can name the conversation. */
  readonly meta: JsonObject;
}

/**
 * - `principal`: all calls of a principal use its home session
 * - `call`: a new session for each call, so that anonymous callers never share one
 * - `shared`: all callers use all sessions; only for servers that keep no state in a session
 */
export type SessionScope = 'principal' | 'call' | 'shared';

/** What tells the conversations of one caller apart, besides its client. */
export interface ConversationKey {
  /** A request header, which `src/identity` reads. */
  readonly header: string | null;
  /** A key of `_meta`. */
  readonly meta: string | null;
}

/**
 * Names the owner of the session that a request uses.
 * @returns everything about the caller that two requests on one session must share
 */
export function sessionOwnerOf({
  profile,
  clientInfo,
  caller,
  forwardedMeta,
}: EdgeRequest): SessionOwner {
  const { headers, kind, principalKey, credentialsKey, conversation } = caller;
  return {
    profile,
    clientInfo,
    headers,
    kind,
    principalKey,
    credentialsKey,
    conversation,
    meta: forwardedMeta,
  };
}

/** Returns the scope of the sessions of a caller, where none is configured. Anonymous callers never meet. */
export function defaultScope({ kind }: Pick<SessionOwner, 'kind'>): SessionScope {
  return kind === 'anonymous' ? 'call' : 'principal';
}

/** Returns a text that is equal for owners that may share a session. */
export function ownerKey(owner: SessionOwner, scope: SessionScope, key: ConversationKey): string {
  const { clientInfo, profile, kind, credentialsKey } = owner;
  const isShared = scope === 'shared';
  // With a verified identity a session survives a refreshed token.
  const credentials = kind === 'verified' && !isShared ? '' : credentialsKey;
  return JSON.stringify([
    isShared ? '' : owner.principalKey,
    profileKey(profile),
    clientInfo === null ? '' : JSON.stringify(clientInfo),
    credentials,
    conversationOf(owner, key),
  ]);
}

function conversationOf({ conversation, meta }: SessionOwner, key: ConversationKey): string | null {
  if (key.meta === null) return conversation;
  const named = meta[key.meta];
  return named === undefined ? null : sha256(JSON.stringify(named));
}

/** True if the server can ask the user or the model of the client. Roots are the caller's, not a call's. */
export function canBeAsked(profile: ClientProfile): boolean {
  return profile.elicitationForm || profile.elicitationUrl || profile.sampling;
}
