import { readdirSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { pathOf, textOf } from './markdown-tables.ts';

const FILE = /^(\d{4})-[a-z0-9-]+\.md$/;
const pages = readdirSync(pathOf('docs/adr')).filter((name) => name !== 'README.md');

describe('the decisions of docs/adr', () => {
  test('are numbered without a gap', () => {
    const numbers = pages.map((name) => Number(FILE.exec(name)?.[1]));
    expect(numbers.toSorted((one, other) => one - other)).toEqual(pages.map((_, at) => at + 1));
  });

  test.each(pages)('%s has the form of a decision', (name) => {
    const text = textOf(`docs/adr/${name}`);
    const number = Number(FILE.exec(name)?.[1]);
    expect(text).toMatch(new RegExp(`^# ${number}\\. \\S`));
    expect(text).toMatch(/\n\nStatus: (?:accepted|superseded by \[\d+\]\([^)]+\))\n\n/);
    const headings = [...text.matchAll(/^## (.+)$/gm)].map(([, heading]) => heading);
    expect(headings).toEqual(['Context', 'Decision', 'Consequences']);
  });

  test('are listed in docs/architecture.md by their titles, in their order', () => {
    const listed = textOf('docs/architecture.md').matchAll(/^(\d+\. )\[(.+)\]\(adr\/(.+)\)$/gm);
    const expected = pages.map((name) => {
      const [title = ''] = textOf(`docs/adr/${name}`).split('\n');
      return [title.replace('# ', ''), name];
    });
    expect([...listed].map(([, number, title, file]) => [`${number}${title}`, file])).toEqual(
      expected,
    );
  });
});
