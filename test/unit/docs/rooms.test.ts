import { globSync } from 'node:fs';
import { sep } from 'node:path';
import { cruise, type ICruiseResult } from 'dependency-cruiser';
import { describe, expect, test } from 'vitest';
import { pathOf, tableWith, textOf } from './markdown-tables.ts';

const SOURCE = pathOf('src');
const rooms = tableWith(textOf('docs/architecture.md'), 'folder', 'holds', 'imports').rows.map(
  ([folder = '', , imports = '']) => ({
    room: folder.replaceAll('`', '').replace('src/', ''),
    imports: imports.split(', ').filter((name) => name !== ''),
  }),
);

const { output } = await cruise([SOURCE], {
  tsPreCompilationDeps: true,
  doNotFollow: { path: 'node_modules' },
});
const { modules } = output as ICruiseResult;

describe('the rooms of docs/architecture.md', () => {
  test('are those of the source', () => {
    const folders = globSync('*/', { cwd: SOURCE }).map((name) => name.replace(sep, ''));
    expect(rooms.map(({ room }) => room).sort()).toEqual(folders.sort());
  });

  test.each(rooms)(
    '$room imports what it says, all of it and nothing else',
    ({ room, imports }) => {
      expect(roomsImportedBy(room)).toEqual([...imports].sort());
    },
  );

  test('import one way: none imports a room that comes after it', () => {
    const order = rooms.map(({ room }) => room);
    for (const { room, imports } of rooms) {
      for (const other of imports) expect(order.slice(0, order.indexOf(room))).toContain(other);
    }
  });
});

function roomsImportedBy(room: string): (string | null)[] {
  const targets = modules
    .filter(({ source }) => roomOf(source) === room)
    .flatMap(({ dependencies }) => dependencies.map(({ resolved }) => roomOf(resolved)));
  return [...new Set(targets)].filter((other) => other !== null && other !== room).sort();
}

/** The folder of `src` that holds a file; `null` for packages, and for files that lie beside the folders. */
function roomOf(file: string): string | null {
  const [, room] = /(?:^|\/)src\/([^/]+)\/[^]+$/.exec(file) ?? [];
  return file.includes('node_modules/') || room === undefined ? null : room;
}
