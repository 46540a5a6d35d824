import { expect, test } from 'vitest';
import {
  readClaim,
  readOwner,
  writeOwner,
} from '../../../../src/replicas/directory/claim-record.ts';

const OWNER = { id: 'id', boot: 'boot', address: 'http://127.0.0.1:1' };

test('a claim is read as it was written', () => {
  expect(readClaim(`{"epoch":7,"owner":${writeOwner(OWNER)}}`)).toEqual({ owner: OWNER, epoch: 7 });
  expect(readOwner(writeOwner(OWNER))).toEqual(OWNER);
});

// Rule relay-15.
test.each([
  ['a later version', JSON.stringify({ v: 2, epoch: 7, owner: OWNER })],
  ['another form', JSON.stringify({ epoch: 7, owner: { ...OWNER, zone: 'a' } })],
  ['no JSON', 'x'],
])('a claim of %s is not read', (_, text) => {
  expect(readClaim(text)).toBeNull();
  expect(readOwner(text)).toBeNull();
});
