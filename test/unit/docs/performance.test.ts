import { expect, test } from 'vitest';
import { PARTS } from '../../../bench/parts.ts';
import { tableWith, textOf } from './markdown-tables.ts';

test('docs/performance.md lists the goals of the benchmark', () => {
  const { rows } = tableWith(textOf('docs/performance.md'), 'figure', 'against', 'goal');
  const goals = PARTS.flatMap(({ unmeasured }) => unmeasured);
  expect(rows).toEqual(goals.map(({ what, against, goal }) => [what, against, goal]));
});
