import { format, resolveConfig } from 'prettier';
import { describe, expect, test } from 'vitest';
import { TIMERS } from '../../../src/calls/machine/states.ts';
import { TRANSITIONS } from '../../../src/calls/machine/table.ts';
import { codesIn, pathOf, tableWith, textOf } from './markdown-tables.ts';
import { parkedCallDocument } from '../../../scripts/parked-call-document.ts';

const FILE = pathOf('docs/parked-call.md');

describe('docs/parked-call.md', () => {
  test('is made from the table as it is now', async () => {
    const style = (await resolveConfig(FILE)) ?? {};
    const formatted = await format(parkedCallDocument(), { ...style, parser: 'markdown' });
    await expect(formatted).toMatchFileSnapshot(FILE);
  });

  test('has every state and every rule, each rule once', () => {
    const text = textOf('docs/parked-call.md');
    const states = tableWith(text, 'State').rows.flatMap(([state]) => codesIn(state));
    expect(states.toSorted()).toEqual(Object.keys(TIMERS).toSorted());
    const rules = tableWith(text, 'Rule').rows.map(([rule]) => rule);
    expect(rules).toEqual(TRANSITIONS.map(({ rule }) => rule));
    expect(new Set(rules).size).toBe(rules.length);
  });
});

test('every event that moves a call is described', () => {
  const { rows } = tableWith(textOf('docs/parked-call.md'), 'Event');
  const described = new Set(rows.flatMap(([event]) => codesIn(event)));
  expect(TRANSITIONS.filter(({ on }) => !described.has(on))).toEqual([]);
});
