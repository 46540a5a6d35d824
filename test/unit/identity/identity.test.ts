import { describe, expect, test } from 'vitest';
import { callerOf, type IdentitySource } from '../../../src/identity/identity.ts';

const CREDENTIALS = { credentialHeaders: ['x-api-key', 'x-tenant'] };
const NONE: IdentitySource = { source: 'none', ...CREDENTIALS };
const NAMED: IdentitySource = { source: 'header', header: 'x-user', ...CREDENTIALS };

function caller(headers: Record<string, string>, identity: IdentitySource = NONE) {
  const found = callerOf(headers, { identity, authorization: 'forward', forwardHeaders: [] });
  if (found === null) throw new Error('no caller');
  return found;
}

// Rule callers-8.
describe('credential headers', () => {
  test('make a caller of one who has no other credentials', () => {
    expect(caller({}).kind).toBe('anonymous');
    expect(caller({ 'x-api-key': 'a' }).kind).toBe('credentials');
  });

  test.each([
    [{ 'x-api-key': 'a' }, { 'x-api-key': 'b' }],
    [{ 'x-api-key': 'a' }, { 'x-tenant': 'a' }],
    [{ 'x-api-key': 'a' }, { authorization: 'a' }],
    [{ 'x-api-key': 'a' }, { 'x-api-key': 'a', authorization: 'Bearer t' }],
    [{ 'x-api-key': 'a' }, { 'x-api-key': 'a', 'x-tenant': '' }],
  ])('tell the caller with %j from that with %j', (one, other) => {
    for (const identity of [NONE, NAMED]) {
      const callers = [one, other].map((headers) =>
        caller({ 'x-user': 'ada', ...headers }, identity),
      );
      const [principals, credentials] = [
        callers.map(({ principal }) => principal),
        callers.map(({ credentialsKey }) => credentialsKey),
      ];
      expect(new Set(credentials).size).toBe(2);
      // A name outlives a refreshed token, and no change of another credential.
      const isToken = identity === NAMED && JSON.stringify([one, other]).includes('Bearer t');
      expect(new Set(principals).size).toBe(isToken ? 1 : 2);
    }
  });

  test('are no part of another name', () => {
    const { principal } = caller({ 'x-user': 'ada', 'x-api-key': 'a' }, NAMED);
    const [, rest = ''] = /^header(.*)$/.exec(principal ?? '') ?? [];
    expect(caller({ 'x-user': rest }, NAMED).principal).not.toBe(principal);
  });

  test('change nothing for who sends none of them', () => {
    const plain: IdentitySource = { source: 'none', credentialHeaders: [] };
    const headers = { authorization: 'Bearer t' };
    expect(caller(headers)).toEqual(caller(headers, plain));
  });
});
