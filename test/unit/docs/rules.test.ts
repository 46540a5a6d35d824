import { globSync } from 'node:fs';
import { format, resolveConfig } from 'prettier';
import { describe, expect, test } from 'vitest';
import { readRules, sectionOf, sectionsOf, withRules } from '../../../scripts/rules.ts';
import { pathOf, textOf } from './markdown-tables.ts';

const files = globSync('test/**/*.test.ts', { cwd: pathOf('.') })
  .map((path) => path.replaceAll('\\', '/'))
  .filter((path) => path !== 'test/unit/docs/rules.test.ts')
  .toSorted()
  .map((path) => ({ path, text: textOf(path) }));
const rules = readRules(files);
const pages = globSync('docs/rules/*.md', { cwd: pathOf('.') }).toSorted();

describe('the pages of docs/rules', () => {
  test.each(pages)('%s lists the rules that the tests name', async (page) => {
    const style = (await resolveConfig(pathOf(page))) ?? {};
    const text = await format(withRules(textOf(page), rules), { ...style, parser: 'markdown' });
    await expect(text).toMatchFileSnapshot(pathOf(page));
  });

  test('have a section for each rule', () => {
    const sections = new Set(pages.flatMap((page) => sectionsOf(textOf(page))));
    expect(rules.filter((rule) => !sections.has(sectionOf(rule)))).toEqual([]);
  });
});

const file = (text: string) => ({ path: 'test/a.test.ts', text });

describe('a rule comment', () => {
  test('gives a rule its text, its specification and its home', () => {
    const home = [
      '  // Rule forms-1 (elicitation, "Form"): A form',
      '  // is shown.',
      "  test('shown', () => {});",
    ].join('\n');
    const other = { path: 'test/b.test.ts', text: "// Rules forms-1, forms-2.\ntest('b');" };
    const second = "// Rule forms-2: Shown once.\n// Rule forms-1.\ndescribe('c');";
    expect(readRules([file(home), other, { path: 'test/c.test.ts', text: second }])).toEqual([
      {
        key: 'forms-1',
        text: 'A form is shown.',
        specification: 'elicitation, "Form"',
        home: 'test/a.test.ts',
      },
      {
        key: 'forms-2',
        text: 'Shown once.',
        specification: null,
        home: 'test/c.test.ts',
      },
    ]);
  });

  test.each([
    ['is malformed', '// Rule forms: Shown.\ntest();', 'malformed rule comment'],
    ['has no test below', '// Rule forms-1: Shown.\nconst a = 1;', 'expected a test'],
    ['refers to nothing', '// Rule forms-1.\ntest();', 'rule forms-1 has no text'],
    ['is long', `// Rule forms-1: ${'a '.repeat(41)}\ntest();`, 'rule forms-1 has 41 words'],
    ['gives a text twice', '// Rule a-1: A.\n// Rule a-1: B.\ntest();', 'duplicate rule a-1'],
  ])('that %s is an error', (_, text, problem) => {
    expect(() => readRules([file(text)])).toThrow(problem);
  });
});

test('a page keeps its headings and prose, and lists rules by number', () => {
  const rule = (key: string) => ({
    key,
    text: 'Text.',
    specification: null,
    home: 'test/a/x.test.ts',
  });
  const page =
    '# T\n\n## Forms\n\nProse.\n\n<!-- rules forms -->\n\n- old\n\n## URLs\n\n<!-- rules urls -->\n';
  const made = withRules(page, [rule('forms-10'), rule('forms-2'), rule('urls-1')]);
  expect(made).toBe(
    '# T\n\n## Forms\n\nProse.\n\n<!-- rules forms -->\n\n' +
      '- **[forms-2](../../test/a/x.test.ts)** Text.\n- **[forms-10](../../test/a/x.test.ts)** Text.\n\n' +
      '## URLs\n\n<!-- rules urls -->\n\n- **[urls-1](../../test/a/x.test.ts)** Text.\n',
  );
  expect(withRules(made, [rule('forms-2'), rule('urls-1')])).not.toContain('forms-10');
});
