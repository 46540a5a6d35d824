/** The search box: what is typed, what is found, and the keys that lead through it. */
import { createSearch, type Entry, type Found, type Hit, type Search } from '../search.ts';

declare global {
  /** Set by `search-index.js`. */
  var searchIndex: readonly Entry[] | undefined;
}

const LETTERS_BEFORE = 50;
const LETTERS = 150;

/** @param root the address of the folder of the site */
export function startSearchBox(root: string): void {
  const form = document.querySelector<HTMLFormElement>('#search')!;
  const input = form.querySelector('input')!;
  const found = form.querySelector<HTMLElement>('#found')!;
  const said = form.querySelector<HTMLElement>('#said')!;
  const search = lazySearch(root);
  const links = () => [...found.querySelectorAll('a')];
  const close = () => (found.hidden = true);

  const show = async () => {
    const query = input.value;
    const results = query.trim() === '' ? [] : (await search())(query);
    // A later key may have come while the index was loaded.
    if (query !== input.value) return;
    found.replaceChildren(...results.map((result) => groupOf(result, root)));
    found.hidden = query.trim() === '';
    said.textContent = countOf(query, results);
    if (results.length === 0) found.textContent = said.textContent;
  };
  const step = (by: number) => {
    const all = links();
    const at = all.indexOf(document.activeElement as HTMLAnchorElement) + by;
    const next = at < 0 ? input : all[Math.min(at, all.length - 1)];
    next?.focus();
    if (next !== input) next?.scrollIntoView({ block: 'nearest' });
  };

  form.hidden = false;
  input.addEventListener('focus', () => void search(), { once: true });
  input.addEventListener('focus', () => (found.hidden = input.value.trim() === ''));
  input.addEventListener('input', () => void show());
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    void show().then(() => links()[0]?.click());
  });
  form.addEventListener('keydown', (event) => {
    if (event.key === 'ArrowDown') step(1);
    else if (event.key === 'ArrowUp') step(-1);
    else if (event.key === 'Escape') {
      close();
      input.focus();
      input.select();
      close();
    } else return;
    event.preventDefault();
  });
  found.addEventListener('click', ({ target }) => {
    if (target instanceof Element && target.closest('a') !== null) close();
  });
  document.addEventListener('pointerdown', ({ target }) => {
    if (target instanceof Node && !form.contains(target)) close();
  });
  document.addEventListener('keydown', (event) => {
    if (event.key !== '/' || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target instanceof Element && event.target.closest('input') !== null) return;
    event.preventDefault();
    input.focus();
    input.select();
  });
}

/** The index is loaded when it is needed first. A script can be loaded where `fetch` cannot: from a file. */
function lazySearch(root: string): () => Promise<Search> {
  let loaded: Promise<Search> | undefined;
  return () => {
    loaded ??= new Promise((resolve, reject) => {
      const script = document.createElement('script');
      script.src = `${root}search-index.js`;
      script.onload = () => resolve(createSearch(globalThis.searchIndex ?? []));
      script.onerror = () => {
        loaded = undefined;
        reject(new Error('The index of the search did not load'));
      };
      document.head.append(script);
    });
    return loaded;
  };
}

function countOf(query: string, results: readonly Found[]): string {
  if (query.trim() === '') return '';
  const count = results.reduce((sum, { hits }) => sum + hits.length, 0);
  if (count === 0) return `Nothing found for "${query}".`;
  return `${count} ${count === 1 ? 'result' : 'results'} in ${results.length} ${results.length === 1 ? 'page' : 'pages'}`;
}

function groupOf({ page, hits }: Found, root: string): HTMLElement {
  const group = element('section');
  group.append(element('h2', page), ...hits.map((hit) => linkOf(hit, root)));
  return group;
}

function linkOf({ entry, words }: Hit, root: string): HTMLAnchorElement {
  const link = element('a');
  link.href = root + entry.href;
  const name = element('strong');
  name.append(...marked(entry.name, words));
  link.append(name);
  if (entry.trail.length > 0) link.append(element('small', entry.trail.join(' › ')));
  const snippet = snippetOf(entry.text, words);
  if (snippet !== '') {
    const text = element('span');
    text.append(...marked(snippet, words));
    link.append(text);
  }
  return link;
}

/** The part of a text that has the first of the words. */
function snippetOf(text: string, words: readonly string[]): string {
  const first = text.toLowerCase().search(patternOf(words));
  const from = first <= LETTERS_BEFORE ? 0 : text.indexOf(' ', first - LETTERS_BEFORE) + 1;
  const part = text.slice(from, from + LETTERS);
  return `${from > 0 ? '… ' : ''}${part}${from + LETTERS < text.length ? ' …' : ''}`;
}

/** A text with its found words marked. */
function marked(text: string, words: readonly string[]): (string | HTMLElement)[] {
  const pattern = new RegExp(`(${patternOf(words).source})`, 'gi');
  return text.split(pattern).map((part, at) => (at % 2 === 1 ? element('mark', part) : part));
}

function patternOf(words: readonly string[]): RegExp {
  const sources = words.map((word) => word.replace(/[^\w]/g, '\\$&'));
  return new RegExp(sources.length === 0 ? '(?!)' : `\\b(?:${sources.join('|')})`, 'i');
}

function element<Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  text = '',
): HTMLElementTagNameMap[Name] {
  const made = document.createElement(name);
  made.textContent = text;
  return made;
}
