/** What a part prints: a title, notes and tables, as plain text or as Markdown. */
import { markdownTable, table } from './table.ts';

export interface Section {
  readonly title: string;
  /** What a reader must know before the tables, one sentence or more in each. */
  readonly notes: readonly string[];
  readonly tables: readonly Table[];
  /** What is concluded from the tables. */
  readonly after?: readonly string[];
}

export interface Table {
  readonly caption?: string;
  /** The first row is the head. */
  readonly rows: readonly (readonly string[])[];
  /** How many columns are aligned to the left in plain text; one if it is left out. */
  readonly leftColumns?: number;
}

const INDENT = '   ';

/** Formats a section for a terminal. */
export function sectionText({ title, notes, tables, after = [] }: Section, number: number): string {
  const head = [`${number}. ${title}`, ...notes.map((note) => `${INDENT}${note}`)].join('\n');
  const blocks = tables.map(({ caption, rows, leftColumns }) =>
    [...(caption === undefined ? [] : [caption]), table(rows, leftColumns)].join('\n'),
  );
  const last = after.length === 0 ? [] : [after.map((line) => `${INDENT}${line}`).join('\n')];
  return [head, ...blocks, ...last].join('\n\n');
}

/** Formats a section for a page of documentation. */
export function sectionMarkdown({ title, notes, tables, after = [] }: Section): string {
  const blocks = tables.flatMap(({ caption, rows }) => [
    ...(caption === undefined ? [] : [`${capital(caption)}:`]),
    markdownTable(rows),
  ]);
  const paragraph = (lines: readonly string[]) => (lines.length === 0 ? [] : [lines.join(' ')]);
  return [`### ${capital(title)}`, ...paragraph(notes), ...blocks, ...paragraph(after)].join(
    '\n\n',
  );
}

function capital(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
}
