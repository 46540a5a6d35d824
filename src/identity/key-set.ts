/**
 * The public keys of an authorization server. They are read in the background, so that no request waits for them, and
 * once more for a token of a key that is not known yet: the server may have changed its keys.
 */
import { readFile } from 'node:fs/promises';
import type { createLocalJWKSet, JSONWebKeySet, JWTVerifyGetKey } from 'jose';
import { vitalWork } from '../lib/background.ts';
import type { Clock, Timer } from '../lib/clock.ts';
import { loadedOnce } from '../lib/once.ts';
import { messageOf } from '../lib/shown-text.ts';
import { fetchJson } from './fetch-json.ts';

export interface JwksSource {
  /** Exactly one of the two is set. */
  readonly url: URL | null;
  readonly file: string | null;
}

/** Thrown if there are no keys, so that no token can be verified. */
export class KeysUnavailable extends Error {
  readonly code = 'keys_unavailable';
}

export interface KeySetOptions {
  readonly source: JwksSource;
  readonly clock: Clock;
  /** Called for each attempt that fails. */
  readonly onFailure: (problem: string) => void;
}

type LocalJwks = ReturnType<typeof createLocalJWKSet>;

const FIRST_RETRY_MS = 1_000;
const MAX_RETRY_MS = 30_000;
/** How often the keys are read, in ms: a withdrawn key is refused soon after. */
const READ_EVERY_MS = 600_000;
/** How long after the keys were read they are not read again for an unknown key, in ms: anybody can make up a key. */
const COOLDOWN_MS = 10_000;
/** How long keys are used that cannot be read again: a key that was withdrawn must not be valid for long. */
const MAX_AGE_MS = 3_600_000;

export class KeySet {
  readonly #options: KeySetOptions;
  #keys: LocalJwks | null = null;
  #readAtMs = 0;
  #triedAtMs = -Infinity;
  #reading: Promise<void> | null = null;
  #timer: Timer | null = null;
  #retryMs = FIRST_RETRY_MS;
  #closed = false;

  constructor(options: KeySetOptions) {
    this.#options = options;
  }

  /** Tells whether tokens can be verified. */
  get isReady(): boolean {
    return this.#usable() !== null;
  }

  /** Reads the keys, and reads them again from time to time. Resolves after the first attempt. */
  start(): Promise<void> {
    return this.#read();
  }

  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
  }

  /**
   * Finds the key of a token.
   * @throws KeysUnavailable, or an error of jose if there is no such key
   */
  readonly find: JWTVerifyGetKey = async (header, token) => {
    if (this.#usable() === null) await this.#reading;
    const keys = this.#usable();
    if (keys === null) throw new KeysUnavailable('there are no keys to verify tokens with');
    try {
      return await keys(header, token);
    } catch (error) {
      const { errors } = await loadJose();
      if (!(error instanceof errors.JWKSNoMatchingKey)) throw error;
      await this.#readForUnknownKey();
      const current = this.#usable();
      if (current === null || current === keys) throw error;
      return current(header, token);
    }
  };

  #usable(): LocalJwks | null {
    const ageMs = this.#options.clock.elapsed() - this.#readAtMs;
    return ageMs > MAX_AGE_MS ? null : this.#keys;
  }

  async #readForUnknownKey(): Promise<void> {
    const isDue = this.#options.clock.elapsed() - this.#triedAtMs >= COOLDOWN_MS;
    await (isDue ? this.#read() : this.#reading);
  }

  /** Never rejects. Attempts do not overlap. */
  #read(): Promise<void> {
    this.#reading ??= this.#attempt().finally(() => (this.#reading = null));
    return this.#reading;
  }

  async #attempt(): Promise<void> {
    const { source, clock, onFailure } = this.#options;
    this.#timer?.cancel();
    this.#triedAtMs = clock.elapsed();
    let nextMs = READ_EVERY_MS;
    try {
      const { createLocalJWKSet } = await loadJose();
      this.#keys = createLocalJWKSet((await readKeys(source, clock)) as JSONWebKeySet);
      this.#readAtMs = clock.elapsed();
      this.#retryMs = FIRST_RETRY_MS;
    } catch (error) {
      nextMs = this.#retryMs;
      this.#retryMs = Math.min(nextMs * 2, MAX_RETRY_MS);
      onFailure(messageOf(error));
    }
    if (!this.#closed) this.#timer = clock.setTimer(nextMs, () => vitalWork(this.#read()));
  }
}

/** Reads what is in the place of the keys. @throws Error if there is no JSON */
export async function readKeys({ url, file }: JwksSource, clock: Clock): Promise<unknown> {
  if (url === null) return JSON.parse(await readFile(file ?? '', 'utf8'));
  const { status, body } = await fetchJson(url, { form: null }, clock);
  if (status !== 200) throw new Error(`the server responded with HTTP status ${status}`);
  return body;
}

/**
 * Loads jose, which takes long, and only a gateway that checks tokens needs it. To import a module that is there takes 13 us,
 * and would be done for each token.
 */
export const loadJose = loadedOnce(() => import('jose'));
