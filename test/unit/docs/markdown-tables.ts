/** Tables of a Markdown document as rows of texts, so that what they promise can be compared with the code. */
import { readFileSync } from 'node:fs';

const ROOT = new URL('../../../', import.meta.url);

/** The absolute path of a file of this repository. */
export function pathOf(name: string): string {
  return new URL(name, ROOT).pathname;
}

export function textOf(name: string): string {
  return readFileSync(pathOf(name), 'utf8');
}

export interface MarkdownTable {
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

/** Reads the tables of a document in their order. Cells have no blanks around them. */
function tablesOf(markdown: string): MarkdownTable[] {
  const blocks = markdown.match(/(?:^\|.*\|\n)+/gm) ?? [];
  return blocks.map((block) => {
    const [head = [], , ...rows] = block.trimEnd().split('\n').map(cells);
    return { head, rows };
  });
}

/** The first table that begins with this head. Throws when there is none. */
export function tableWith(markdown: string, ...head: readonly string[]): MarkdownTable {
  const found = tablesOf(markdown).find((table) =>
    head.every((cell, at) => table.head[at] === cell),
  );
  if (found === undefined) throw new Error(`no table begins with ${head.join(', ')}`);
  return found;
}

/** The texts between backticks in a cell. */
export function codesIn(cell: string | undefined): string[] {
  return [...(cell ?? '').matchAll(/`([^`]+)`/g)].map(([, code = '']) => code);
}

function cells(line: string): string[] {
  return line
    .slice(1, -1)
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim().replaceAll('\\|', '|'));
}
