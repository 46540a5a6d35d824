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
  /** The key of the home that has the session; absent if it is of no home. */
  readonly home?: string | undefined;
  /** True for the one call that has to tell its client that the state of an earlier session is gone. */
  readonly isReplacement: boolean;
  /** True if calls of its target have ended in this session, and none has asked. */
  readonly isSilent: boolean;
  /**
   * Finds out whether the home of the session is still at this process.
   * @returns `null` at once if nothing has to be found out
   */
  stillHere(): Promise<boolean> | null;
  /** Tells where the call stands. A session with a call that waits is pinged, and another call may start. */
  moved(phase: CallPhase): void;
  /** Notes that a question was declined that the call may have asked. */
  mayHaveAsked(): void;
  /** Gives the session back. `clean` says that the server had finished with the call. */
  giveBack(clean: boolean): void;
  /** Lets go of the session without ending it, for another replica to take up. */
  leave(): void;
}

/** How a lease ended: `left` if the call has released the session without ending it. */
export type LeaseEnd = 'clean' | 'unclean' | 'left';

/** Counts the calls that have a session. */
export class OpenLeases {
  #count = 0;
  #none: PromiseWithResolvers<void> | null = null;

  begin(): void {
    this.#count += 1;
  }

  end(): void {
    this.#count -= 1;
    if (this.#count > 0) return;
    this.#none?.resolve();
    this.#none = null;
  }

  /** Resolves when no call has a session. */
  async none(): Promise<void> {
    while (this.#count > 0) await (this.#none ??= Promise.withResolvers()).promise;
  }
}

export interface LentTo {
  /** Counts the lease while it lasts, if it counts. */
  readonly leases: OpenLeases | null;
  readonly home?: string | undefined;
  readonly isReplacement?: boolean;
  readonly isSilent?: boolean;
  readonly stillHere?: () => Promise<boolean> | null;
  /** Called when the call has asked, or may have. */
  readonly onAsked?: () => void;
  /** Called when the call is parked, or goes on. */
  readonly onParked?: (isParked: boolean) => void;
  /** Takes the session back. Called once. */
  readonly onEnd: (how: LeaseEnd) => void;
}

/** Lends a session to one call. Only the first end of the lease counts. */
export class CallLease implements Lease {
  readonly session: Session;
  readonly #to: LentTo;
  #phase: CallPhase = 'running';
  #isOver = false;

  constructor(session: Session, to: LentTo) {
    this.session = session;
    this.#to = to;
    to.leases?.begin();
  }

  get home(): string | undefined {
    return this.#to.home;
  }

  get isReplacement(): boolean {
    return this.#to.isReplacement === true;
  }

  get isSilent(): boolean {
    return this.#to.isSilent === true;
  }

  stillHere(): Promise<boolean> | null {
    return this.#to.stillHere?.() ?? null;
  }

  moved(phase: CallPhase): void {
    if (this.#isOver || phase === this.#phase) return;
    this.#phase = phase;
    const isParked = phase === 'parked';
    this.session.keepAlive(phase !== 'running', this);
    if (isParked) this.#to.onAsked?.();
    this.#to.onParked?.(isParked);
  }

  mayHaveAsked(): void {
    this.#to.onAsked?.();
  }

  giveBack(isClean: boolean): void {
    this.#end(isClean ? 'clean' : 'unclean');
  }

  leave(): void {
    this.#end('left');
  }

  #end(how: LeaseEnd): void {
    if (this.#isOver) return;
    this.#isOver = true;
    if (this.#phase !== 'running') this.session.keepAlive(false, this);
    this.#to.onEnd(how);
    this.#to.leases?.end();
  }
}

/** A session that others may use at the same time. */
export interface SharedLease {
  readonly session: Session;
  giveBack(): void;
}

/** What a call needs of its session. */
export interface LeaseRequest {
  /** The method and what it is called for, such as the name of the tool. */
  readonly target: string;
  /** Whether the client asked for log messages. */
  readonly wantsLog: boolean;
  /** Whether to take no session that was idle: the server has just forgotten one. */
  readonly fresh: boolean;
  /** Returns false once the call no longer wants the session. */
  readonly isWanted: () => boolean;
}
