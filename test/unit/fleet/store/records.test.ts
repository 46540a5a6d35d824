import { describe, expect, test } from 'vitest';
import { readClaim, writeClaim, writeOwner } from '../../../../src/fleet/store/redis-scripts.ts';
import { readLease, writeLease } from '../../../../src/fleet/store/lease-record.ts';
import { createKeyRing } from '../../../../src/seal/key-ring.ts';

const OWNER = { id: 'id', instance: 'instance', address: 'http://127.0.0.1:1' };
const [NAME, OTHERS] = [
  { id: 'id', instance: 'instance' },
  { ...OWNER, instance: 'other' },
];
const SEAL = {
  ring: createKeyRing([{ kid: 'a', secret: Buffer.alloc(32, 1) }], 'lease'),
  audience: 'fleet',
};

test('a claim is read as it was written, and says no address', () => {
  expect(readClaim(writeClaim(7, writeOwner(OWNER)))).toEqual({
    owner: NAME,
    fencingToken: 7,
  });
});

// Rule relay-5.
test.each([
  ['a later version', JSON.stringify({ v: 2, fencingToken: 7, owner: NAME })],
  ['no version', JSON.stringify({ fencingToken: 7, owner: NAME })],
  ['another form', JSON.stringify({ v: 1, fencingToken: 7, owner: { ...NAME, zone: 'a' } })],
  ['no JSON', 'x'],
])('a claim of %s is not read', (_, text) => {
  expect(readClaim(text)).toBeNull();
  expect(readLease(text, SEAL)).toBeNull();
});

describe('a lease', () => {
  test('is read as it was written, and shows no address to others', () => {
    const text = writeLease(OWNER, SEAL);
    expect(text).not.toContain('127.0.0.1');
    expect(readLease(text, SEAL)).toEqual(OWNER);
    expect(readLease(writeLease(NAME, SEAL), SEAL)).toEqual(NAME);
  });

  test.each([
    ['is as it is', { v: 1, ...NAME, address: 'http://10.0.0.1:80' }],
    ['is not sealed', { v: 1, ...NAME, at: 'http://10.0.0.1:80' }],
    [
      'was sealed for another replica',
      { v: 1, ...NAME, at: JSON.parse(writeLease(OTHERS, SEAL)).at },
    ],
    [
      'was sealed for another deployment',
      JSON.parse(writeLease(OWNER, { ...SEAL, audience: 'b' })),
    ],
  ])('is none if its address %s', (_what, lease) => {
    expect(readLease(JSON.stringify(lease), SEAL)).toBeNull();
  });
});
