/**
 * Handshakes with a server that gives no session ids. It keeps nothing of them, so that they are not repeated for each
 * call. Some servers take seconds for one.
 */
import type { Clock } from '../../lib/clock.ts';
import { LruMap } from '../../lib/containers.ts';
import { sha256 } from '../../lib/crypto.ts';
import type { InitializeResult } from '../session/handshake.ts';
import type { CallerHeaders } from '../transport/transport.ts';

interface Handshake {
  readonly initialized: InitializeResult;
  readonly atMs: number;
}

/** The credentials whose handshakes are remembered. A server can tell each caller something else. */
const MAX_HANDSHAKES = 1_000;
/** After this time the server may say something else of itself, in ms. */
const MAX_AGE_MS = 60_000;

export class Handshakes {
  readonly #clock: Clock;
  #known = new LruMap<string, Handshake>(MAX_HANDSHAKES);

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Returns the last handshake with these credentials, or `null`.
   * @param onOld called if it has to be repeated, which need not be waited for
   */
  get(headers: CallerHeaders, onOld: () => void): InitializeResult | null {
    const key = keyOf(headers);
    const known = this.#known.get(key);
    if (known === undefined) return null;
    const atMs = this.#clock.elapsed();
    if (atMs - known.atMs > MAX_AGE_MS) {
      // For this call only; the others go on with what is known.
      this.#known.set(key, { ...known, atMs });
      onOld();
    }
    return known.initialized;
  }

  keep(headers: CallerHeaders, initialized: InitializeResult): void {
    this.#known.set(keyOf(headers), { initialized, atMs: this.#clock.elapsed() });
  }

  /** Has the next call begin with a handshake again: the server may keep sessions by now. */
  forget(): void {
    this.#known = new LruMap(MAX_HANDSHAKES);
  }
}

/** Returns a digest, since headers can be credentials. */
function keyOf(headers: CallerHeaders): string {
  return sha256(JSON.stringify(headers));
}
