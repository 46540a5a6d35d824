/** What the search finds: each section of a page, and each row or rule in it that is an anchor. */
import { textOf } from './html.ts';
import type { Asked } from './render.ts';
import type { Entry } from './search.ts';

const HEADING = /<h([1-6]) id="([^"]*)">([^]*?)<\/h\1>/g;
const NAMED = /<(tr|li) id="([^"]+)">([^]*?)<\/\1>/g;

interface Section {
  readonly level: number;
  readonly id: string;
  readonly name: string;
  readonly html: string;
}

/** Reads the entries of a page. The first is the page itself, and has no anchor. */
export function entriesOf({
  path,
  title,
  weight,
  html,
  asked,
}: {
  path: string;
  title: string;
  weight: number;
  html: string;
  asked: readonly Asked[];
}): Entry[] {
  const questions = new Map<string, string>();
  for (const { question, answers } of asked) {
    for (const answer of answers) {
      questions.set(answer, `${questions.get(answer) ?? ''} ${question}`.trim());
    }
  }
  const above: Section[] = [];
  return sectionsOf(html).flatMap((section) => {
    while (above.length > 0 && above.at(-1)!.level >= section.level) above.pop();
    const trail = above.filter(({ level }) => level > 1).map(({ name }) => name);
    above.push(section);
    const entry = (anchor: string, name: string, text: string, inside: readonly string[]) => {
      const href = anchor === '' ? path : `${path}#${anchor}`;
      return {
        href,
        page: title,
        trail: inside,
        name,
        text,
        asked: questions.get(href) ?? '',
        weight,
      };
    };
    const isPage = section.level === 1;
    const inside = isPage ? [] : [...trail, section.name];
    const named = [...section.html.matchAll(NAMED)].map(([, tag, id = '', content = '']) => {
      const [name, text] = tag === 'tr' ? rowOf(content) : ruleOf(content);
      return entry(id, name, text, inside);
    });
    const rest = textOf(section.html.replace(NAMED, ' '));
    return [entry(isPage ? '' : section.id, section.name, rest, trail), ...named];
  });
}

function sectionsOf(html: string): Section[] {
  const headings = [...html.matchAll(HEADING)];
  return headings.map((heading, at) => {
    const [found, level, id = '', name = ''] = heading;
    const end = headings[at + 1]?.index ?? html.length;
    const content = html.slice(heading.index + found.length, end);
    return { level: Number(level), id, name: textOf(name), html: content };
  });
}

function rowOf(html: string): [name: string, text: string] {
  const end = html.indexOf('</td>');
  return [textOf(html.slice(0, end)), textOf(html.slice(end))];
}

function ruleOf(html: string): [name: string, text: string] {
  const end = html.indexOf('</strong>');
  return [textOf(html.slice(0, end)), textOf(html.slice(end))];
}
