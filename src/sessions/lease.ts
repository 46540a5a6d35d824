/** A session that is lent: to a call, or to a request that cannot lead to questions. */
import type { Session } from '../upstream/session/session.ts';

/**
 * Where a call stands.
 * - `running`: the server works on it
 * - `interrupted`: its stream is lost and being resumed
 * - `parked`: it waits for its client
 */
export type CallPhase = 'running' | 'interrupted' | 'parked';

/** A session, lent to one call. */
export interface Lease {
  readonly session: Session;
  /** True for the one call that has to tell its client that the state of an earlier session is gone. */
  readonly isReplacement: boolean;
  /** Tells where the call stands. A session with a call that waits is pinged, and another call may start. */
  moved(phase: CallPhase): void;
  /** Gives the session back. `clean` says that the server had finished with the call. */
  release(clean: boolean): void;
  /** Lets go of the session without ending it, for another replica to take up. */
  leave(): void;
}

/**
 * Lends a session to one call, for calls that have a session to themselves. Only the first end of the lease counts.
 * @param end takes the session back; `left` if the call has let go of it
 */
export function lend(session: Session, end: (how: 'clean' | 'unclean' | 'left') => void): Lease {
  let isOver = false;
  const once = (how: 'clean' | 'unclean' | 'left') => {
    if (isOver) return;
    isOver = true;
    session.keepAlive(false, lease);
    if (how === 'left') session.leave();
    end(how);
  };
  const lease: Lease = {
    session,
    isReplacement: false,
    moved: (phase) => {
      if (!isOver) session.keepAlive(phase !== 'running', lease);
    },
    release: (isClean) => once(isClean ? 'clean' : 'unclean'),
    leave: () => once('left'),
  };
  return lease;
}

/** A session that others may use at the same time. */
export interface SharedLease {
  readonly session: Session;
  release(): void;
}

/** What a call needs of its session. */
export interface LeaseRequest {
  /** The method and what it is called for, such as the name of the tool. */
  readonly target: string;
  /** Whether the client asked for log messages. */
  readonly wantsLog: boolean;
  /** Whether to take no session that was idle: the server has just forgotten one. */
  readonly fresh: boolean;
  /** Returns false once the call does not want the session any more. */
  readonly isWanted: () => boolean;
}
