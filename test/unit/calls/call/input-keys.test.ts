import fc from 'fast-check';
import { expect, test } from 'vitest';
import { InputKeys, type InputKeyOptions } from '../../../../src/calls/call/input-keys.ts';
import { inputKey, serverRequestId } from '../../../../src/protocol/ids.ts';

const PLAIN: InputKeyOptions = { names: [], revealsSession: () => false };
const id = serverRequestId;

// Rule shown-5.
test('keys say the kind and count over the whole call', () => {
  const keys = new InputKeys();
  expect([
    keys.next('elicitation-form', id(1), PLAIN).key,
    keys.next('elicitation-url', id(2), PLAIN).key,
    keys.next('sampling', id(3), PLAIN).key,
    keys.next('roots', null, PLAIN).key,
    keys.next('sampling', id(5), PLAIN).key,
  ]).toEqual(['elicitation-1', 'elicitation-2', 'sampling-1', 'roots-1', 'sampling-2']);
});

// Rule shown-5.
test('a plain name that the upstream uses as an id is the key', () => {
  expect(new InputKeys().next('roots', id('user_name'), PLAIN).key).toBe('user_name');
});

// Rule shown-5.
test.each([7, '7', '', 'a b', '-a', 'a/b', 'ä', 'x'.repeat(65)])(
  'the id %j is no plain name',
  (value) => {
    expect(new InputKeys().next('roots', id(value), PLAIN).key).toBe('roots-1');
  },
);

// Rule shown-6.
test('an id that is built from the session id is never shown: the session id is a credential', () => {
  const options = { ...PLAIN, revealsSession: (text: string) => text.includes('s3cret') };
  expect(new InputKeys().next('roots', id('s3cret-0'), options).key).toBe('roots-1');
});

// Rule shown-5.
test('the operator’s names are given in the order of asking, before any other', () => {
  const options = { ...PLAIN, names: ['first', 'second'] };
  const keys = new InputKeys();
  expect([
    keys.next('roots', id('own'), options).key,
    keys.next('sampling', id('own'), options).key,
    keys.next('sampling', id('own'), options).key,
  ]).toEqual(['first', 'second', 'own']);
});

test('a key that another replica gave out is not given again', () => {
  const keys = new InputKeys();
  keys.take(inputKey('roots-1'));
  expect(keys.next('roots', null, PLAIN).key).toBe('roots-2');
});

// Rule shown-5 (MRTR, "Server Requirements" 2): A key is never used twice in a call. It comes from
// `questions.keyNames`, from the server's request id, or from a count such as `elicitation-1`.
test('no key is given twice in a call, whatever names, ids and kinds come (MRTR, "Input Requests")', () => {
  const name = fc.constantFrom('a', 'elicitation-1', 'elicitation-2', 'roots-1', 'sampling-1');
  const asked = fc.record({
    kind: fc.constantFrom('elicitation-form', 'elicitation-url', 'sampling', 'roots'),
    id: fc.oneof(name, fc.integer(), fc.constant(null)),
    taken: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.array(asked), fc.array(name), (asks, names) => {
      const keys = new InputKeys();
      const given = new Set<string>();
      for (const ask of asks) {
        const own = ask.id === null ? null : id(ask.id);
        const { key, isNamed } = keys.next(ask.kind, own, { ...PLAIN, names });
        expect(!isNamed || [...names, ask.id].some((one) => one === key)).toBe(true);
        expect(given).not.toContain(key);
        given.add(key);
        if (ask.taken) {
          keys.take(inputKey('roots-2'));
          given.add('roots-2');
        }
      }
    }),
  );
});
