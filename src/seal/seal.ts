/**
 * Turns pointers into `requestState` and back. A `requestState` is untrusted (MRTR, server requirement 4). An
 * authentic one can still come from the wrong caller, for the wrong request, or too late (requirement 5).
 * The seal does not know whether its round is still open: the owner of the call does.
 */
import { timingSafeEqual } from 'node:crypto';
import type { Clock } from '../lib/clock.ts';
import { CARRIED, openBytes, sealBytes } from './envelope.ts';
import {
  InvalidRequestState,
  OutOfTime,
  type InvalidRequestStateReason,
} from './invalid-request-state.ts';
import type { KeyRing } from './key-ring.ts';
import {
  decodePointer,
  encodePointer,
  isOfOtherVersion,
  MAX_REQUESTS_BYTES,
} from './pointer-bytes.ts';
import type { Pointer } from './pointer.ts';

/** How far the clock of the sealing replica can be ahead of that of this one. */
const MAX_CLOCK_SKEW_MS = 60_000;

export interface SealerOptions {
  readonly ring: KeyRing<'seal'>;
  /** The name of the deployment. Deployments that share a key refuse each other's pointers. */
  readonly audience: string;
  readonly clock: Pick<Clock, 'now'>;
  /** The longest `requestState` that is sealed and opened. */
  readonly maxTokenBytes: number;
}

/** A pointer without the members that the sealer adds. */
export type UnsealedPointer = Omit<Pointer, 'audience' | 'issuedAtSeconds'>;

/** The request that carries a `requestState`, as the edge parsed it. */
export interface ExpectedRequest {
  readonly route: string;
  readonly method: string;
  readonly target: string;
  readonly digest: string;
  readonly principal: string | null;
}

export interface Sealer {
  /** Seals a pointer. @throws UnsealablePointer */
  seal(pointer: UnsealedPointer): string;
  /**
   * Opens a client's `requestState`, of any type.
   * @returns its pointer, which is authentic, in time, and for this request and caller
   * @throws InvalidRequestState otherwise; `OutOfTime` if only the time is wrong
   */
  open(requestState: unknown, expected: ExpectedRequest): Pointer;
}

/** Thrown for a pointer that could not be opened again. */
export class UnsealablePointer extends Error {
  readonly code: 'pointer_malformed' | 'pointer_too_large';

  constructor(code: 'pointer_malformed' | 'pointer_too_large', message: string) {
    super(message);
    this.name = 'UnsealablePointer';
    this.code = code;
  }
}

/** Creates a sealer. It has no state of its own. */
export function createSealer(options: SealerOptions): Sealer {
  const { ring, audience, clock, maxTokenBytes } = options;
  return {
    seal(pointer) {
      const issuedAtSeconds = Math.floor(clock.now() / 1000);
      const content = encodePointer({ ...pointer, audience, issuedAtSeconds });
      if (content === 'malformed') {
        throw new UnsealablePointer(
          'pointer_malformed',
          'a claim of the pointer is missing or invalid',
        );
      }
      if (content === 'too large') {
        throw new UnsealablePointer(
          'pointer_too_large',
          `the questions of the pointer are too large: the limit is ${MAX_REQUESTS_BYTES} bytes`,
        );
      }
      const requestState = sealBytes(ring, CARRIED, content);
      if (requestState.length > maxTokenBytes) {
        throw new UnsealablePointer(
          'pointer_too_large',
          `the sealed pointer is too large: ${requestState.length} bytes, the limit is ${maxTokenBytes}`,
        );
      }
      return requestState;
    },
    open(requestState, expected) {
      const content = openBytes(ring, CARRIED, requestState, maxTokenBytes);
      const pointer = decodePointer(content);
      if (pointer === null) {
        throw new InvalidRequestState(isOfOtherVersion(content) ? 'version' : 'claims');
      }
      const reason = bindingProblem(pointer, audience, expected);
      if (reason !== null) throw new InvalidRequestState(reason, pointer.callId);
      const outOfTime = timeProblem(pointer, clock.now());
      if (outOfTime !== null) throw outOfTime;
      return pointer;
    },
  };
}

/** Negates the condition that must hold, so that a time that is not a number fails. */
function timeProblem(pointer: Pointer, nowMs: number): OutOfTime | null {
  const [expiresAtMs, issuedAtMs] = [
    pointer.expiresAtSeconds * 1000,
    pointer.issuedAtSeconds * 1000,
  ];
  if (!(expiresAtMs > nowMs)) return new OutOfTime('expired', pointer, nowMs - expiresAtMs);
  if (!(nowMs >= issuedAtMs - MAX_CLOCK_SKEW_MS)) {
    return new OutOfTime('issued-in-future', pointer, issuedAtMs - nowMs);
  }
  return null;
}

function bindingProblem(
  pointer: Pointer,
  audience: string,
  expected: ExpectedRequest,
): InvalidRequestStateReason | null {
  if (pointer.audience !== audience) return 'audience';
  if (pointer.route !== expected.route) return 'route';
  if (pointer.method !== expected.method) return 'method';
  if (pointer.target !== expected.target) return 'target';
  if (pointer.digest !== expected.digest) return 'digest';
  if (!isSamePrincipal(pointer.principal, expected.principal)) return 'principal';
  return null;
}

/** Compares principals. One that appears or vanishes between rounds is as wrong as another one. */
function isSamePrincipal(sealed: string | null, presented: string | null): boolean {
  if (sealed === null || presented === null) return sealed === presented;
  if (typeof presented !== 'string') return false;
  const [a, b] = [Buffer.from(sealed), Buffer.from(presented)];
  return a.byteLength === b.byteLength && timingSafeEqual(a, b);
}
