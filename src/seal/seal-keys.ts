/**
 * The keys of a process, which can be rotated while it runs. What seals and opens with them sees the new ones at once.
 * A key that is taken out of the configuration still opens what it has sealed.
 */
import type { Clock, Timer } from '../lib/clock.ts';
import {
  createKeyRing,
  InvalidKeyRing,
  type KeyPurpose,
  type KeyRing,
  type KeySource,
  type SecretKey,
} from './key-ring.ts';

interface RetiredKey {
  readonly key: SecretKey;
  readonly expiry: Timer;
}

export class SealKeys implements KeySource {
  readonly #clock: Clock;
  #configured: readonly SecretKey[];
  /** Keys of a configuration that is being prepared: another process may seal with them before this one does. */
  #admitted: readonly SecretKey[] = [];
  readonly #retired = new Map<string, RetiredKey>();
  /** How long what a key seals can live at most, in ms, by the name of the key: the longest that was said while it sealed. */
  readonly #lives = new Map<string, number>();
  #all: readonly SecretKey[];
  readonly #rings = new Map<KeyPurpose, KeyRing<KeyPurpose>>();

  /** @param configured the one that seals first */
  constructor(configured: readonly SecretKey[], clock: Clock) {
    this.#configured = configured;
    this.#all = configured;
    this.#clock = clock;
  }

  get all(): readonly SecretKey[] {
    return this.#all;
  }

  /** Returns the ring for one purpose, whose keys change with those of the process. @throws InvalidKeyRing */
  ring<Purpose extends KeyPurpose>(purpose: Purpose): KeyRing<Purpose> {
    const current = () => this.#rings.get(purpose) ?? this.#derive(purpose);
    current();
    return {
      purpose,
      get sealing() {
        return current().sealing;
      },
      find: (kid) => current().find(kid),
    };
  }

  #derive(purpose: KeyPurpose): KeyRing<KeyPurpose> {
    const ring = createKeyRing(this.#all, purpose);
    this.#rings.set(purpose, ring);
    return ring;
  }

  /**
   * Opens with further keys from here on.
   * @throws InvalidKeyRing for a name or bytes that another key of this process has
   */
  admit(keys: readonly SecretKey[]): void {
    const added = keys.filter((key) => !this.#knows(key));
    if (added.length === 0) return;
    try {
      createKeyRing([...this.#all, ...added], 'seal');
    } catch (error) {
      if (!(error instanceof InvalidKeyRing)) throw error;
      throw new InvalidKeyRing(
        error.code,
        'expected a new kid and new bytes for a new key, got those of one that still opens',
      );
    }
    this.#admitted = added;
    this.#update();
  }

  /** Forgets the keys that were admitted last, if they do not seal by now. */
  dismiss(): void {
    this.#admitted = [];
    this.#update();
  }

  /**
   * Seals with the first of these keys from here on. Earlier keys that are not among them open for a while.
   * @param lifeMs the longest life of what is sealed before and after that, in ms. A key that sealed when it was longer opens for
   * that long
   */
  rotate(keys: readonly SecretKey[], lifeMs: number): void {
    // A key that was generated stays.
    if (keys.length === 0) return;
    for (const { kid } of [...this.#configured, ...keys]) {
      this.#lives.set(kid, Math.max(lifeMs, this.#lives.get(kid) ?? 0));
    }
    const isLeft = ({ kid }: SecretKey) => keys.every((other) => other.kid !== kid);
    for (const key of this.#configured.filter(isLeft)) {
      const expiry = this.#clock.setTimer(this.#lives.get(key.kid) ?? lifeMs, () => {
        this.#retired.delete(key.kid);
        this.#lives.delete(key.kid);
        this.#update();
      });
      this.#retired.set(key.kid, { key, expiry });
    }
    for (const { kid } of keys) {
      this.#retired.get(kid)?.expiry.cancel();
      this.#retired.delete(kid);
    }
    this.#configured = keys;
    this.dismiss();
  }

  /** Cancels what waits. */
  close(): void {
    for (const { expiry } of this.#retired.values()) expiry.cancel();
  }

  #knows({ kid, secret }: SecretKey): boolean {
    const same = this.#all.find((key) => key.kid === kid);
    return same !== undefined && Buffer.from(same.secret).equals(secret);
  }

  #update(): void {
    const retired = [...this.#retired.values()].map(({ key }) => key);
    this.#all = [...this.#configured, ...this.#admitted, ...retired];
    this.#rings.clear();
  }
}
