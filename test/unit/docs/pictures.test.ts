/** The pictures that scripts draw: they are what their sources say, and a line that cannot be drawn is an error. */
import { statSync } from 'node:fs';
import { expect, test } from 'vitest';
import { drawDiagram } from '../../../scripts/pictures/diagram.ts';
import { drawTerminal } from '../../../scripts/pictures/terminal.ts';
import { pathOf, textOf } from './markdown-tables.ts';

test('the picture of the README is drawn from its source as it is now', async () => {
  const drawn = drawDiagram('How a call is parked', textOf('docs/images/how-it-works.mmd'));
  await expect(drawn).toMatchFileSnapshot(pathOf('docs/images/how-it-works.svg'));
});

test('the picture of the demo is small, and loads nothing', () => {
  expect(statSync(pathOf('docs/images/demo.svg')).size).toBeLessThan(60 * 1024);
  expect(textOf('docs/images/demo.svg')).not.toMatch(/href|url\(|@import|<script/);
});

test('a diagram of another kind, or with a line that cannot be drawn, is an error', () => {
  expect(() => drawDiagram('', 'pie')).toThrow('of a kind that cannot be drawn: "pie"');
  expect(() => drawDiagram('', 'sequenceDiagram\nloop forever')).toThrow('"loop forever"');
  expect(() => drawDiagram('', 'stateDiagram-v2\nstate a')).toThrow('"state a"');
});

test('a terminal is drawn with its colours, and what it says is escaped', () => {
  const drawn = drawTerminal('title', '\u001b[36mclient\u001b[39m <b> \u001b[2mdim\u001b[22m');
  expect(drawn).toContain('class="cyan">client</text>');
  expect(drawn).toContain('>&lt;b&gt;</text>');
  expect(drawn).toContain('class="dim">dim</text>');
  expect(() => drawTerminal('title', '\u001b[44mblue')).toThrow('cannot be drawn: 44');
});

test('a line that is too long for a terminal goes on in the next one', () => {
  const drawn = drawTerminal('title', 'x'.repeat(250));
  const rows = [...drawn.matchAll(/>(x+)</g)].map(([, row = '']) => row.length);
  expect(rows).toEqual([104, 104, 42]);
});
