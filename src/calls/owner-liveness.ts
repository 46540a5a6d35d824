/** Whether the owner of a call may still be alive, so that nothing final may be said about the call. */
import { sleep, type Clock } from '../lib/clock.ts';
import type { Directory } from '../model/directory.ts';
import type { RelayOutcome } from '../model/relay.ts';
import type { PointerOwner } from '../seal/pointer.ts';

/** A live replica has renewed its lease within this time. */
const RENEWED_WITHIN_MS = 2_000;
const LOOK_EVERY_MS = 250;

/**
 * Decides whether the owner may have the call, although it did not reply.
 * @param relayed the outcome of the request to the owner; `null` if there was none
 * @param boot the boot id of this process
 * @throws DirectoryUnavailable
 */
export async function mayOwnerLive(
  owner: PointerOwner,
  relayed: RelayOutcome | null,
  boot: string,
  directory: Directory | null,
  clock: Clock,
): Promise<boolean> {
  if (owner.boot === boot || relayed?.type === 'unknown') return false;
  if (directory === null) return relayed?.type === 'silent';
  if (relayed?.type === 'gone') return renewsItsLease(owner.boot, directory, clock);
  return directory.isAlive(owner.boot);
}

/**
 * A process whose port is closed is dead although its lease has not expired, unless it renews the lease:
 * then only its address is wrong.
 */
async function renewsItsLease(boot: string, directory: Directory, clock: Clock): Promise<boolean> {
  let previousMs = 0;
  for (;;) {
    const agoMs = await directory.renewedAgoMs(boot);
    if (agoMs === null || agoMs > RENEWED_WITHIN_MS) return false;
    if (agoMs < previousMs) return true;
    previousMs = agoMs;
    await sleep(clock, LOOK_EVERY_MS);
  }
}
