import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { pathOf, tablesOf, textOf } from './markdown-tables.ts';
import { testTitlesIn } from './test-titles.ts';

const HEAD = ['rule', 'specification', 'tests'];
/** A test, as a rule names it: its title, and the file with it. */
const NAMED_TEST = /\[`([^`]+)`\]\(([^)]+)\)/g;

const pages = readdirSync(pathOf('docs/rules')).filter((name) => name.endsWith('.md'));

describe.each(pages)('docs/rules/%s', (page) => {
  const folder = dirname(pathOf(`docs/rules/${page}`));
  const tables = tablesOf(textOf(`docs/rules/${page}`));
  const rules = tables
    .flatMap(({ rows }) => rows)
    .map(([rule = '', source = '', tests = '']) => ({ rule, source, tests }));

  test('has tables of rules, and of nothing else', () => {
    expect(tables.length).toBeGreaterThan(0);
    for (const { head } of tables) expect(head).toEqual(HEAD);
  });

  test.each(rules)('$rule', ({ rule, source, tests }) => {
    expect(rule).not.toBe('');
    expect(source, 'where the specification says so, or a dash').not.toBe('');
    const named = [...tests.matchAll(NAMED_TEST)];
    expect(named, 'the tests that hold us to it').not.toEqual([]);
    for (const [, title, path = ''] of named) {
      const file = resolve(folder, path);
      expect(file).toSatisfy(existsSync);
      expect([...testTitlesIn(readFileSync(file, 'utf8'))]).toContain(title);
    }
  });
});
