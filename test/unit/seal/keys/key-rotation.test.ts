import { describe, expect, test } from 'vitest';
import type { SecretKey } from '../../../../src/seal/key-ring.ts';
import { expectRefused, NEW_KEY, OLD_KEY, pointer, request, sealer } from '../sealing-fixture.ts';

/** The phases of a rotation, in the order in which each is rolled out to the whole fleet. */
const PHASES: readonly (readonly SecretKey[])[] = [
  [OLD_KEY],
  [OLD_KEY, NEW_KEY],
  [NEW_KEY, OLD_KEY],
  [NEW_KEY],
];

const kidOf = (requestState: string): unknown =>
  JSON.parse(Buffer.from(requestState.split('.')[0] ?? '', 'base64url').toString()).kid;

describe('rotation', () => {
  // Rule pointer-7: All keys in `seal.keys` open, and the first one seals. A pointer of another `seal.audience` is
  // refused.
  test('never breaks a retry between two neighbouring phases, in either direction', () => {
    for (const [index, keys] of PHASES.entries()) {
      for (const neighbour of PHASES.slice(Math.max(0, index - 1), index + 2)) {
        const sealing = sealer({ keys });
        const opening = sealer({ keys: neighbour });
        expect(opening.open(sealing.seal(pointer), request)).toMatchObject({
          round: 1,
        });
      }
    }
  });

  test('lets what the old key sealed open as long as the old key is listed anywhere', () => {
    const requestState = sealer({ keys: [OLD_KEY] }).seal(pointer);
    for (const keys of PHASES.slice(0, 3)) {
      const { open } = sealer({ keys });
      expect(open(requestState, request)).toMatchObject({ callId: pointer.callId });
    }
  });

  // Rule pointer-7.
  test('seals with the first key only', () => {
    const requestState = sealer({ keys: [NEW_KEY, OLD_KEY] }).seal(pointer);
    expect(kidOf(requestState)).toBe(NEW_KEY.kid);
    const onlyOld = sealer({ keys: [OLD_KEY] });
    expectRefused(() => onlyOld.open(requestState, request), 'unknown-key');
  });

  // Rule pointer-7.
  test('ends the pointers of a key that is removed', () => {
    const requestState = sealer({ keys: [OLD_KEY] }).seal(pointer);
    const { open } = sealer({ keys: [NEW_KEY] });
    expectRefused(() => open(requestState, request), 'unknown-key');
  });

  test('in the wrong order fails with the ordinary refusal, nothing else', () => {
    const promotedTooEarly = sealer({ keys: [NEW_KEY] });
    const behind = sealer({ keys: [OLD_KEY] });
    expectRefused(() => behind.open(promotedTooEarly.seal(pointer), request), 'unknown-key');
    expectRefused(() => promotedTooEarly.open(behind.seal(pointer), request), 'unknown-key');
  });

  test('does not mind a key that comes back under another name, except that its pointers end', () => {
    const requestState = sealer({ keys: [OLD_KEY] }).seal(pointer);
    const renamed = sealer({ keys: [{ kid: 'renamed', secret: OLD_KEY.secret }] });
    expectRefused(() => renamed.open(requestState, request), 'unknown-key');
  });
});
