/** "From socket to socket" in docs/architecture.md: each file has the functions that are named beside it. */
import { expect, test } from 'vitest';
import { codesIn, textOf } from './markdown-tables.ts';

const [, rest = ''] = textOf('docs/architecture.md').split('\n## From socket to socket\n');
const [section = ''] = rest.split('\n## ');
const stations = [...section.matchAll(/`(src\/[^`]+)`\s+\(([^)]+)\)/g)];
const rows = stations.map(([, file = '', functions = '']) => ({ file, functions }));

test.each(rows)('from socket to socket, $file has $functions', ({ file, functions }) => {
  const text = textOf(file);
  for (const name of codesIn(functions)) expect(text).toMatch(wordOf(name));
});

/** Matches a name where it is no part of another one. */
function wordOf(name: string): RegExp {
  return new RegExp(`(?<![#\\w])${name}\\b`);
}
