/** Servers with an old rmcp have no 64-bit integers, and name a request of ours by what is left of its id. */
import type { UpstreamRequestId } from '../../protocol/ids.ts';

/** True if such a server made `theirs` of `ours`: truncated, signed or unsigned, or the largest value. */
export function isCutTo32Bits(ours: UpstreamRequestId, theirs: unknown): boolean {
  if (typeof ours !== 'number') return false;
  return [ours % 2 ** 32, ours | 0, 2 ** 32 - 1, 2 ** 31 - 1].some((cut) => cut === theirs);
}
