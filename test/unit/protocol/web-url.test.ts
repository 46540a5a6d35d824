import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { edgeError, readUrlElicitations } from '../../../src/protocol/translate/error-map.ts';
import { isWebUrl } from '../../../src/protocol/web-url.ts';

describe('a URL with userinfo, which hides where it leads,', () => {
  const DECEITFUL = [
    'https://bank.example@evil.example/',
    'https://bank.example:secret@evil.example/',
    'https://:secret@evil.example/',
    'https://@evil.example/',
    'http:bank.example@evil.example',
    'https:\\\\bank.example@evil.example/',
    'HTTPS://bank.example%2F@evil.example/',
    'https://bank.example\t@evil.example/',
    'ht\ntps://bank.example@evil.example/',
    ' https://bank.example@evil.example/',
    '\u0001https://bank.example@evil.example/',
    '\u0000 \u001f https://bank.example@evil.example/',
    'https://bank.example@[::1]/',
    'https://a@b@evil.example/',
  ];

  // Rule urls-2.
  test.each(DECEITFUL)('is shown to nobody: %j', (url) => {
    expect(isWebUrl(url)).toBe(false);
  });

  // Rule url-errors-6.
  test.each(DECEITFUL)('in an error -32042 is shown to nobody either: %j', (url) => {
    const good = { message: 'm', url: 'https://a.example', elicitationId: 'a' };
    const data = { elicitations: [good, { ...good, url }] };
    const sent = { code: -32042, message: 'visit', data };
    expect(readUrlElicitations(sent)).toBeNull();
    const { error } = edgeError('tools/call', sent);
    expect(error).toMatchObject({ code: -32603, data: { reason: 'unsafe_url' } });
    expect(JSON.stringify(error)).not.toContain('evil');
  });

  // Rule urls-2.
  test('is told from every other, whatever stands before the @', () => {
    fc.assert(
      fc.property(fc.webUrl(), fc.webAuthority({ withUserInfo: true }), (plain, authority) => {
        expect(isWebUrl(plain)).toBe(true);
        expect(isWebUrl(`https://${authority}/`)).toBe(!authority.includes('@'));
      }),
    );
  });
});

test.each([
  'https://a.example/@user',
  'https://a.example/?mail=a@b.example',
  'https://a.example#a@b',
  'https://a.example?a@b',
  'http://127.0.0.1:1/',
])('a URL with an @ elsewhere may be visited: %j', (url) => {
  expect(isWebUrl(url)).toBe(true);
});

test.each(['mailto:a@b.example', 'javascript:alert(1)', '/relative', '', null, 5, 'https://'])(
  '%j is no URL to visit',
  (url) => {
    expect(isWebUrl(url)).toBe(false);
  },
);
