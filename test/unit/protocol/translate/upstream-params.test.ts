import fc from 'fast-check';
import { expect, test } from 'vitest';
import { upstreamParams } from '../../../../src/protocol/translate/cleaning.ts';
import {
  arbitraryJsonObject,
  unknownMembers,
  unknownMeta,
} from '../../../fixtures/arbitrary/json.ts';

const NOTHING = { progressToken: null, forwardedMeta: {} };

// Rule requests-2.
test('what belongs to rounds and to legacy tasks never goes upstream', () => {
  const params = { name: 'n', inputResponses: {}, requestState: 's', task: { ttl: 1 } };
  expect(upstreamParams(params, NOTHING)).toEqual({ name: 'n' });
});

// Rule envelope-3.
test('the client’s own _meta is replaced by what may go on, and by our progress token', () => {
  const params = { name: 'n', _meta: { progressToken: 'theirs', 'com.example/a': 1 } };
  const context = { progressToken: 7, forwardedMeta: { 'com.example/a': 1 } };
  expect(upstreamParams(params, context)).toEqual({
    name: 'n',
    _meta: { 'com.example/a': 1, progressToken: 7 },
  });
});

test('our progress token wins over a forwarded member of that name', () => {
  const context = { progressToken: 7, forwardedMeta: { progressToken: 'forged' } };
  expect(upstreamParams({}, context)).toEqual({ _meta: { progressToken: 7 } });
});

// Rule envelope-3.
test('an empty _meta is left out', () => {
  expect(upstreamParams({ name: 'n', _meta: {} }, NOTHING)).toEqual({ name: 'n' });
});

// Rule requests-2.
test('absent arguments stay absent, and null stays null', () => {
  expect(upstreamParams({ name: 'n' }, NOTHING)).not.toHaveProperty('arguments');
  expect(upstreamParams({ a: null }, NOTHING)).toEqual({ a: null });
});

// Rule requests-2 (basic, "`_meta`"): `params` go upstream unchanged, without `inputResponses`, `requestState` and
// `task`.
test('everything else is word for word, unknown members included', () => {
  fc.assert(
    fc.property(
      arbitraryJsonObject,
      unknownMembers,
      unknownMeta,
      (args, unknown, forwardedMeta) => {
        const params = { name: 'n', arguments: args, ...unknown };
        const before = structuredClone(params);
        const sent = upstreamParams(
          { ...params, inputResponses: {}, requestState: 's' },
          { progressToken: 1, forwardedMeta },
        );
        expect(sent).toEqual({ ...params, _meta: { ...forwardedMeta, progressToken: 1 } });
        expect(params).toEqual(before);
      },
    ),
  );
});
