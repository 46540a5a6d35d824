import { globSync } from 'node:fs';
import { expect, test } from 'vitest';
import { pathOf, textOf } from './markdown-tables.ts';

/** What `npm run changeset:version` reads: the package, the kind of change, and a text for users. */
const CHANGESET = /^---\n["']mrtr-gateway["']: (?:patch|minor|major)\n---\n\n\S/;

test('each changeset says what kind of change it is, and describes it', () => {
  const files = globSync('.changeset/*.md', { cwd: pathOf('.') });
  expect(files.filter((file) => !CHANGESET.test(textOf(file)))).toEqual([]);
});

test('the changelog begins as the tool that adds to it expects', () => {
  expect(textOf('CHANGELOG.md')).toMatch(/^# Changelog\n\n## \d+\.\d+\.\d+\n/);
});
