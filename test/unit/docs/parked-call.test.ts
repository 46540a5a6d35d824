import { format, resolveConfig } from 'prettier';
import { describe, expect, test } from 'vitest';
import { TRANSITIONS } from '../../../src/calls/machine/table.ts';
import { codesIn, pathOf, textOf } from './markdown-tables.ts';
import { parkedCallDocument } from '../../../scripts/parked-call-document.ts';

const FILE = pathOf('docs/parked-call.md');

describe('docs/parked-call.md', () => {
  test('is made from the table as it is now', async () => {
    const style = (await resolveConfig(FILE)) ?? {};
    const formatted = await format(parkedCallDocument(), { ...style, parser: 'markdown' });
    await expect(formatted).toMatchFileSnapshot(FILE);
  });
});

test('every event that moves a call is described', () => {
  const headings = textOf('docs/parked-call.md').match(/^### `\w+`$/gm) ?? [];
  const described = new Set(headings.flatMap((heading) => codesIn(heading)));
  expect(TRANSITIONS.filter(({ on }) => !described.has(on))).toEqual([]);
});
