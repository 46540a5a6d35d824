import { expect, test } from 'vitest';
import { claimsNamedIn } from '../../../src/routes/settings.ts';
import { configOf, problemsOf, withRoute } from './problems-of.ts';

const JWT = 'identity: {source: jwt, issuer: "https://a", audiences: [a], jwks: {file: /keys}}\n';

test('a route without rules has none', () => {
  const [route] = configOf(withRoute()).routes;
  const none = { allow: null, deny: [], rules: null };
  expect(route).toMatchObject({ tools: none, prompts: none, resources: none });
});

test('rules name what they allow by their section, and claims have lists of values', () => {
  const config = configOf(
    withRoute(
      JWT,
      '    tools:\n' +
        '      allow: [search, "list_*"]\n' +
        '      deny: [Delete_*]\n' +
        '      rules:\n' +
        '        - {tools: [pay], scopes: [pay], claims: {groups: [ops, 7], admin: true}}\n' +
        '    resources: {rules: [{resources: ["file:///a/*"], claims: {/realm/roles: a}}]}\n',
    ),
  );
  expect(config.routes[0]?.tools).toMatchObject({
    allow: ['search', 'list_*'],
    deny: ['delete_*'],
    rules: [{ names: ['pay'], scopes: ['pay'], claims: { groups: ['ops', 7], admin: [true] } }],
  });
  expect(config.routes[0]?.resources.rules).toEqual([
    { names: ['file:///a/*'], scopes: [], claims: { '/realm/roles': ['a'] } },
  ]);
  expect(claimsNamedIn(config)).toEqual(['groups', 'admin', '/realm/roles']);
});

test('a rule has no names of another section', () => {
  const rules = '    prompts: {rules: [{prompts: [a], tools: [a], scopes: [a]}]}\n';
  expect(problemsOf(withRoute(JWT, rules))).toEqual([
    expect.stringMatching(/routes\[0\]\.prompts\.rules\[0\]\.tools: unknown key/),
  ]);
});
