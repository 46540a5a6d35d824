/** Tables of plain text and of Markdown. */
import type { Spread } from './statistics.ts';

/** Rows of cells as lines; the first row is the head. So many columns stand to the left, the others to the right. */
export function table(rows: readonly (readonly string[])[], leftColumns = 1): string {
  const widths = columnWidths(rows, 0);
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

/** The same as a table of Markdown, with columns as wide as Prettier makes them. */
export function markdownTable(rows: readonly (readonly string[])[]): string {
  const widths = columnWidths(rows, 3);
  const line = (row: readonly string[]) =>
    `| ${widths.map((width, column) => (row[column] ?? '').padEnd(width)).join(' | ')} |`;
  const [head = [], ...body] = rows;
  return [line(head), line(widths.map((width) => '-'.repeat(width))), ...body.map(line)].join('\n');
}

function columnWidths(rows: readonly (readonly string[])[], least: number): number[] {
  const widths: number[] = [];
  for (const row of rows) {
    for (const [column, cell] of row.entries()) {
      widths[column] = Math.max(widths[column] ?? least, cell.length);
    }
  }
  return widths;
}

/** A spread as `median (lower..upper)`, or `-` where nothing was measured. */
export function spreadCell(spread: Spread | null, digits: number): string {
  if (spread === null) return '-';
  const [median, lower, upper] = [spread.median, spread.lower, spread.upper].map((value) =>
    value.toFixed(digits),
  );
  return `${median} (${lower}..${upper})`;
}
