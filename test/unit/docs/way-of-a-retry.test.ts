import { expect, test } from 'vitest';
import { codesIn, tableWith, textOf } from './markdown-tables.ts';

const { rows } = tableWith(textOf('docs/architecture.md'), 'at', 'file', 'functions', 'does');

test.each(rows)('on the way of a retry, %s %s has %s', (_at, file = '', functions = '') => {
  const [path = ''] = codesIn(file);
  const text = textOf(path);
  for (const name of codesIn(functions)) expect(text).toMatch(wordOf(name));
});

/** Matches a name where it is no part of another one. */
function wordOf(name: string): RegExp {
  return new RegExp(`(?<![#\\w])${name}\\b`);
}
