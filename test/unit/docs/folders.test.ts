import { globSync } from 'node:fs';
import { sep } from 'node:path';
import { cruise, type ICruiseResult } from 'dependency-cruiser';
import { describe, expect, test } from 'vitest';
import { pathOf, tableWith, textOf } from './markdown-tables.ts';

const SOURCE = pathOf('src');
const documented = tableWith(textOf('docs/architecture.md'), 'folder', 'holds', 'imports').rows.map(
  ([cell = '', , imports = '']) => ({
    folder: cell.replaceAll('`', '').replace('src/', ''),
    imports: imports.split(', ').filter((name) => name !== ''),
  }),
);

const { output } = await cruise([SOURCE], {
  tsPreCompilationDeps: true,
  doNotFollow: { path: 'node_modules' },
});
const { modules } = output as ICruiseResult;

describe('the folders of docs/architecture.md', () => {
  test('are those of the source', () => {
    const folders = globSync('*/', { cwd: SOURCE }).map((name) => name.replace(sep, ''));
    expect(documented.map(({ folder }) => folder).sort()).toEqual(folders.sort());
  });

  test.each(documented)(
    '$folder imports what it says, all of it and nothing else',
    ({ folder, imports }) => {
      expect(foldersImportedBy(folder)).toEqual([...imports].sort());
    },
  );

  test.each(documented)(
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
    const order = documented.map(({ folder }) => folder);
    for (const { folder, imports } of documented) {
      for (const other of imports) expect(order.slice(0, order.indexOf(folder))).toContain(other);
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
