/** The search of the site. The page runs it in the browser of a reader, and the tests run it here. */
import MiniSearch from 'minisearch';

export interface Entry {
  /** The path in the site, with an anchor. */
  readonly href: string;
  /** The title of the page. */
  readonly page: string;
  /** The headings above it, from the outside in. */
  readonly trail: readonly string[];
  /** A heading, or the name of an error, a key, an event or a rule. */
  readonly name: string;
  readonly text: string;
  /** Questions that other pages answer with it. */
  readonly asked: string;
  readonly weight: number;
}

export interface Hit {
  readonly entry: Entry;
  /** The words of the entry that were found, in small letters. */
  readonly words: readonly string[];
}

/** What was found in one page, best first. */
export interface Found {
  readonly page: string;
  readonly hits: readonly Hit[];
}

export type Search = (query: string) => readonly Found[];

const MAX_PAGES = 8;
const MAX_OF_PAGE = 4;
const MAX_WORDS = 24;
/** Words of questions that say nothing of their subject. */
const STOP_WORDS = new Set(
  `a about an and any are as at be been behind by can cannot could did do does for from get gets had has have how i if in into
  is it its me my no not of off on one or our so some than that the their them then there these they this to us was we what
  when where which who why will with without would you your`.split(/\s+/),
);

/** Builds the index of entries. @returns a function that finds them by the words of a query */
export function createSearch(entries: readonly Entry[]): Search {
  const index = new MiniSearch<{ id: number } & Omit<Entry, 'trail'> & { trail: string }>({
    fields: ['name', 'page', 'trail', 'asked', 'text'],
    tokenize: wordsOfText,
    processTerm: (word) => (STOP_WORDS.has(word) ? null : stemOf(word)),
  });
  index.addAll(entries.map((entry, id) => ({ ...entry, trail: entry.trail.join(' '), id })));
  return (query) => {
    const words = wordsOf(query).slice(0, MAX_WORDS);
    const results = index.search(words.join(' '), {
      tokenize: (text) => text.split(' '),
      boost: { name: 4, page: 2, trail: 1.5, asked: 4, text: 1 },
      // What is typed is often the begin of a word.
      prefix: (term) => term.length > 2,
      fuzzy: (term) => (term.length > 5 ? 0.2 : false),
      weights: { prefix: 0.4, fuzzy: 0.2 },
      boostDocument: (id) => entries[id as number]!.weight,
    });
    const pages = new Map<string, Hit[]>();
    for (const { id, terms } of results) {
      const entry = entries[id as number]!;
      const path = entry.href.split('#')[0]!;
      const hits = pages.get(path) ?? [];
      pages.set(path, hits);
      if (hits.length < MAX_OF_PAGE) hits.push({ entry, words: terms });
    }
    return [...pages.values()]
      .slice(0, MAX_PAGES)
      .map((hits) => ({ page: hits[0]!.entry.page, hits }));
  };
}

/** The words of a query in small letters. A name is one word, and each of its parts is one as well. */
function wordsOf(text: string): string[] {
  return namesOf(text).flatMap((name) => unique([name, ...partsOf(name)]));
}

/** The words of a text. The parts of a name have words too: `maxEvent` is found by `event`. */
function wordsOfText(text: string): string[] {
  return namesOf(text).flatMap((name) => {
    const parts = partsOf(name);
    return unique([name, ...parts, ...parts.flatMap((part) => part.split(/(?<=[a-z])(?=[A-Z])/))]);
  });
}

function namesOf(text: string): string[] {
  return text
    .split(/[\s,;()"'`!?…]+/u)
    .map((part) => part.replace(/^\W+|[^\w\]]+$/gu, ''))
    .filter((name) => name !== '');
}

function partsOf(name: string): string[] {
  return name.split(/[^\p{L}\p{N}]+/u).filter((part) => part !== '');
}

function unique(words: readonly string[]): string[] {
  return [...new Set(words.map((word) => word.toLowerCase()))];
}

/** Takes the endings of English words away, so that `rotating` finds `rotate`. A name is left as it is. */
function stemOf(word: string): string {
  if (word.length < 5 || /[^a-z]/.test(word)) return word;
  return word.replace(/(?:ing|ed|es|s|e)$/, '');
}
