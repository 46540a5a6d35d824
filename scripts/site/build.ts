/**
 * Builds the documentation as a small static site: a page for each Markdown file, and one for each file that they link to.
 * Nothing in it comes from another host.
 */
import {
  cpSync,
  globSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { Marked, type Tokens } from 'marked';
import { gfmHeadingId } from 'marked-gfm-heading-id';

/** What the site has, in the order of its menu. */
const SECTIONS: readonly (readonly [string, readonly string[]])[] = [
  [
    'Start',
    [
      'README.md',
      'docs/install.md',
      'docs/features.md',
      'docs/clients.md',
      'docs/in-clients.md',
      'docs/legacy-clients.md',
      'docs/upgrading.md',
      'CHANGELOG.md',
    ],
  ],
  [
    'Run it',
    [
      'docs/configuration.md',
      'docs/operations.md',
      'docs/operate/*.md',
      'docs/servers.md',
      'docs/performance.md',
    ],
  ],
  ['What it promises', ['docs/rules/*.md', 'docs/security.md', 'docs/threats.md']],
  ['Dialects', ['docs/dialects/README.md', 'docs/dialects/*.md']],
  [
    'How it works',
    ['docs/architecture.md', 'docs/parked-call.md', 'docs/adr/README.md', 'docs/adr/*.md'],
  ],
  [
    'Work on it',
    [
      'CONTRIBUTING.md',
      'SECURITY.md',
      'docs/releasing.md',
      'bench/README.md',
      'deploy/helm/*/README.md',
    ],
  ],
];
const STYLE = 'style.css';
/** Files that a browser shows by itself. */
const IS_PICTURE = /\.(png|svg)$/;
const EXTERNAL = /^[a-z]+:/i;

interface Page {
  /** The path of the file in the repository. */
  readonly source: string;
  readonly title: string;
}

/** Builds the site of a repository in a folder, which is replaced. @returns the paths of its pages */
export function buildSite(root: string, out: string): string[] {
  rmSync(out, { recursive: true, force: true });
  const sections = SECTIONS.map(([name, patterns]) => ({ name, pages: pagesOf(root, patterns) }));
  const documents = sections.flatMap(({ pages }) => pages);
  const known = new Set(documents.map(({ source }) => source));
  const written: string[] = [];
  const write = (source: string, title: string, content: string) => {
    const path = pathOf(source);
    mkdirSync(dirname(join(out, path)), { recursive: true });
    const menu = sections.map(({ name, pages }) => menuOf(name, pages, path)).join('');
    writeFileSync(join(out, path), layout({ title, menu, content, path }));
    written.push(path);
  };
  /** Adds what a page links to, once. */
  const add = (target: string) => {
    if (known.has(target)) return;
    known.add(target);
    if (IS_PICTURE.test(target)) return cpSync(join(root, target), join(out, target));
    write(target, target, fileContent(root, target, add));
  };
  for (const { source, title } of documents) {
    const markdown = readFileSync(join(root, source), 'utf8');
    write(source, title, render(markdown, { root, source, add }));
  }
  cpSync(join(import.meta.dirname, STYLE), join(out, STYLE));
  return written;
}

function pagesOf(root: string, patterns: readonly string[]): Page[] {
  const sources = new Set(
    patterns.flatMap((pattern) => globSync(pattern, { cwd: root }).toSorted()),
  );
  return [...sources].map((source) => {
    const heading = /^# (.+)$/m.exec(readFileSync(join(root, source), 'utf8'))?.[1] ?? source;
    return { source, title: heading.replaceAll('`', '') };
  });
}

/** Where the page of a file is. */
function pathOf(source: string): string {
  if (source === 'README.md') return 'index.html';
  return source.endsWith('.md') ? source.replace(/\.md$/, '.html') : `${source}.html`;
}

interface Rendering {
  readonly root: string;
  readonly source: string;
  readonly add: (target: string) => void;
}

function render(markdown: string, { root, source, add }: Rendering): string {
  const resolve = (href: string) => {
    if (EXTERNAL.test(href) || href.startsWith('#')) return href;
    const [file = '', anchor] = href.split('#');
    const target = posix.normalize(posix.join(posix.dirname(source), file)).replace(/\/$/, '');
    add(target);
    const path = IS_PICTURE.test(target) ? target : pathOf(indexOf(root, target));
    const from = posix.dirname(pathOf(source));
    return posix.relative(from, path) + (anchor === undefined ? '' : `#${anchor}`);
  };
  const marked = new Marked(gfmHeadingId(), {
    walkTokens: (token) => {
      if (token.type === 'link' || token.type === 'image') {
        const link = token as Tokens.Link;
        link.href = resolve(link.href);
      }
      if (token.type === 'html') {
        token.text = String(token.text).replace(
          /\b(src|srcset|href)="([^"]+)"/g,
          (_found, name: string, href: string) => `${name}="${resolve(href)}"`,
        );
      }
    },
  });
  return marked
    .parse(markdown, { async: false })
    .replaceAll('<table>', '<div class="table"><table>')
    .replaceAll('</table>', '</table></div>');
}

/** A folder with a README is that. */
function indexOf(root: string, target: string): string {
  return globSync(`${target}/README.md`, { cwd: root })[0] ?? target;
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
    const href = posix.relative(posix.dirname(pathOf(target)), pathOf(file));
    return `<li><a href="${href}">${escape(name)}</a></li>`;
  });
  return `<h1>${escape(target)}</h1><ul>${items.join('')}</ul>`;
}

function menuOf(name: string, pages: readonly Page[], path: string): string {
  const items = pages.map(({ source, title }) => {
    const to = pathOf(source);
    const current = to === path ? ' aria-current="page"' : '';
    const href = posix.relative(posix.dirname(path), to);
    return `<li><a href="${href}"${current}>${escape(title)}</a></li>`;
  });
  const isOpen = pages.some(({ source }) => pathOf(source) === path) || name === 'Start';
  return `<details${isOpen ? ' open' : ''}><summary>${name}</summary><ul>${items.join('')}</ul></details>`;
}

function layout({
  title,
  menu,
  content,
  path,
}: {
  title: string;
  menu: string;
  content: string;
  path: string;
}): string {
  const style = posix.relative(posix.dirname(path), STYLE);
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escape(title)}</title>
<link rel="stylesheet" href="${style}">
</head>
<body>
<nav aria-label="Documents">${menu}</nav>
<main>
${content}
</main>
</body>
</html>
`;
}

function escape(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}
