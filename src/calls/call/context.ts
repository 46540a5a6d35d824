/** What a call needs of its surroundings. */
import type { Clock } from '../../lib/clock.ts';
import type { Log } from '../../ops/log.ts';
import type { CacheFields } from '../../protocol/translate/edge-result.ts';
import type { CallId } from '../../protocol/ids.ts';
import type { Continuation } from '../../seal/pointer.ts';
import type { SessionPool } from '../../upstream/pool/session-pool.ts';
import type { OutcomeRecord } from '../sealed-outcome.ts';
import type { CallLimits, CallState } from '../machine/states.ts';

export interface CallContext {
  readonly id: CallId;
  readonly route: string;
  readonly pool: SessionPool;
  readonly limits: CallLimits;
  readonly clock: Clock;
  readonly log: Log;
  /** The operator's keys for this tool's questions. */
  readonly keyNames: readonly string[];
  readonly keysFromStringIds: boolean;
  /** Ends a call at once when the server asks for what the client did not declare. */
  readonly strictCapabilities: boolean;
  /** How long to wait for the server's word that its URLs were visited. */
  readonly urlVisitWaitMs: number;
  /** How long who may keep the outcome, where it is one that may be kept. */
  readonly caching: CacheFields;
  hasRoom(): boolean;
  /** Called after each move; the last time with `done`, and once more with `null` when forgotten. */
  moved(state: CallState | null): void;
  /** Whether the operator allows this call to be made anew when it is lost. */
  readonly mayReplay: boolean;
  /** What the call is for, as far as it may be logged. */
  readonly loggedTarget: string;
  /** Whether a parked call is let go at once when the server keeps it. */
  readonly leaveWhenParked: boolean;
  /** Whether a call whose stream nobody reads is taken up from where it stopped. */
  readonly reattach: boolean;
  /**
   * Seals a pointer to the given round of this call.
   * @param continuation what another replica needs to go on with the call, when one could
   */
  point(
    round: number,
    expiresAtMs: number,
    continuation: Continuation | null,
  ): Promise<SealedPointer>;
  /** Whether what is kept can be found by other replicas, too. */
  readonly keepsOutcomes: boolean;
  /** Keeps an outcome for a client that asks elsewhere, because it lost the answer or has not had it yet. */
  keep(outcome: OutcomeRecord): void;
  /** False when another replica has taken the call up meanwhile: then it is not ours to end. */
  isOurs(): Promise<boolean>;
}

/** A sealed pointer, and whether what was given for its continuation found room in it. */
export interface SealedPointer {
  readonly requestState: string;
  readonly continues: boolean;
}
