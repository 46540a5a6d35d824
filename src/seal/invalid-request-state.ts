/**
 * The refusal of a `requestState`: one class for our side, which says why, and one constant for the
 * client, which does not. A client that could tell the causes apart could probe the seal with them.
 */
import type { CallId } from '../protocol/ids.ts';
import { ErrorCode, type JsonRpcErrorObject } from '../protocol/json-rpc.ts';
import type { Pointer } from './pointer.ts';

/** Why a `requestState` was refused; for logs and as a metric label, hence a closed list. */
export const INVALID_REQUEST_STATE_REASONS = [
  /** Not of the shape that we seal. */
  'malformed',
  'oversized',
  /** Sealed with a key that is not in the ring: another fleet, or a key that was retired. */
  'unknown-key',
  /** The authenticated encryption does not open: altered or made up. */
  'seal',
  /** It opens, but the content is not a pointer of a version and mode that we know. */
  'claims',
  'expired',
  'issued-in-future',
  'audience',
  'route',
  'method',
  'target',
  'digest',
  'principal',
  /** The pointer is good; its round has been answered, differently. */
  'consumed',
  /** The pointer is good; its call is over. */
  'ended',
  /** The pointer is good; nobody holds its call any more. */
  'unknown-call',
] as const;
export type InvalidRequestStateReason = (typeof INVALID_REQUEST_STATE_REASONS)[number];

/**
 * What the client gets for every one of them (MRTR, server requirement 4). The same code, message and
 * data as the official SDKs send, so that clients have one error to know.
 */
export const INVALID_REQUEST_STATE: JsonRpcErrorObject = Object.freeze({
  code: ErrorCode.invalidParams,
  message: 'Invalid or expired requestState',
  data: Object.freeze({ reason: 'invalid_request_state' }),
});

/** Thrown when a `requestState` is refused. `reason` and `callId` are for the log, never for a client. */
export class InvalidRequestState extends Error {
  readonly code = 'invalid_request_state';
  readonly reason: InvalidRequestStateReason;
  /** The call that the pointer names; `null` while nothing in it can be believed. */
  readonly callId: CallId | null;

  constructor(reason: InvalidRequestStateReason, callId: CallId | null = null) {
    super(INVALID_REQUEST_STATE.message);
    this.name = 'InvalidRequestState';
    this.reason = reason;
    this.callId = callId;
  }
}

/**
 * Thrown for a pointer in which all is right but the time, by the clock of this replica. The clock of the
 * replica that sealed it may say otherwise, so that one is asked before the pointer is refused.
 */
export class OutOfTime extends InvalidRequestState {
  declare readonly reason: 'expired' | 'issued-in-future';
  /** Private, since whoever logs an error logs its members. */
  readonly #pointer: Pointer;
  /** How long ago it expired, or how far in the future it was issued. */
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
