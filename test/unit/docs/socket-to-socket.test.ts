import { expect, test } from 'vitest';
import { codesIn, tablesWith, textOf } from './markdown-tables.ts';

const tables = tablesWith(textOf('docs/architecture.md'), 'at', 'file', 'functions', 'does');
const rows = tables.flatMap((table) => table.rows);

test.each(rows)('from socket to socket, %s %s has %s', (_at, file = '', functions = '') => {
  const [path = ''] = codesIn(file);
  const text = textOf(path);
  for (const name of codesIn(functions)) expect(text).toMatch(wordOf(name));
});

/** Matches a name where it is no part of another one. */
function wordOf(name: string): RegExp {
  return new RegExp(`(?<![#\\w])${name}\\b`);
}
