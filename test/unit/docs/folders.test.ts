import { globSync } from 'node:fs';
import { sep } from 'node:path';
import { cruise, type ICruiseResult } from 'dependency-cruiser';
import { describe, expect, test } from 'vitest';
import { pathOf, tableWith, textOf } from './markdown-tables.ts';

const SOURCE = pathOf('src');
const documented = tableWith(textOf('docs/architecture.md'), 'folder', 'holds').rows.map(
  ([cell = '']) => cell.replaceAll('`', '').replace('src/', ''),
);
const { FOLDERS } = (await import(pathOf('.dependency-cruiser.js'))) as {
  FOLDERS: Readonly<Record<string, readonly string[]>>;
};
const rules = Object.entries(FOLDERS).map(([folder, imports]) => ({ folder, imports }));

const { output } = await cruise([SOURCE], {
  tsPreCompilationDeps: true,
  doNotFollow: { path: 'node_modules' },
});
const { modules } = output as ICruiseResult;

describe('the folders of docs/architecture.md', () => {
  test('are those of the source', () => {
    const folders = globSync('*/', { cwd: SOURCE }).map((name) => name.replace(sep, ''));
    expect([...documented].sort()).toEqual(folders.sort());
  });

  test('are those of the import rules, in the same order', () => {
    expect(Object.keys(FOLDERS)).toEqual(documented);
  });

  test.each(rules)(
    '$folder imports what the import rules allow it, all of it and nothing else',
    ({ folder, imports }) => {
      expect(foldersImportedBy(folder)).toEqual([...imports].sort());
    },
  );

  test.each(rules)(
    '$folder has a README: what it decides, assumes and refuses, on one screen',
    ({ folder }) => {
      const text = textOf(`src/${folder}/README.md`);
      expect(text.match(/^\*\*\w+\.\*\*/gm)).toEqual([
        '**Decides.**',
        '**Assumes.**',
        '**Refuses.**',
      ]);
      expect(text.split('\n').length).toBeLessThanOrEqual(40);
    },
  );

  test('import one way: none imports a folder that comes after it', () => {
    for (const { folder, imports } of rules) {
      const before = documented.slice(0, documented.indexOf(folder));
      for (const other of imports) expect(before).toContain(other);
    }
  });
});

function foldersImportedBy(folder: string): (string | null)[] {
  const targets = modules
    .filter(({ source }) => folderOf(source) === folder)
    .flatMap(({ dependencies }) => dependencies.map(({ resolved }) => folderOf(resolved)));
  return [...new Set(targets)].filter((other) => other !== null && other !== folder).sort();
}

/** The folder of `src` that holds a file; `null` for packages, and for files that lie beside the folders. */
function folderOf(file: string): string | null {
  const [, folder] = /(?:^|\/)src\/([^/]+)\/[^]+$/.exec(file) ?? [];
  return file.includes('node_modules/') || folder === undefined ? null : folder;
}
