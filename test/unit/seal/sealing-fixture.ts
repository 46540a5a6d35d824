/** Keys, a clock that stands still, a pointer and its request: what the tests of the seal start from. */
import { expect } from 'vitest';
import { callId } from '../../../src/protocol/ids.ts';
import { principalTag, requestDigest } from '../../../src/seal/digests.ts';
import {
  InvalidRequestState,
  type InvalidRequestStateReason,
} from '../../../src/seal/invalid-request-state.ts';
import { createKeyRing, type SecretKey } from '../../../src/seal/key-ring.ts';
import {
  createSealer,
  type ExpectedRequest,
  type Sealer,
  type SealerOptions,
  type UnsealedPointer,
} from '../../../src/seal/seal.ts';

export const NOW_MS = 1_790_000_000_000;
export const NOW_SECONDS = NOW_MS / 1000;
export const LIFETIME_SECONDS = 600;

/** A key whose bytes follow from its name. */
export function key(kid: string): SecretKey {
  const secret = new Uint8Array(32);
  for (let index = 0; index < secret.length; index += 1) {
    secret[index] = (kid.charCodeAt(index % kid.length) * 31 + index * 17) & 0xff;
  }
  return { kid, secret };
}

export const OLD_KEY = key('2026-09');
export const NEW_KEY = key('2026-10');

export const request: ExpectedRequest = {
  route: 'deploys',
  method: 'tools/call',
  target: 'deploy',
  digest: requestDigest('tools/call', { name: 'deploy', arguments: { environment: 'production' } }),
  principal: principalTag('fleet-a', 'https://issuer.example alice'),
};

export const pointer: UnsealedPointer = {
  ...request,
  callId: callId('c2VudGluZWwtY2FsbC1pZA'),
  round: 1,
  owner: { id: 'replica-1', instance: 'b7f0', address: '10.0.0.7:9090' },
  expiresAtSeconds: NOW_SECONDS + LIFETIME_SECONDS,
};

type SealerChoices = Partial<Omit<SealerOptions, 'ring'>> & { keys?: readonly SecretKey[] };

export function sealer({ keys, ...choices }: SealerChoices = {}): Sealer {
  return createSealer({
    ring: createKeyRing(keys ?? [OLD_KEY], 'seal'),
    audience: 'fleet-a',
    clock: { now: () => NOW_MS },
    maxTokenBytes: 4096,
    ...choices,
  });
}

/** The refusal that an opening throws; fails the test when it succeeds or breaks in another way. */
export function refusal(open: () => unknown): InvalidRequestState {
  let outcome: unknown = 'it opened';
  try {
    open();
  } catch (error) {
    outcome = error;
  }
  expect(outcome).toBeInstanceOf(InvalidRequestState);
  return outcome as InvalidRequestState;
}

export function expectRefused(open: () => unknown, reason: InvalidRequestStateReason): void {
  expect(refusal(open).reason).toBe(reason);
}
