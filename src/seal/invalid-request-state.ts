/**
 * The refusal of a `requestState`: a class that tells us the reason, and a constant for the client, which
 * does not. A client that could tell the reasons apart could use them to probe the seal.
 */
import type { CallId } from '../protocol/ids.ts';
import { ErrorCode, type JsonRpcErrorObject } from '../protocol/json-rpc.ts';
import type { Pointer } from './pointer.ts';

/** Why a `requestState` is refused. The list is closed, since it labels a metric. */
export const INVALID_REQUEST_STATE_REASONS = [
  /** Not a token of our form. */
  'malformed',
  'oversized',
  /** Sealed with a key that is not in the ring: of another deployment, or retired. */
  'unknown-key',
  /** Decryption fails: the token is altered or forged. */
  'seal',
  /** Another build has sealed it, in a version that this one does not know. */
  'version',
  /** The content is not a pointer. */
  'claims',
  'expired',
  'issued-in-future',
  'audience',
  'route',
  'method',
  'target',
  'digest',
  'principal',
  /** The pointer is valid, but its round has other answers already. */
  'consumed',
  /** The pointer is valid, but its call is over. */
  'ended',
  /** The pointer is valid, but no replica holds its call. */
  'unknown-call',
] as const;
export type InvalidRequestStateReason = (typeof INVALID_REQUEST_STATE_REASONS)[number];

/**
 * The error that the client gets for every reason (MRTR, server requirement 4). Code, message and data are
 * those of the official SDKs, so that clients need to know one error only.
 */
export const INVALID_REQUEST_STATE: JsonRpcErrorObject = Object.freeze({
  code: ErrorCode.invalidParams,
  message: 'Invalid or expired requestState',
  data: Object.freeze({ reason: 'invalid_request_state' }),
});

/** Thrown when a `requestState` is refused. `reason` and `callId` are for the log and must not reach a client. */
export class InvalidRequestState extends Error {
  readonly code = 'invalid_request_state';
  readonly reason: InvalidRequestStateReason;
  /** The call that the pointer names; `null` if the pointer is not authentic. */
  readonly callId: CallId | null;

  constructor(reason: InvalidRequestStateReason, callId: CallId | null = null) {
    super(INVALID_REQUEST_STATE.message);
    this.name = 'InvalidRequestState';
    this.reason = reason;
    this.callId = callId;
  }
}

/**
 * Thrown for a pointer that is valid except for its time, by the clock of this replica. The clock of the
 * replica that sealed it can differ, so that replica is asked before the pointer is refused.
 */
export class OutOfTime extends InvalidRequestState {
  declare readonly reason: 'expired' | 'issued-in-future';
  /** Private, since loggers print the members of an error. */
  readonly #pointer: Pointer;
  /** How long ago it expired, or how far in the future it was issued, in ms. */
  readonly offByMs: number;

  constructor(reason: 'expired' | 'issued-in-future', pointer: Pointer, offByMs: number) {
    super(reason, pointer.callId);
    this.#pointer = pointer;
    this.offByMs = offByMs;
  }

  get pointer(): Pointer {
    return this.#pointer;
  }
}
