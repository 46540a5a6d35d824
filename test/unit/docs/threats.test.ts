import { describe, expect, test } from 'vitest';
import { DEFENCES } from '../../defences/defences.ts';
import { textOf } from './markdown-tables.ts';

interface Row {
  readonly id: string;
  /** The files of the defence. */
  readonly sources: readonly string[];
  readonly tests: readonly { readonly title: string; readonly file: string }[];
}

const LINK = /\[(?<text>(?:"[^]+?")|[^\]]+)\]\(\.\.\/(?<file>[^)]+)\)/g;

const rows: Row[] = textOf('docs/threats.md')
  .split(/^- (?=\*\*[ST]\d+\*\* )/m)
  .slice(1)
  .map((row) => {
    const links = [...row.split(/^#/m, 1)[0]!.matchAll(LINK)].map(({ groups }) => ({
      title: String(groups?.['text']).replace(/\s+/g, ' '),
      file: String(groups?.['file']),
    }));
    return {
      id: /\w+/.exec(row)?.[0] ?? '',
      sources: links.map(({ file }) => file).filter((file) => !file.startsWith('test/')),
      tests: links
        .filter(({ title, file }) => file.startsWith('test/') && title.startsWith('"'))
        .map(({ title, file }) => ({ title: title.slice(1, -1), file })),
    };
  });

describe('docs/threats.md', () => {
  test('has each threat once', () => {
    const idsOf = (letter: string) =>
      rows.filter(({ id }) => id.startsWith(letter)).map(({ id }) => Number(id.slice(1)));
    for (const letter of ['S', 'T']) {
      const numbers = idsOf(letter);
      expect(numbers).toEqual([...new Set(numbers)]);
    }
    expect(rows.length).toBeGreaterThan(40);
  });

  test.each(rows)('names the source of $id, and tests that there are', ({ sources, tests }) => {
    expect(sources).not.toEqual([]);
    expect(tests).not.toEqual([]);
    const missing = tests.filter(({ title, file }) => !hasTitle(textOf(file), title));
    expect(missing).toEqual([]);
  });

  test.each(DEFENCES)(
    'names the test of $threat, and the code without which it fails: $title',
    ({ threat, file, code, test: path, title }) => {
      expect(textOf(file).split(code)).toHaveLength(2);
      const row = rows.find(({ id }) => id === threat);
      expect(row?.tests).toContainEqual({ title, file: path });
      expect(row?.sources).toContain(file);
    },
  );
});

function hasTitle(text: string, title: string): boolean {
  return text.includes(title) || text.includes(title.replaceAll("'", "\\'"));
}
