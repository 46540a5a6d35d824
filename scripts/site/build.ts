/**
 * Builds the documentation as a small static site: a page for each Markdown file, and one for each file that they link to.
 * Nothing in it comes from another host, and its search needs no server.
 */
import {
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { build } from 'rolldown';
import { entriesOf } from './entries.ts';
import { escape, hrefFrom, pathOf } from './html.ts';
import { layout, SCRIPT, STYLE } from './layout.ts';
import { pagesOf, readMenu } from './menu.ts';
import { IS_PICTURE, render, type Heading } from './render.ts';
import type { Entry } from './search.ts';

const INDEX = 'search-index.js';

export interface Site {
  /** The paths of its pages. */
  readonly pages: readonly string[];
  /** What its search finds. */
  readonly entries: readonly Entry[];
}

/** Builds the site of a repository in a folder, which is replaced. */
export async function buildSite(root: string, out: string): Promise<Site> {
  rmSync(out, { recursive: true, force: true });
  const menu = readMenu(root);
  const documents = pagesOf(menu);
  const known = new Set(documents.map(({ source }) => source));
  const written: string[] = [];
  const write = (source: string, title: string, content: string, headings: readonly Heading[]) => {
    const path = pathOf(source);
    mkdirSync(dirname(join(out, path)), { recursive: true });
    writeFileSync(join(out, path), layout({ title, menu, content, path, headings }));
    written.push(path);
  };
  /** Adds what a page links to, once. */
  const add = (target: string) => {
    if (known.has(target)) return;
    known.add(target);
    if (IS_PICTURE.test(target)) return cpSync(join(root, target), join(out, target));
    write(target, target, fileContent(root, target, add), []);
  };
  const rendered = documents.map((document) => {
    const markdown = readFileSync(join(root, document.source), 'utf8');
    const page = render(markdown, { root, source: document.source, add });
    write(document.source, document.title, page.html, page.headings);
    return { ...document, ...page };
  });
  const asked = rendered.flatMap((page) => page.asked);
  const entries = rendered.flatMap(({ source, title, weight, html }) =>
    entriesOf({ path: pathOf(source), title, weight, html, asked }),
  );
  writeFileSync(join(out, INDEX), `globalThis.searchIndex = ${JSON.stringify(entries)};\n`);
  writeFileSync(join(out, SCRIPT), await script());
  cpSync(join(import.meta.dirname, STYLE), join(out, STYLE));
  return { pages: written, entries };
}

/** The script of the pages, with the library that it uses and the license of that. */
async function script(): Promise<string> {
  const license = readFileSync(
    new URL('../../LICENSE.txt', import.meta.resolve('minisearch')),
    'utf8',
  );
  const { output } = await build({
    input: join(import.meta.dirname, 'page/page.ts'),
    platform: 'browser',
    logLevel: 'warn',
    write: false,
    output: { format: 'iife', minify: true },
  });
  return `/*! Contains minisearch:\n${license}*/\n${output[0].code}`;
}

/** What a page shows of a file that is no document: its text, or what a folder has. */
function fileContent(root: string, target: string, add: (target: string) => void): string {
  if (!statSync(join(root, target)).isDirectory()) {
    return `<h1>${escape(target)}</h1><pre><code>${escape(readFileSync(join(root, target), 'utf8'))}</code></pre>`;
  }
  const entries = readdirSync(join(root, target), { withFileTypes: true }).filter((entry) =>
    entry.isFile(),
  );
  const items = entries.map(({ name }) => {
    const file = posix.join(target, name);
    add(file);
    return `<li><a href="${hrefFrom(pathOf(target), pathOf(file))}">${escape(name)}</a></li>`;
  });
  return `<h1>${escape(target)}</h1><ul>${items.join('')}</ul>`;
}
