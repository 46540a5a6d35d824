/**
 * Pointer to `requestState` and back. A `requestState` comes from an attacker until proven otherwise
 * (MRTR, server requirement 4), and one of ours may still come from the wrong caller, for the wrong
 * request, or too late (requirement 5). Whether its round is still open is not for the seal to say:
 * that is known to the owner of the call.
 */
import { timingSafeEqual } from 'node:crypto';
import type { Clock } from '../lib/clock.ts';
import { parseJson } from '../protocol/json/parse.ts';
import { openBytes, sealBytes } from './envelope.ts';
import {
  InvalidRequestState,
  OutOfTime,
  type InvalidRequestStateReason,
} from './invalid-request-state.ts';
import type { KeyRing } from './key-ring.ts';
import { readPointer, writePointer, type Pointer } from './pointer.ts';

/** How far the clock of the replica that sealed may be ahead of ours. */
export const MAX_CLOCK_SKEW_MS = 60_000;

export interface SealerOptions {
  readonly ring: KeyRing<'seal'>;
  /** The name of the fleet; two fleets that share a key refuse each other's pointers. */
  readonly audience: string;
  readonly clock: Pick<Clock, 'now'>;
  /** The longest `requestState`, in bytes, to produce and to look at. */
  readonly maxTokenBytes: number;
}

/** A pointer as its maker knows it; the sealer adds the rest. */
export type UnsealedPointer = Omit<Pointer, 'version' | 'audience' | 'issuedAtSeconds'>;

/** What the request that carries a `requestState` is, by our own account of it. */
export interface ExpectedRequest {
  readonly route: string;
  readonly method: string;
  readonly target: string;
  readonly digest: string;
  readonly principal: string | null;
}

export interface Sealer {
  /** The `requestState` for a pointer. Throws `UnsealablePointer`. */
  seal(pointer: UnsealedPointer): Promise<string>;
  /**
   * The pointer in a client's `requestState`, when it is ours, in time, and for this request and
   * caller. Throws `InvalidRequestState` for everything else, of whatever type it is; `OutOfTime` when
   * all but the time is right.
   */
  open(requestState: unknown, expected: ExpectedRequest): Promise<Pointer>;
}

/** Thrown instead of sealing what could not be opened again. */
export class UnsealablePointer extends Error {
  readonly code: 'pointer_malformed' | 'pointer_too_large';

  constructor(code: 'pointer_malformed' | 'pointer_too_large', message: string) {
    super(message);
    this.name = 'UnsealablePointer';
    this.code = code;
  }
}

/** In: the ring, the fleet, the time and a limit. Out: the sealer; it has no state of its own. */
export function createSealer(options: SealerOptions): Sealer {
  const { ring, audience, clock, maxTokenBytes } = options;
  return {
    async seal(pointer) {
      const issuedAtSeconds = Math.floor(clock.now() / 1000);
      const claims = writePointer({ ...pointer, version: 1, audience, issuedAtSeconds });
      if (claims === null) {
        throw new UnsealablePointer('pointer_malformed', 'the pointer has a claim without a value');
      }
      const requestState = await sealBytes(ring, Buffer.from(JSON.stringify(claims)));
      if (requestState.length > maxTokenBytes) {
        throw new UnsealablePointer(
          'pointer_too_large',
          `the sealed pointer has ${requestState.length} bytes, the limit is ${maxTokenBytes}`,
        );
      }
      return requestState;
    },
    async open(requestState, expected) {
      const pointer = readPointer(parse(await openBytes(ring, requestState, maxTokenBytes)));
      if (pointer === null) throw new InvalidRequestState('claims');
      const reason = bindingProblem(pointer, audience, expected);
      if (reason !== null) throw new InvalidRequestState(reason, pointer.callId);
      const outOfTime = timeProblem(pointer, clock.now());
      if (outOfTime !== null) throw outOfTime;
      return pointer;
    },
  };
}

function parse(content: Uint8Array): unknown {
  try {
    return parseJson(new TextDecoder('utf-8', { fatal: true }).decode(content));
  } catch {
    return undefined;
  }
}

/** States what must hold and negates it, so that a time which is not a number fails. */
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

/** A principal that appears or vanishes between the rounds is as wrong as another principal. */
function isSamePrincipal(sealed: string | null, presented: string | null): boolean {
  if (sealed === null || presented === null) return sealed === presented;
  if (typeof presented !== 'string') return false;
  const [a, b] = [Buffer.from(sealed), Buffer.from(presented)];
  return a.byteLength === b.byteLength && timingSafeEqual(a, b);
}
