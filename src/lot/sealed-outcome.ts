/** An outcome as it lies in the shared store: readable only with the key that the pointer carries. */
import type { CallAnswer } from '../bridge/leg.ts';
import type { CallId } from '../protocol/ids.ts';

export interface KeptOutcome {
  readonly round: number;
  readonly answersDigest: string;
  readonly answer: CallAnswer;
}

export function sealOutcome(_key: Uint8Array, _call: CallId, _record: KeptOutcome): Uint8Array {
  throw new Error('not yet');
}
export function openOutcome(
  _key: Uint8Array,
  _call: CallId,
  _sealed: Uint8Array,
): KeptOutcome | null {
  return null;
}
