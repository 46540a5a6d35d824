import { describe, expect, test } from 'vitest';
import { CARRIED, openBytes, sealBytes } from '../../../../src/seal/envelope.ts';
import { createKeyRing } from '../../../../src/seal/key-ring.ts';
import { NEW_KEY } from '../sealing-fixture.ts';

const ring = createKeyRing([NEW_KEY], 'task');
const PLACE = { audience: 'fleet-a', key: 'one' };
const open = (place: Parameters<typeof openBytes>[1], sealed: string) =>
  openBytes(ring, place, sealed, 1_000).toString();

describe('what was sealed for a place', () => {
  test('opens there', () => {
    expect(open(PLACE, sealBytes(ring, PLACE, Buffer.from('content')))).toBe('content');
  });

  test.each([
    ['under another key', { audience: 'fleet-a', key: 'two' }],
    ['in another deployment', { audience: 'fleet-b', key: 'one' }],
    ['where both names in a row are the same', { audience: 'fleet-', key: 'aone' }],
    ['in the hands of a client', CARRIED],
  ] as const)('does not open %s', (_where, place) => {
    const sealed = sealBytes(ring, PLACE, Buffer.from('content'));
    expect(() => open(place, sealed)).toThrow('requestState');
    expect(() => open(PLACE, sealBytes(ring, place, Buffer.from('content')))).toThrow(
      'requestState',
    );
  });
});
