import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { problemsOf, withRoute } from './problems-of.ts';

const SECRET = 'hunter2hunter2';

describe('a secret is in no message', () => {
  test.each([
    ['a key that is too short', withRoute(`seal: {keys: [{kid: a, key: ${SECRET}}]}\n`)],
    ['a key in place of its name', withRoute(`seal: {keys: [{kid: "${SECRET}!", key: a}]}\n`)],
    ['a key in place of a map', withRoute(`seal: {keys: [${SECRET}]}\n`)],
    ['a key in place of the list', withRoute(`seal: {keys: ${SECRET}}\n`)],
    ['a key as the key of a map', withRoute(`seal: {keys: [{${SECRET}: 1}]}\n`)],
    ['a key under a tag', withRoute(`seal: {keys: [{kid: a, key: !${SECRET} x}]}\n`)],
    ['a key that looks like an alias', withRoute(`seal: {keys: [{kid: a, key: *${SECRET}}]}\n`)],
    ['a key in broken YAML', withRoute(`seal: {keys: [{kid: a, key: "${SECRET}}]}\n`)],
    ['a key with two colons', withRoute(`seal:\n  key: a: ${SECRET}\n`)],
    [
      'a header with a newline',
      `routes: [{upstream: {url: "http://a", headers: {A: "${SECRET}\\n"}}}]`,
    ],
    ['a header as a list', `routes: [{upstream: {url: "http://a", headers: {A: [${SECRET}]}}}]`],
    [
      'a header in its own name',
      `routes: [{upstream: {url: "http://a", headers: {"A: ${SECRET}": b}}}]`,
    ],
    ['headers as text', `routes: [{upstream: {url: "http://a", headers: "A: ${SECRET}"}}]`],
    ['a variable of a server', `routes: [{upstream: {command: a, env: {A: [${SECRET}]}}}]`],
    ['variables of a server as text', `routes: [{upstream: {command: a, env: "${SECRET}"}}]`],
    [
      'a variable of a server in its own name',
      `routes: [{upstream: {command: a, env: {"A=${SECRET}": b}}}]`,
    ],
    ['a password in a URL', `routes: [{upstream: {url: "http://user:${SECRET}@a/"}}]`],
    ['a password with slashes', `routes: [{upstream: {url: "ftp://user:a/b?${SECRET}/@a/"}}]`],
    ['a key in the query of a URL', `routes: [{upstream: {url: "http://a/?k=${SECRET}#b"}}]`],
    ['a password in the URL of Redis', withRoute(`redis: {url: "http://a:${SECRET}@r"}\n`)],
    ['a password of Sentinels', withRoute(`redis: {sentinel: {password: [${SECRET}]}}\n`)],
    ['a variable in the wrong place', withRoute('log: {level: "${TOKEN}"}\n')],
    ['a variable inside a text', withRoute('seal: {audience: "a ${TOKEN}"}\n')],
    ['the content of a file', withRoute('seal: {keys: [{kid: a, key: "file:/key"}]}\n')],
  ])('%s', (_, text) => {
    const world = { env: { TOKEN: SECRET }, files: { '/key': SECRET } };
    const problems = problemsOf(text, world);
    expect(problems).not.toEqual([]);
    expect(problems.join('\n')).not.toContain(SECRET);
  });
});

test('instead of the value of a variable, its reference is shown', () => {
  const problems = problemsOf(withRoute('log: {level: "${TOKEN}"}\n'), { env: { TOKEN: SECRET } });
  expect(problems[0]).toMatch(/got the value of "\$\{TOKEN\}"$/);
});

test('whatever stands in the place of keys or headers, its texts are not shown', () => {
  const text = fc.constantFrom('a', 'b').map((end) => `${SECRET}${end}`);
  const { value } = fc.letrec<{ value: unknown }>((tie) => ({
    value: fc.oneof(
      { depthSize: 'small' },
      text,
      fc.array(tie('value'), { maxLength: 3 }),
      fc.dictionary(fc.oneof(text, fc.constantFrom('kid', 'key', 'A')), tie('value'), {
        maxKeys: 3,
      }),
    ),
  }));
  fc.assert(
    fc.property(value, value, (keys, headers) => {
      const config = {
        routes: [{ upstream: { url: 'nope', headers } }],
        seal: { keys },
      };
      const shown = problemsOf(stringify(config, { aliasDuplicateObjects: false })).join('\n');
      // A header's name is not a secret once it has the form of one, but a value never shows.
      expect(shown.replaceAll(/headers\.[\w.[\]-]+/g, '')).not.toContain(SECRET);
    }),
  );
});
