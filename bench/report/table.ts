/** Tables of plain text. */
import type { Spread } from './statistics.ts';

/** Rows of cells as lines; the first row is the head. So many columns stand to the left, the others to the right. */
export function table(rows: readonly (readonly string[])[], leftColumns = 1): string {
  const widths: number[] = [];
  for (const row of rows) {
    for (const [column, cell] of row.entries()) {
      widths[column] = Math.max(widths[column] ?? 0, cell.length);
    }
  }
  const line = (row: readonly string[]) =>
    row
      .map((cell, column) =>
        column < leftColumns
          ? cell.padEnd(widths[column] ?? 0)
          : cell.padStart(widths[column] ?? 0),
      )
      .join('  ')
      .trimEnd();
  const [head = [], ...body] = rows;
  const rule = widths.map((width) => '-'.repeat(width)).join('  ');
  return [line(head), rule, ...body.map(line)].join('\n');
}

/** A spread as `median (lower..upper)`, or `-` where nothing was measured. */
export function spreadCell(spread: Spread | null, digits: number): string {
  if (spread === null) return '-';
  const [median, lower, upper] = [spread.median, spread.lower, spread.upper].map((value) =>
    value.toFixed(digits),
  );
  return `${median} (${lower}..${upper})`;
}
