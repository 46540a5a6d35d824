/** Opens a session in a slot of its own, and alone where the server can have one session only. */
import type { LegacyServer } from '../upstream/legacy-server.ts';
import type { Session } from '../upstream/session/session.ts';
import type { Slot, Slots } from './slots.ts';

export interface SlottedSession {
  readonly session: Session;
  readonly slot: Slot;
}

export interface SlotOptions {
  readonly upstream: LegacyServer;
  readonly slots: Slots;
  /** Ends the sessions that have no slot, such as those of subscriptions. */
  readonly endOthers: () => Promise<void>;
}

/**
 * Takes a slot and opens a session in it. A server that refuses a session beside another one is tried again alone.
 * @param principal for `Slots`
 * @throws UpstreamFailure
 */
export async function openInSlot(
  options: SlotOptions,
  principal: string | null,
  open: () => Promise<Session>,
): Promise<SlottedSession> {
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
  { upstream, slots, endOthers }: SlotOptions,
  principal: string | null,
  open: () => Promise<Session>,
): Promise<SlottedSession> {
  const slot = await slots.take(principal);
  try {
    if (upstream.hasOneSession) await endOthers();
    return { session: await open(), slot };
  } catch (error) {
    slot.free();
    throw error;
  }
}
