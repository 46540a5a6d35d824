/** Which owners share a session, and whose sessions are counted together. */
import type { HomeConcurrency } from './home.ts';
import {
  defaultScope,
  ownerKey,
  type ConversationKey,
  type SessionOwner,
  type SessionScope,
} from './session-owner.ts';
import type { KeyedOwner } from './exclusive-sessions.ts';

/** `separate`: each call has a session of its own, and a kept one if there is one. For the others see `CallQueue`. */
export type SessionConcurrency = HomeConcurrency | 'separate';

export interface SharingOptions {
  /** `null`: `call` for anonymous owners, `principal` for others. */
  readonly scope: SessionScope | null;
  readonly key: ConversationKey;
  readonly concurrency: SessionConcurrency;
}

/** Which home an owner has, and how its calls run together. */
export interface HomeName {
  /** Equal for owners that share a home. */
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
    return { key: this.key(owner), concurrency };
  }

  scope(owner: SessionOwner): SessionScope {
    return this.#options.scope ?? defaultScope(owner);
  }

  /** Returns a text that is equal for owners whose requests can use the same session. */
  key(owner: SessionOwner): string {
    return ownerKey(owner, this.scope(owner), this.#options.key);
  }

  /** Returns the same text, or `null` for an owner that must not share a session. */
  sharingKey(owner: SessionOwner): string | null {
    return this.scope(owner) === 'call' ? null : this.key(owner);
  }

  /** Whose sessions are counted together. Anonymous callers are no principal, and nor is everybody. */
  principal(owner: SessionOwner): string | null {
    return this.scope(owner) === 'principal' ? owner.principalKey : null;
  }

  keyedOwner(owner: SessionOwner): KeyedOwner {
    return { owner, key: this.sharingKey(owner), principal: this.principal(owner) };
  }
}
