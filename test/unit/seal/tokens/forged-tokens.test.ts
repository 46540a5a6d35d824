import { deflateRawSync } from 'node:zlib';
import { compactDecrypt, CompactEncrypt } from 'jose';
import { describe, expect, test } from 'vitest';
import { createKeyRing } from '../../../../src/seal/key-ring.ts';
import { forge, HEADER } from './forge.ts';
import {
  expectRefused,
  NEW_KEY,
  NOW_SECONDS,
  OLD_KEY,
  pointer,
  request,
  sealer,
} from '../sealing-fixture.ts';

const { open } = sealer();

const CLAIMS = {
  v: 1,
  aud: 'fleet-a',
  rt: request.route,
  c: pointer.callId,
  n: 1,
  o: { id: 'replica-1', instance: 'b7f0' },
  iat: NOW_SECONDS,
  exp: NOW_SECONDS + 600,
  p: request.principal,
  m: request.method,
  t: request.target,
  d: request.digest,
};

test('a token that the test forges with the right header and claims opens', () => {
  const opened = open(forge({ claims: CLAIMS }), request);
  expect(opened).toMatchObject({ callId: pointer.callId, round: 1 });
});

describe('a header other than ours is refused, even under a right tag', () => {
  test.each([
    ['another key management', { ...HEADER, alg: 'A256KW' }],
    ['no algorithm', { ...HEADER, alg: 'none' }],
    ['an algorithm in capitals', { ...HEADER, alg: 'DIR' }],
    ['another encryption', { ...HEADER, enc: 'A128GCM' }],
    ['an encryption without a name', { ...HEADER, enc: undefined }],
    ['another type', { ...HEADER, typ: 'JWT' }],
    ['the type of another use', { ...HEADER, typ: 'mrtr-relay+jwe' }],
    ['no type', { ...HEADER, typ: undefined }],
    ['no key id', { ...HEADER, kid: undefined }],
    ['a key id that is a number', { ...HEADER, kid: 7 }],
    ['a key id that is a list', { ...HEADER, kid: [OLD_KEY.kid] }],
    ['a key id that is a path', { ...HEADER, kid: '../../etc/passwd' }],
    ['an empty key id', { ...HEADER, kid: '' }],
    ['a key of its own', { ...HEADER, jwk: { kty: 'oct', k: 'AAAA' } }],
    ['the address of a key', { ...HEADER, jku: 'https://attacker.example/keys' }],
    ['a critical extension', { ...HEADER, crit: ['exp'], exp: 1 }],
    ['a compression', { ...HEADER, zip: 'DEF' }],
    ['a list', [HEADER]],
    ['a text', 'dir'],
  ])('%s', (_title, header) => {
    expectRefused(() => open(forge({ header, claims: CLAIMS }), request), 'malformed');
  });

  test.each([
    ['null', 'null'],
    ['a space between its members', JSON.stringify(HEADER).replace(',', ', ')],
    [
      'its members in another order',
      JSON.stringify(Object.fromEntries(Object.entries(HEADER).reverse())),
    ],
    ['an escaped letter', JSON.stringify(HEADER).replace('dir', '\\u0064ir')],
    ['a member twice', JSON.stringify(HEADER).replace('{', '{"alg":"dir",')],
    ['not JSON', '{alg:dir}'],
    ['a prototype', `{"__proto__":{"kid":"x"},${JSON.stringify(HEADER).slice(1)}`],
  ])('%s', (_title, headerText) => {
    expectRefused(() => open(forge({ headerText, claims: CLAIMS }), request), 'malformed');
  });

  test.each(['unheard-of', 'toString', '__proto__', 'constructor'])(
    'the key id %s, which the ring does not have',
    (kid) => {
      const token = forge({ header: { ...HEADER, kid }, claims: CLAIMS });
      expectRefused(() => open(token, request), 'unknown-key');
    },
  );
});

// Rule pointer-2.
test('a compressed token that inflates to a thousand times its size is refused unopened', async () => {
  const bomb = deflateRawSync(Buffer.alloc(200_000, ' '));
  const token = forge({ header: { ...HEADER, zip: 'DEF' }, content: bomb });
  expect(token.length).toBeLessThan(600);
  const { key } = createKeyRing([OLD_KEY], 'seal').sealing;
  const inflated = await compactDecrypt(token, key);
  expect(inflated.plaintext.byteLength).toBe(200_000);
  expectRefused(() => open(token, request), 'malformed');
});

describe('keys are not confused', () => {
  // Rule pointer-2.
  test('what the relay key of the same secret sealed, the seal does not open', () => {
    expectRefused(() => open(forge({ claims: CLAIMS, purpose: 'relay' }), request), 'seal');
  });

  test('what another secret sealed under the name of ours does not open', () => {
    expectRefused(() => open(forge({ claims: CLAIMS, signedBy: NEW_KEY }), request), 'seal');
  });

  test('the secret itself, underived, seals nothing that opens', async () => {
    const token = await new CompactEncrypt(Buffer.from(JSON.stringify(CLAIMS)))
      .setProtectedHeader(HEADER)
      .encrypt(OLD_KEY.secret);
    expectRefused(() => open(token, request), 'seal');
  });
});

describe('a content that is not a pointer is refused, even under a right tag', () => {
  const without = (claim: keyof typeof CLAIMS) => {
    const { [claim]: _dropped, ...rest } = CLAIMS;
    return rest;
  };

  test.each(Object.keys(CLAIMS) as (keyof typeof CLAIMS)[])('without the claim %s', (claim) => {
    expectRefused(() => open(forge({ claims: without(claim) }), request), 'claims');
  });

  test.each([
    ['a version as text', { v: '1' }],
    ['an unknown claim', { admin: true }],
    ['rounds without a question, which its version does not have', { w: 1 }],
    ['rounds without a question, of which there are none', { v: 3, w: 0 }],
    ['a version that has rounds without a question, and none of them', { v: 3 }],
    ['a round of 0', { n: 0 }],
    ['a round as text', { n: '1' }],
    ['a round beyond the safe integers', { n: 2 ** 53 }],
    ['an owner that is a text', { o: 'replica-1' }],
    ['an owner with an unknown member', { o: { id: 'a', instance: 'b', port: 1 } }],
    ['an owner whose address is null', { o: { id: 'a', instance: 'b', addr: null } }],
    ['an expiry as text', { exp: '9999999999' }],
    ['an expiry of null', { exp: null }],
    ['an issue time of null', { iat: null }],
    ['a principal that is a number', { p: 7 }],
    ['a principal that is an object', { p: { x: 1 } }],
    ['an empty principal', { p: '' }],
    ['a list of audiences', { aud: ['fleet-a'] }],
    ['an empty call id', { c: '' }],
  ])('with %s', (_title, change) => {
    expectRefused(() => open(forge({ claims: { ...CLAIMS, ...change } }), request), 'claims');
  });

  test('of another version, which is said to be the reason', () => {
    for (const v of [0, 4, 5]) {
      const claims = { ...CLAIMS, v, unheard: 'of' };
      expectRefused(() => open(forge({ claims }), request), 'version');
    }
    const content = `${JSON.stringify({ ...CLAIMS, v: 4 })}\nnot deflated`;
    expectRefused(() => open(forge({ content }), request), 'version');
  });

  test.each([
    ['prose', 'not a pointer'],
    ['null', 'null'],
    ['a list', '[]'],
    ['a text', '"park"'],
    ['nothing', ' '],
    ['bytes that are not UTF-8', Uint8Array.of(0xff, 0xfe, 0x7b)],
    ['an expiry beyond all numbers', JSON.stringify(CLAIMS).replace(/"exp":\d+/, '"exp":1e999')],
    ['a prototype', `{"__proto__":{"p":null},${JSON.stringify(CLAIMS).slice(1)}`],
    ['a constructor', `{"constructor":{"prototype":{"p":null}},${JSON.stringify(CLAIMS).slice(1)}`],
  ])('of %s', (_title, content) => {
    expectRefused(() => open(forge({ content }), request), 'claims');
  });

  test('of a text that only becomes the expected target once its broken UTF-8 is repaired', () => {
    const [before = '', after = ''] = JSON.stringify({ ...CLAIMS, t: 'HERE' }).split('HERE');
    const content = Buffer.concat([Buffer.from(before), Buffer.of(0xff), Buffer.from(after)]);
    const misled = { ...request, target: '\ufffd' };
    expectRefused(() => open(forge({ content }), misled), 'claims');
  });
});
