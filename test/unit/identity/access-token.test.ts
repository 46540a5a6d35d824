import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
/** What an access token must be, and that nothing that is not one names a caller. */
import fc from 'fast-check';
import { exportJWK, exportSPKI, generateKeyPair, SignJWT, UnsecuredJWT } from 'jose';
import { beforeAll, describe, expect, test } from 'vitest';
import { verifyToken, type TokenRules } from '../../../src/identity/access-token.ts';
import { KeySet } from '../../../src/identity/key-set.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';

const ISSUER = 'https://auth.example.com';
const RULES: TokenRules = {
  issuer: ISSUER,
  audiences: ['https://mcp.example.com/mcp', 'second'],
  requiredScopes: ['read', 'write'],
  principalClaim: 'sub',
};
const CLAIMS = { iss: ISSUER, aud: 'second', sub: 'ada', scope: 'read write more' };

const clock = new ManualClock();
const nowSeconds = clock.now() / 1_000;
const pair = await generateKeyPair('ES256', { extractable: true });
const publicKey = await exportJWK(pair.publicKey);
const file = join(await mkdtemp(join(tmpdir(), 'keys-')), 'jwks.json');
await writeFile(file, JSON.stringify({ keys: [{ ...publicKey, kid: 'one', alg: 'ES256' }] }));
const keys = new KeySet({
  source: {
    url: null,
    file,
  },
  clock,
  onFailure: (problem) => expect.unreachable(problem),
});
beforeAll(() => keys.start());

interface Changes {
  readonly claims?: Record<string, unknown>;
  readonly header?: Record<string, unknown>;
  readonly expiresInSeconds?: number | null;
}

function sign({ claims = {}, header = {}, expiresInSeconds = 60 }: Changes = {}) {
  const exp = expiresInSeconds === null ? {} : { exp: nowSeconds + expiresInSeconds };
  return new SignJWT({ ...CLAIMS, ...exp, ...claims })
    .setProtectedHeader({ alg: 'ES256', kid: 'one', ...header })
    .sign(pair.privateKey);
}

const verify = (token: string, rules: Partial<TokenRules> = {}) =>
  verifyToken(token, { ...RULES, ...rules }, keys, clock);

describe('a token', () => {
  // Rule tokens-1 (authorization, "Token Handling"; RFC 8725, section 3.1): A token is valid if the issuer signed it,
  // and `iss`, `aud`, expiry and scopes fit. `alg: none` and `HS*` are refused.
  test('that is valid names its caller, together with the issuer', async () => {
    const named = { kind: 'valid', principal: `jwt:["${ISSUER}","ada"]` };
    // The clocks of the issuer and of this machine may differ by 30 s.
    const grants = { scopes: new Set(['read', 'write', 'more']), claims: new Map() };
    const valid = { ...named, grants, leftMs: 90_000 };
    expect(await verify(await sign())).toEqual(valid);
    expect(await verify(await sign({ claims: { aud: ['other', 'second'] } }))).toEqual(valid);
    const late = await verify(await sign({ expiresInSeconds: -5 }));
    expect(late, 'clocks differ').toEqual({ ...valid, leftMs: 25_000 });
    const scp = { scope: undefined, scp: ['read', 'write'] };
    const fewer = { ...valid, grants: { ...grants, scopes: new Set(['read', 'write']) } };
    expect(await verify(await sign({ claims: scp }))).toEqual(fewer);
  });

  // Rule rights-2.
  test('says of its claims what is asked for, and no more', async () => {
    const claims = {
      groups: ['ops', 7, { a: 1 }],
      admin: true,
      realm_access: { roles: ['user'] },
      'https://example.com/team': 'blue',
      'a/b': 'c',
    };
    const asked = ['groups', 'admin', '/realm_access/roles', 'https://example.com/team'];
    const more = ['/a~1b', 'realm_access', 'missing', '/realm_access/roles/0/length', 'toString'];
    const token = await sign({ claims });
    expect(await verify(token, { claims: [...asked, ...more] })).toMatchObject({
      grants: {
        claims: new Map<string, readonly unknown[]>([
          ['groups', ['ops', 7]],
          ['admin', [true]],
          ['/realm_access/roles', ['user']],
          ['https://example.com/team', ['blue']],
          ['/a~1b', ['c']],
          ...['realm_access', 'missing', '/realm_access/roles/0/length', 'toString'].map(
            (name) => [name, []] as const,
          ),
        ]),
      },
    });
  });

  // Rule tokens-1.
  test('can name its caller by another claim', async () => {
    const token = await sign({ claims: { email: 'ada@example.com' } });
    const principal = `jwt:["${ISSUER}","ada@example.com"]`;
    expect(await verify(token, { principalClaim: 'email' })).toMatchObject({
      kind: 'valid',
      principal,
    });
  });

  // Rule tokens-1.
  test.each<[string, Changes, string]>([
    ['has expired', { expiresInSeconds: -31 }, 'it has expired'],
    ['never expires', { expiresInSeconds: null }, 'the claim exp is missing'],
    ['is not valid yet', { claims: { nbf: nowSeconds + 31 } }, 'it is not valid yet'],
    ['is from another issuer', { claims: { iss: `${ISSUER}/` } }, 'it is from another issuer'],
    ['names no issuer', { claims: { iss: undefined } }, 'the claim iss is missing'],
    ['is for another audience', { claims: { aud: 'third' } }, 'it is for another audience'],
    ['is for nobody', { claims: { aud: undefined } }, 'the claim aud is missing'],
    ['names no caller', { claims: { sub: undefined } }, 'the claim sub is missing'],
    ['names an empty caller', { claims: { sub: '' } }, 'the claim sub is not a string'],
    ['names a number', { claims: { sub: 7 } }, 'the claim sub is not a string'],
    ['has an unknown key', { header: { kid: 'two' } }, 'its key is not a key of the issuer'],
  ])('that %s is refused', async (_, changes, problem) => {
    const expected = expect.any(String) as string;
    expect(await verify(await sign(changes))).toEqual({ kind: 'invalid', problem, expected });
  });

  // Rule tokens-6.
  test.each<[string, Changes, string]>([
    [
      'has expired',
      { expiresInSeconds: -31 },
      'another time, by the clock of this machine (within 30 s)',
    ],
    ['is from another issuer', { claims: { iss: 'x' } }, `identity.issuer: ${ISSUER}`],
    [
      'has an unknown key',
      { header: { kid: 'two' } },
      'a signature with one of the keys of identity.jwks',
    ],
  ])('that %s is refused with what the configuration expects', async (_, changes, expected) => {
    expect(await verify(await sign(changes))).toMatchObject({ expected });
  });

  // Rule tokens-1.
  test('without a signature, or with one of a shared secret, is refused', async () => {
    const problem = 'its algorithm is not allowed';
    const refused = { kind: 'invalid', problem, expected: 'RS*, PS*, ES* or EdDSA' };
    const secret = new TextEncoder().encode(await exportSPKI(pair.publicKey));
    const confused = await new SignJWT({ ...CLAIMS, exp: nowSeconds + 60 })
      .setProtectedHeader({ alg: 'HS256', kid: 'one' })
      .sign(secret);
    expect(await verify(confused)).toEqual(refused);
    const unsigned = new UnsecuredJWT({ ...CLAIMS, exp: nowSeconds + 60 }).encode();
    expect((await verify(unsigned)).kind).toBe('invalid');
    const [, payload] = (await sign()).split('.');
    const header = Buffer.from('{"alg":"none","kid":"one"}').toString('base64url');
    expect(await verify(`${header}.${payload}.`)).toEqual(refused);
  });

  // Rule tokens-3.
  test.each([['read'], [''], [undefined], [['read', 'more']], ['read writer']])(
    'with the scopes %j lacks one',
    async (scope) => {
      expect(await verify(await sign({ claims: { scope } }))).toEqual({
        kind: 'insufficient-scope',
      });
    },
  );
});

describe('a text that is not a token of the issuer', () => {
  // Rule tokens-1.
  test('never names a caller: a valid token with any character changed', async () => {
    const token = await sign();
    const characters = 'ABCxyz019-_.=~ ';
    const changed = fc
      .tuple(fc.nat(token.length - 1), fc.constantFrom(...characters))
      .map(([at, other]) => token.slice(0, at) + other + token.slice(at + 1))
      // The last character has bits that no byte of the signature uses.
      .filter((other) => Buffer.compare(bytesOf(other), bytesOf(token)) !== 0);
    await fc.assert(
      fc.asyncProperty(changed, async (other) => {
        expect((await verify(other)).kind).toBe('invalid');
      }),
      { numRuns: 300 },
    );
  });

  // Rule tokens-1.
  test('never names a caller: any text, and any header and payload', async () => {
    const part = fc.oneof(fc.base64String(), fc.json().map(base64), fc.string());
    const text = fc.oneof(
      fc.string(),
      fc.array(part, { maxLength: 5 }).map((all) => all.join('.')),
    );
    await fc.assert(
      fc.asyncProperty(text, async (token) => {
        expect((await verify(token)).kind).toBe('invalid');
      }),
      { numRuns: 500 },
    );
  });
});

const base64 = (text: string) => Buffer.from(text).toString('base64url');
const bytesOf = (token: string) =>
  Buffer.concat(token.split('.').flatMap((part) => [Buffer.from(part, 'base64url'), Buffer.of(0)]));
