import { describe, expect, test } from 'vitest';
import { loggedTarget } from '../../../src/ops/tracing.ts';

describe('the log names what a call is for', () => {
  test.each(['tools/call', 'prompts/get'])('by its name in %s', (method) => {
    expect(loggedTarget(method, { name: 'a?b#c@d', uri: 'other' })).toBe('a?b#c@d');
  });

  test.each([
    ['https://host.example/a/b', 'https://host.example/a/b'],
    ['https://host.example/a?X-Amz-Signature=secret', 'https://host.example/a'],
    ['https://host.example/a#access_token=secret', 'https://host.example/a'],
    ['https://host.example/a?b#c?d@e\nsecret', 'https://host.example/a'],
    ['https://host.example?a=b@secret', 'https://host.example'],
    ['postgres://user:secret@db.example:5432/t', 'postgres://db.example:5432/t'],
    ['postgres://user:sec@ret@db.example/t', 'postgres://db.example/t'],
    ['//user:secret@host.example/a', '//host.example/a'],
    ['https:\\\\user:secret@host.example\\a', 'https:\\\\host.example\\a'],
    ['file:///home/me/@scope/a.ts', 'file:///home/me/@scope/a.ts'],
    ['users://me@host.example', 'users://host.example'],
    ['note:me@host.example', 'note:me@host.example'],
    ['no uri at all', 'no uri at all'],
    ['', ''],
  ])('by the URI of its resource, without what lets others have it: %s', (uri, logged) => {
    expect(loggedTarget('resources/read', { uri, name: 'other' })).toBe(logged);
  });

  test('by nothing where it is not named', () => {
    expect(loggedTarget('tools/call', { name: 1, uri: 'other' })).toBe('');
    expect(loggedTarget('resources/read', {})).toBe('');
  });
});
