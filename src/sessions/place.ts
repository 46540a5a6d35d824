/** Opens a session in a place of its own, and alone where the server can have one session only. */
import type { LegacyServer } from '../upstream/legacy-server.ts';
import type { Session } from '../upstream/session/session.ts';
import type { Slot, Slots } from './slots.ts';

export interface Placed {
  readonly session: Session;
  readonly slot: Slot;
}

export interface PlaceOptions {
  readonly upstream: LegacyServer;
  readonly slots: Slots;
  /** Ends the sessions that have no place, such as those of subscriptions. */
  readonly endOthers: () => Promise<void>;
}

/**
 * Takes a place and opens a session there. A server that refuses a session beside another one is tried again alone.
 * @param principal for `Slots`
 * @throws UpstreamFailure
 */
export async function openInPlace(
  options: PlaceOptions,
  principal: string | null,
  open: () => Promise<Session>,
): Promise<Placed> {
  const { upstream } = options;
  const hadOneSession = upstream.hasOneSession;
  try {
    return await openOnce(options, principal, open);
  } catch (error) {
    if (hadOneSession || !upstream.hasOneSession) throw error;
    return await openOnce(options, principal, open);
  }
}

async function openOnce(
  { upstream, slots, endOthers }: PlaceOptions,
  principal: string | null,
  open: () => Promise<Session>,
): Promise<Placed> {
  const slot = await slots.take(principal);
  try {
    if (upstream.hasOneSession) await endOthers();
    return { session: await open(), slot };
  } catch (error) {
    slot.free();
    throw error;
  }
}
