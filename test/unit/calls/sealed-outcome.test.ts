import { createCipheriv, randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { openOutcome, sealOutcome, type OutcomeRecord } from '../../../src/calls/sealed-outcome.ts';
import { callId } from '../../../src/protocol/ids.ts';
import { parseJson, type JsonObject } from '../../../src/protocol/json.ts';
import { arbitraryJsonObject } from '../../fixtures/arbitrary/json.ts';

const key = randomBytes(32);
const call = callId('kYzQf3mX0b7u8w1v5r2t9A');
const record: OutcomeRecord = {
  round: 2,
  answersDigest: 'x'.repeat(43),
  reply: { kind: 'result', result: { content: [{ type: 'text', text: 'deployed to canary' }] } },
};

const anyRecord: fc.Arbitrary<OutcomeRecord> = fc.record({
  round: fc.integer({ min: 1, max: 100 }),
  answersDigest: fc.string({ minLength: 1 }),
  reply: fc.oneof(
    fc.record({ kind: fc.constant('result' as const), result: arbitraryJsonObject }),
    fc.record({
      kind: fc.constant('failed' as const),
      failure: fc.record(
        {
          error: fc.record(
            { code: fc.integer(), message: fc.string(), data: arbitraryJsonObject },
            { requiredKeys: ['code', 'message'] },
          ),
          httpStatus: fc.integer({ min: 200, max: 599 }),
          headers: fc.constant({ 'retry-after': '5' }),
        },
        { requiredKeys: ['error', 'httpStatus'] },
      ),
    }),
  ),
});

describe('an outcome comes out as it went in', () => {
  test('whatever is in it', () => {
    fc.assert(
      fc.property(anyRecord, (any) => {
        const opened = openOutcome(key, call, sealOutcome(key, call, any));
        // What counts is what a client would be sent.
        expect(opened).toEqual(JSON.parse(JSON.stringify(any)));
      }),
    );
  });

  test('with members that this version does not know, wherever a server may put them', () => {
    const result = { content: [], later: { __proto__: null, nested: [{ vendor: 1 }] } };
    const sealed = sealOutcome(key, call, { ...record, reply: { kind: 'result', result } });
    expect(openOutcome(key, call, sealed)?.reply).toEqual({
      kind: 'result',
      result: JSON.parse(JSON.stringify(result)),
    });
  });

  // Rule limits-3.
  test('with a member that could reach a prototype, and 600 levels', () => {
    const data = `{"__proto__":{"polluted":1},"a":${'['.repeat(600)}${']'.repeat(600)}}`;
    const text = `{"content":[],"structuredContent":${data},"__proto__":2}`;
    const reply = { kind: 'result', result: parseJson(text) as JsonObject } as const;
    const opened = openOutcome(key, call, sealOutcome(key, call, { ...record, reply }));
    expect(JSON.stringify(opened?.reply)).toBe(`{"kind":"result","result":${text}}`);
  });
});

describe('whoever reads the store', () => {
  test('sees nothing of the outcome', () => {
    const bytes = Buffer.from(sealOutcome(key, call, record)).toString('latin1');
    expect(bytes).not.toContain('canary');
    expect(bytes).not.toContain(record.answersDigest);
  });

  test('does not even see that two outcomes are the same', () => {
    const [one, other] = [sealOutcome(key, call, record), sealOutcome(key, call, record)];
    expect(one).not.toEqual(other);
  });
});

// Rule store-3.
describe('nothing opens but what was sealed', () => {
  test('a change of any byte is noticed', () => {
    const sealed = sealOutcome(key, call, record);
    fc.assert(
      fc.property(
        fc.nat({ max: sealed.length - 1 }),
        fc.integer({ min: 1, max: 255 }),
        (at, change) => {
          const changed = Uint8Array.from(sealed, (byte, i) => (i === at ? byte ^ change : byte));
          expect(openOutcome(key, call, changed)).toBeNull();
        },
      ),
    );
  });

  test('no part and no extension of it opens', () => {
    const sealed = sealOutcome(key, call, record);
    for (let length = 0; length < sealed.length; length++) {
      expect(openOutcome(key, call, sealed.subarray(0, length))).toBeNull();
    }
    expect(openOutcome(key, call, Buffer.concat([sealed, Buffer.of(0)]))).toBeNull();
  });

  test('arbitrary bytes are no outcome', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        expect(openOutcome(key, call, bytes)).toBeNull();
      }),
    );
  });

  test('the outcome of one call is not that of another', () => {
    const sealed = sealOutcome(key, call, record);
    expect(openOutcome(key, callId('another-call'), sealed)).toBeNull();
  });

  test.each([
    ['another key', randomBytes(32)],
    ['a key that is too short', key.subarray(0, 16)],
    ['no key', new Uint8Array()],
  ])('%s opens nothing', (_title, other) => {
    expect(openOutcome(other, call, sealOutcome(key, call, record))).toBeNull();
  });

  test.each<[string, unknown]>([
    ['a round that is no number', { ...record, round: '2' }],
    ['a round before the first', { ...record, round: 0 }],
    ['a member more', { ...record, extra: true }],
    ['a member less', { round: 1, reply: record.reply }],
    ['an answer of another kind', { ...record, reply: { kind: 'input', result: {} } }],
    ['a result that is a list', { ...record, reply: { kind: 'result', result: [] } }],
    ['no object', 'deployed'],
  ])('a record with the right key is read strictly: %s', (_title, odd) => {
    expect(openOutcome(key, call, sealedByHand(record))).toEqual(record);
    expect(openOutcome(key, call, sealedByHand(odd))).toBeNull();
  });

  test('a key of another length is refused when sealing', () => {
    expect(() => sealOutcome(key.subarray(0, 16), call, record)).toThrow();
  });
});

/** Any value in the format of a sealed outcome. */
function sealedByHand(value: unknown): Uint8Array {
  const nonce = randomBytes(12);
  const cipher = createCipheriv('aes-256-gcm', key, nonce);
  cipher.setAAD(Buffer.from(`mrtr-gateway outcome 1\n${call}`));
  const sealed = [cipher.update(JSON.stringify(value)), cipher.final()];
  return Buffer.concat([Buffer.of(1), nonce, cipher.getAuthTag(), ...sealed]);
}
