import { describe, expect, test } from 'vitest';
import { listKey } from '../../../src/catalogue/list-cache.ts';
import type { EdgeRequest } from '../../../src/model/request.ts';
import { EMPTY_PROFILE } from '../../../src/protocol/translate/client-profile.ts';

const REQUEST: EdgeRequest = {
  method: 'tools/list',
  params: {},
  forwardedMeta: {},
  profile: EMPTY_PROFILE,
  clientInfo: { name: 'test', version: '1.0.0' },
  logLevel: null,
  progressToken: null,
  inputResponses: null,
  requestState: null,
  caller: {
    kind: 'anonymous',
    conversation: null,
    principalKey: 'anonymous',
    principal: null,
    credentialsKey: '',
    headers: {},
  },
};
const LONG = 'x'.repeat(1_000_000);

describe('what a kept list is found by', () => {
  test.each<[string, Partial<EdgeRequest>]>([
    ['members', { params: { [LONG]: LONG } }],
    ['vendor keys', { forwardedMeta: { 'com.example/tenant': LONG } }],
    ['names', { clientInfo: { name: LONG, version: LONG } }],
  ])('is short, however long the %s of a client are', (_what, given) => {
    const key = listKey({ ...REQUEST, ...given });
    expect(key).not.toBe(listKey(REQUEST));
    expect(key.length).toBeLessThan(200);
  });

  test('is the same in whatever order a client writes its members', () => {
    const [one, other] = [
      { a: 1, b: 2 },
      { b: 2, a: 1 },
    ];
    expect(listKey({ ...REQUEST, params: one })).toBe(listKey({ ...REQUEST, params: other }));
  });

  test.each<[string, Partial<EdgeRequest['caller']>]>([
    ['principal', { principalKey: 'header:ada', principal: 'header:ada' }],
    ['credentials', { credentialsKey: 'other' }],
  ])('differs by %s', (_what, caller) => {
    const other = { ...REQUEST, caller: { ...REQUEST.caller, ...caller } };
    expect(listKey(other)).not.toBe(listKey(REQUEST));
  });
});
