/** The frame around the content of a page: its head, the menu, and the contents of the page. */
import { escape, hrefFrom, pathOf } from './html.ts';
import type { Group } from './menu.ts';
import type { Heading } from './render.ts';

export const STYLE = 'site.css';
export const SCRIPT = 'site.js';
const NAME = 'mrtr-gateway';
/** A page with fewer headings is short, or says one thing. */
const MIN_HEADINGS = 3;

export function layout({
  title,
  path,
  menu,
  headings,
  content,
}: {
  title: string;
  path: string;
  menu: readonly Group[];
  headings: readonly Heading[];
  content: string;
}): string {
  const href = (target: string) => escape(hrefFrom(path, target));
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escape(title === NAME ? title : `${title} - ${NAME}`)}</title>
<link rel="stylesheet" href="${href(STYLE)}">
<script defer src="${href(SCRIPT)}"></script>
</head>
<body>
<a class="skip" href="#content">Skip to the text</a>
<header>
<a class="home" href="${href('index.html')}">${NAME}</a>
<form id="search" role="search" hidden>
<input type="search" placeholder="Search: an error, a key, a question" aria-label="Search" aria-keyshortcuts="/" autocomplete="off" spellcheck="false">
<kbd aria-hidden="true">/</kbd>
<div id="found" hidden></div>
<p id="said" role="status"></p>
</form>
</header>
<nav class="menu" aria-label="Documents"><details><summary>Menu</summary>
${menu.map((group) => menuOf(group, path, true)).join('\n')}
</details></nav>
${contentsOf(headings)}<main id="content" tabindex="-1">
${content}
</main>
</body>
</html>
`;
}

function menuOf({ name, pages, groups }: Group, path: string, isOpen: boolean): string {
  const items = pages.map(({ source, title }) => {
    const to = pathOf(source);
    const current = to === path ? ' aria-current="page"' : '';
    return `<li><a href="${hrefFrom(path, to)}"${current}>${escape(title)}</a></li>`;
  });
  const inside = groups.map((group) => `<li>${menuOf(group, path, hasPage(group, path))}</li>`);
  const list = [...items, ...inside].join('\n');
  return `<details${isOpen ? ' open' : ''}><summary>${escape(name)}</summary><ul>
${list}
</ul></details>`;
}

function hasPage({ pages, groups }: Group, path: string): boolean {
  return (
    pages.some(({ source }) => pathOf(source) === path) ||
    groups.some((group) => hasPage(group, path))
  );
}

function contentsOf(headings: readonly Heading[]): string {
  const shown = headings.filter(({ level }) => level === 2 || level === 3);
  if (shown.length < MIN_HEADINGS) return '';
  const items = shown.map(({ level, id, html }) => {
    const text = html.replace(/<\/?a\b[^>]*>/g, '');
    return `<li class="level-${level}"><a href="#${id}">${text}</a></li>`;
  });
  return `<nav class="contents" aria-label="On this page"><details><summary>On this page</summary><ul>
${items.join('\n')}
</ul></details></nav>
`;
}
