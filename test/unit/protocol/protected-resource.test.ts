import { describe, expect, test } from 'vitest';
import {
  challengeParameter,
  metadataPath,
  publicChallenge,
  publicMetadata,
} from '../../../src/protocol/protected-resource.ts';

const URL_OF = new URL('https://mcp.example/mcp');
const METADATA = 'https://mcp.example/.well-known/oauth-protected-resource/mcp';

test.each([
  ['https://mcp.example/mcp', '/.well-known/oauth-protected-resource/mcp'],
  ['https://mcp.example/a/b/', '/.well-known/oauth-protected-resource/a/b'],
  ['https://mcp.example', '/.well-known/oauth-protected-resource'],
])('the metadata of %s is at %s (RFC 9728, section 3.1)', (url, path) => {
  expect(metadataPath(new URL(url))).toBe(path);
});

test('metadata names the public URL, without a slash at its end', () => {
  expect(publicMetadata({ resource: 'x', a: 1 }, new URL('https://mcp.example'))).toEqual({
    resource: 'https://mcp.example',
    a: 1,
  });
});

// Rule oauth-2.
describe('a challenge', () => {
  test.each([
    ['Bearer', 'Bearer'],
    ['Bearer resource_metadata=https://x/y', `Bearer resource_metadata="${METADATA}"`],
    [
      'Bearer a="\\"", Resource_Metadata = "x", b=c',
      `Bearer a="\\"", Resource_Metadata = "${METADATA}", b=c`,
    ],
    [
      'Bearer error_description="resource_metadata=x"',
      'Bearer error_description="resource_metadata=x"',
    ],
    ['Bearer x-resource_metadata="x"', 'Bearer x-resource_metadata="x"'],
    [
      'Basic realm="a", Bearer resource_metadata="x"',
      `Basic realm="a", Bearer resource_metadata="${METADATA}"`,
    ],
  ])('%s becomes %s', (challenge, rewritten) => {
    expect(publicChallenge(challenge, URL_OF)).toBe(rewritten);
  });

  test.each([
    ['error', 'invalid_token'],
    ['error_description', 'says "no"'],
    ['scope', null],
  ])('has the parameter %s: %s', (name, value) => {
    const challenge = 'Bearer error=invalid_token, error_description="says \\"no\\""';
    expect(challengeParameter(challenge, name)).toBe(value);
  });

  test('that a hostile server made of a text without an end is rewritten at once', () => {
    const challenge = `Bearer "${'\\"'.repeat(29_000)}`;
    const startedAtMs = performance.now();
    expect(publicChallenge(challenge, URL_OF)).toBe(`Bearer resource_metadata="${METADATA}"`);
    // A text that is read again from each of its quotes takes more than 3 s.
    expect(performance.now() - startedAtMs).toBeLessThan(1_000);
  });

  test.each([
    ['Bearer resource_metadata="http://inner/', `Bearer resource_metadata="${METADATA}"`],
    ['Bearer a="b, resource_metadata=x', 'Bearer a="b, resource_metadata=x'],
  ])('whose last text has no end, %s, becomes %s', (challenge, rewritten) => {
    expect(publicChallenge(challenge, URL_OF)).toBe(rewritten);
  });

  test('longer than 4 KiB has no parameters, and names the public metadata only', () => {
    const challenge = `Bearer error=invalid_token, a="${'b'.repeat(4_096)}"`;
    expect(challengeParameter(challenge, 'error')).toBe(null);
    expect(publicChallenge(challenge, URL_OF)).toBe(`Bearer resource_metadata="${METADATA}"`);
  });

  test('that a hostile server made of one long name is read at once', () => {
    const challenge = `Bearer ${'a'.repeat(60_000)}, error=invalid_token`;
    const startedAtMs = performance.now();
    expect(challengeParameter(challenge, 'error')).toBe(null);
    // A name that is read again from each of its characters takes more than 10 s.
    expect(performance.now() - startedAtMs).toBeLessThan(2_000);
  });
});
