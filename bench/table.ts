/** Tables of plain text: the first column to the left, the others to the right. */
import type { Spread } from './statistics.ts';

/** Rows of cells as lines; the first row is the head. */
export function table(rows: readonly (readonly string[])[]): string {
  const widths: number[] = [];
  for (const row of rows) {
    for (const [column, cell] of row.entries()) {
      widths[column] = Math.max(widths[column] ?? 0, cell.length);
    }
  }
  const line = (row: readonly string[]) =>
    row
      .map((cell, column) =>
        column === 0 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0),
      )
      .join('  ')
      .trimEnd();
  const [head = [], ...body] = rows;
  const rule = widths.map((width) => '-'.repeat(width)).join('  ');
  return [line(head), rule, ...body.map(line)].join('\n');
}

/** A spread as `median (least..most)`, or `-` where nothing was measured. */
export function spreadCell(spread: Spread | null, digits: number): string {
  if (spread === null) return '-';
  const [median, least, most] = [spread.median, spread.least, spread.most].map((value) =>
    value.toFixed(digits),
  );
  return `${median} (${least}..${most})`;
}
