/** Claims that are to be released, and could not be: the store is unreachable. */
import { LruMap } from '../../lib/containers.ts';
import type { HomeId } from '../../protocol/ids.ts';

/** How many claims are released once more, when the store is back. */
const MAX_UNRELEASED = 10_000;

export class UnreleasedClaims {
  /** By their calls. `null`: the fencing token is not known. */
  readonly #fencingTokens = new LruMap<HomeId, number | null>(MAX_UNRELEASED);

  add(id: HomeId, fencingToken: number | null): void {
    this.#fencingTokens.set(id, fencingToken);
  }

  /**
   * Makes a claim, which may renew the one that was to be released, so that is not released meanwhile. If the claim fails, the
   * store may have it nevertheless, and it is to be released whatever its fencing token is.
   * @throws what `claim` throws
   */
  async replace<Result>(id: HomeId, claim: () => Promise<Result>): Promise<Result> {
    const wasUnreleased = this.#fencingTokens.has(id);
    this.#fencingTokens.delete(id);
    try {
      const result = await claim();
      // Another claim of this process may have failed before.
      this.#fencingTokens.delete(id);
      return result;
    } catch (error) {
      if (wasUnreleased) this.add(id, null);
      throw error;
    }
  }

  /** Removes all. @returns them, with their fencing tokens */
  takeAll(): [HomeId, number | null][] {
    return this.#fencingTokens.takeAll();
  }
}
