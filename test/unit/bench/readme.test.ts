/** The README of the benchmark tells of the parts that there are, and of their goals. */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { PARTS } from '../../../bench/parts.ts';

const README = readFileSync(new URL('../../../bench/README.md', import.meta.url), 'utf8');
const GOALS = README.slice(README.indexOf('\n## Goals\n'));

test('its table has the goals of all parts, in their order', () => {
  const rows = [...GOALS.matchAll(/^\| (.*) \|$/gm)].map(([, cells = '']) =>
    cells.split('|').map((cell) => cell.trim()),
  );
  const goals = PARTS.flatMap(({ unmeasured }) => unmeasured);
  expect(rows.slice(2)).toEqual(goals.map(({ what, against, goal }) => [what, against, goal]));
});

test('it lists each part, and says how it is measured', () => {
  const list = /^The parts are [^.]*\./m.exec(README)?.[0] ?? '';
  const names = PARTS.map(({ name }) => name);
  expect([...list.matchAll(/`(\w+)`/g)].map(([, name]) => name)).toEqual(names);
  expect(names.filter((name) => !README.includes(`** (\`${name}\`)`))).toEqual([]);
});
