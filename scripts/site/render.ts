/** Makes the HTML of a Markdown file. Headings, rows of tables that describe a name, and rules are anchors. */
import { globSync } from 'node:fs';
import { posix } from 'node:path';
import { Marked, type RendererObject, type Tokens } from 'marked';
import { getHeadingList, gfmHeadingId } from 'marked-gfm-heading-id';
import { drawDiagram } from '../pictures/diagram.ts';
import { escape, hrefFrom, pathOf, textOf } from './html.ts';

/** Files that a browser shows by itself. */
export const IS_PICTURE = /\.(png|svg)$/;
const EXTERNAL = /^[a-z]+:/i;
/** A cell of more letters than these is prose, which needs room for some words in a line. */
const LETTERS_OF_PROSE = 40;
/** A name or a command of so many letters is never broken. */
const LETTERS_IN_A_LINE = 24;
/** An item of docs/rules, which begins with the name of its rule. */
const RULE = /<li>(?=(?:<p>)?<strong>(?:<a [^>]*>)?([a-z][\w-]*-\d+)(?:<\/a>)?<\/strong>)/g;

export interface Heading {
  readonly level: number;
  readonly id: string;
  readonly html: string;
}

/** A row of a table of questions: what is asked, and where it says that the answer is. */
export interface Asked {
  readonly question: string;
  /** Paths in the site, with anchors. */
  readonly answers: readonly string[];
}

export interface Rendered {
  readonly html: string;
  readonly headings: readonly Heading[];
  readonly asked: readonly Asked[];
}

/** @param add called with each file of the repository that the page refers to */
export function render(
  markdown: string,
  { root, source, add }: { root: string; source: string; add: (target: string) => void },
): Rendered {
  const asked: Asked[] = [];
  const page = pathOf(source);
  const resolve = (href: string) => {
    if (EXTERNAL.test(href) || href.startsWith('#')) return href;
    const [file = '', anchor] = href.split('#');
    const target = posix.normalize(posix.join(posix.dirname(source), file)).replace(/\/$/, '');
    add(target);
    const path = IS_PICTURE.test(target) ? target : pathOf(indexOf(root, target));
    return hrefFrom(page, path) + (anchor === undefined ? '' : `#${anchor}`);
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
    renderer: rendererOf((question, hrefs) => {
      const answers = hrefs
        .filter((href) => !EXTERNAL.test(href))
        .map((href) => posix.join(posix.dirname(page), href));
      asked.push({ question, answers });
    }),
  });
  const parsed = marked.parse(markdown, { async: false });
  const headings = getHeadingList().map(({ level, id, text }) => ({ level, id, html: text }));
  return { html: withAnchors(parsed, headings), headings, asked };
}

/** Makes anchors of the rows and the rules that have a name, if nothing before them has the same. */
function withAnchors(html: string, headings: readonly Heading[]): string {
  const ids = new Set(headings.map(({ id }) => id));
  return html
    .replace(RULE, '<li data-name="$1">')
    .replace(/ data-name="([^"]*)"/g, (_found, name: string) => {
      if (ids.has(name)) return '';
      ids.add(name);
      return ` id="${name}"`;
    });
}

/** What a row describes, if that has a name. */
function nameOf(cell: Tokens.TableCell | undefined): string {
  const first = cell?.tokens[0];
  const code = first?.type === 'codespan' ? (first as Tokens.Codespan).text : '';
  const name = code.replace(/\W+/g, '-').replace(/^-|-$/g, '');
  return name === '' ? '' : ` data-name="${name}"`;
}

function rendererOf(ask: (question: string, hrefs: readonly string[]) => void): RendererObject {
  return {
    code({ text, lang }) {
      if (lang !== 'mermaid') return false;
      const title = getHeadingList().at(-1)?.raw ?? 'Diagram';
      return `<div class="wide">${drawDiagram(title, text)}</div>\n`;
    },
    codespan({ text }) {
      if (text.length <= LETTERS_IN_A_LINE) return `<code>${escape(text)}</code>`;
      // A long name breaks between its parts, and not inside of them.
      const parts = text.split(/(?<=[._\]/-])(?=\w)/).map(escape);
      return `<code class="long">${parts.join('<wbr>')}</code>`;
    },
    image({ href, text }) {
      const image = `<img src="${escape(href)}" alt="${escape(text)}">`;
      return href.endsWith('.svg') ? `<span class="wide">${image}</span>` : image;
    },
    table({ header, rows }) {
      const isProse = header.map((_head, at) =>
        rows.some((row) => (row[at]?.text.length ?? 0) > LETTERS_OF_PROSE),
      );
      const cell = (tag: string, { tokens }: Tokens.TableCell, at: number) => {
        const style = isProse[at] === true ? ' class="prose"' : '';
        return `<${tag}${style}>${this.parser.parseInline(tokens)}</${tag}>`;
      };
      const isOfQuestions = header[0]?.text === 'Question';
      const body = rows.map((row) => {
        const cells = row.map((one, at) => cell('td', one, at)).join('');
        if (isOfQuestions) {
          const hrefs = [...cells.matchAll(/href="([^"]+)"/g)].map(([, href = '']) => href);
          ask(textOf(cells.slice(0, cells.indexOf('</td>'))), hrefs);
        }
        return `<tr${nameOf(row[0])}>${cells}</tr>`;
      });
      const head = header.map((one, at) => cell('th', one, at)).join('');
      return `<div class="wide"><table>
<thead><tr>${head}</tr></thead>
<tbody>
${body.join('\n')}
</tbody></table></div>\n`;
    },
  };
}

/** A folder with a README is that. */
function indexOf(root: string, target: string): string {
  return globSync(`${target}/README.md`, { cwd: root })[0] ?? target;
}
