/** Texts in HTML, and paths between pages. */
import { posix } from 'node:path';

export function escape(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}

/** What a reader sees of HTML that we made, without its pictures. */
export function textOf(html: string): string {
  return html
    .replace(/<svg[^]*?<\/svg>/g, ' ')
    .replaceAll('<wbr>', '')
    .replace(/<\/?(?:a|code|em|strong|del)\b[^>]*>/g, '')
    .replace(/<[^>]+>/g, ' ')
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&quot;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&amp;', '&')
    .replace(/\s+/g, ' ')
    .trim();
}

/** Where the page of a file of the repository is. */
export function pathOf(source: string): string {
  if (source === 'README.md') return 'index.html';
  return source.endsWith('.md') ? source.replace(/\.md$/, '.html') : `${source}.html`;
}

/** How one page refers to another file of the site. */
export function hrefFrom(page: string, target: string): string {
  return posix.relative(posix.dirname(page), target);
}
