import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { pathOf } from './markdown-tables.ts';

const pages = globSync(['*.md', 'docs/**/*.md', 'src/**/*.md', 'bench/*.md', '.github/**/*.md'], {
  cwd: pathOf('.'),
});
/** A relative link: its path, and its anchor if there is one. */
const LINK = /\]\((?![a-z]+:)([^)#\s]*)(?:#([^)\s]+))?\)/g;

describe('the links between documents', () => {
  test.each(pages)('of %s lead somewhere', (page) => {
    const path = pathOf(page);
    const links = [...withoutCode(readFileSync(path, 'utf8')).matchAll(LINK)];
    const dead = links.filter(([, target = '', anchor]) => {
      const file = target === '' ? path : resolve(dirname(path), target);
      return !existsSync(file) || (anchor !== undefined && !anchorsOf(file).includes(anchor));
    });
    expect(dead.map(([link]) => link)).toEqual([]);
  });
});

/** The anchors that a page gets from its headings. */
function anchorsOf(file: string): string[] {
  const headings = readFileSync(file, 'utf8').matchAll(/^#+ (.+)$/gm);
  return [...headings].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, '')
      .replace(/\s/g, '-'),
  );
}

function withoutCode(markdown: string): string {
  return markdown.replace(/```[^]*?```/g, '').replace(/`[^`\n]*`/g, '`code`');
}
