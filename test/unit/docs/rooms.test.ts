import { globSync, readFileSync } from 'node:fs';
import { dirname, relative, resolve, sep } from 'node:path';
import { describe, expect, test } from 'vitest';
import { pathOf, tableWith, textOf } from './markdown-tables.ts';

const SOURCE = pathOf('src');
const rooms = tableWith(textOf('docs/architecture.md'), 'folder', 'holds', 'imports').rows.map(
  ([folder = '', , imports = '']) => ({
    room: folder.replaceAll('`', '').replace('src/', ''),
    imports: imports.split(', ').filter((name) => name !== ''),
  }),
);

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

function roomsImportedBy(room: string): string[] {
  const found = new Set<string>();
  for (const file of globSync(`${room}/**/*.ts`, { cwd: SOURCE })) {
    const path = resolve(SOURCE, file);
    const imports = readFileSync(path, 'utf8').matchAll(
      /^(?:import|export|\}) .*?from '(\.[^']+)';$/gm,
    );
    for (const [, target = ''] of imports) {
      const [other = '', ...inside] = relative(SOURCE, resolve(dirname(path), target)).split(sep);
      if (inside.length > 0 && other !== room) found.add(other);
    }
  }
  return [...found].sort();
}
