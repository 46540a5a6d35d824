/** What the log says of a session that was opened for a caller. */
import type { Clock } from '../../lib/clock.ts';
import type { RouteLog } from '../../ops/route-log.ts';
import { TRAITS } from '../transport/traits.ts';
import type { Session } from './session.ts';

/** Logs the session, and its end, where anybody reads that. */
export function logSession(session: Session, log: RouteLog | undefined, clock: Clock): void {
  if (log === undefined) return;
  const { protocolVersion: revision } = session.initializeResult;
  const { canPush: standalone } = session;
  const { kind: transport } = session.transport;
  log.event('session.opened', { revision, transport, standalone });
  const openedAtMs = clock.elapsed();
  session.onOver = () =>
    log.event('session.ended', { ms: Math.round(clock.elapsed() - openedAtMs) });
  if (standalone || !session.interactive || !TRAITS[transport].namesTheCall) return;
  // Once for each server, since anonymous callers get a session for each call.
  log.once('session.no_standalone_stream', {});
}
