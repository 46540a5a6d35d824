/** The static site of the documentation: every link leads somewhere, nothing comes from another host, and its search finds. */
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { buildSite } from '../../../scripts/site/build.ts';
import { createSearch } from '../../../scripts/site/search.ts';
import { pathOf } from './markdown-tables.ts';

const out = mkdtempSync(join(tmpdir(), 'mrtr-gateway-site-'));
afterAll(() => rmSync(out, { recursive: true }));
const { pages, entries } = await buildSite(pathOf('.'), out);
const search = createSearch(entries);
const texts = new Map<string, string>();

function textOf(path: string): string {
  const text = texts.get(path) ?? readFileSync(path, 'utf8');
  texts.set(path, text);
  return text;
}

/** Links and pictures, without what is in code. */
function linksOf(html: string): string[] {
  return [...html.matchAll(/<(?:a|img|link|source)\s[^>]*?(?:href|src|srcset)="([^"]+)"/g)].map(
    ([, href = '']) => href.replaceAll('&amp;', '&'),
  );
}

test('the site has the README, the configuration reference and the guide for operators', () => {
  expect(pages).toEqual(
    expect.arrayContaining(['index.html', 'docs/configuration.html', 'docs/operations.html']),
  );
  // A long name can break between its parts.
  const configuration = textOf(join(out, 'docs/configuration.html')).replaceAll('<wbr>', '');
  expect(configuration).toContain('>routes[].upstream.url</code>');
});

test('every link of every page leads to a file and a heading', () => {
  const dead = pages.flatMap((page) =>
    linksOf(textOf(join(out, page)))
      .filter((href) => !/^[a-z]+:/.test(href))
      .filter((href) => {
        const [file = '', anchor] = href.split('#');
        const target = file === '' ? join(out, page) : resolve(out, dirname(page), file);
        if (!existsSync(target)) return true;
        return anchor !== undefined && !textOf(target).includes(`id="${anchor}"`);
      })
      .map((href) => `${page}: ${href}`),
  );
  expect(dead).toEqual([]);
});

test('no page loads anything from another host, or runs a script but that of the site', () => {
  for (const page of pages) {
    const html = textOf(join(out, page));
    expect(html).not.toMatch(
      /<(?:img|link|source|iframe|script)\s[^>]*(?:href|src|srcset)="(?:https?:)?\/\//,
    );
    const scripts = [...html.matchAll(/<script\b([^>]*)>/g)].map(
      ([, attributes = '']) => attributes,
    );
    expect(scripts).toEqual([expect.stringMatching(/^ defer src="(?:\.\.\/)*site\.js"$/)]);
  }
  expect(readFileSync(join(out, 'site.css'), 'utf8')).not.toMatch(/url\(|@import/);
  // But for the license of its library, the script names no host.
  const code = readFileSync(join(out, 'site.js'), 'utf8').split('*/\n')[1]!;
  expect(code.match(/https?:\/\/[^"'`]*/g)).toBeNull();
});

test('the menu has each document below docs, grouped by what a reader needs', () => {
  const menu = textOf(join(out, 'index.html')).split('<nav class="menu"')[1]!.split('</nav>')[0]!;
  const groups = [...menu.matchAll(/<details(?: open)?><summary>([^<]+)/g)].map(([, name]) => name);
  expect(groups).toEqual([
    'Menu',
    'Tutorial',
    'How-to guides',
    'Reference',
    'Rules',
    'Dialects',
    'Explanation',
    'Decisions',
    'Work on it',
  ]);
  const documents = globSync('docs/**/*.md', { cwd: pathOf('.') });
  expect(documents.length).toBeGreaterThan(50);
  const missing = documents.filter(
    (source) => !menu.includes(`href="${source.replace(/\.md$/, '.html')}"`),
  );
  expect(missing).toEqual([]);
});

test('a page has each anchor once', () => {
  const twice = pages.filter((page) => {
    const ids = [...textOf(join(out, page)).matchAll(/ id="([^"]+)"/g)].map(([, id]) => id);
    return new Set(ids).size < ids.length;
  });
  expect(twice).toEqual([]);
});

test('diagrams are drawn: no page shows the source of one', () => {
  expect(pages.filter((page) => textOf(join(out, page)).includes('language-mermaid'))).toEqual([]);
  expect(textOf(join(out, 'docs/parked-call.html'))).toMatch(/<svg [^]*>runningDetached<\/text>/);
});

describe('the search', () => {
  test('leads to anchors that are there', () => {
    const dead = entries.filter(({ href }) => {
      const [path = '', anchor] = href.split('#');
      return anchor !== undefined && !textOf(join(out, path)).includes(`id="${anchor}"`);
    });
    expect(entries.length).toBeGreaterThan(1000);
    expect(dead).toEqual([]);
  });

  test.each([
    ['an error', 'call_lost', 'docs/operate/errors.html#call_lost'],
    ['an error in part', 'invalid_request', 'docs/operate/errors.html#invalid_request_state'],
    ['a key', 'routes[].upstream.maxEvent', 'docs/configuration.html#routes-upstream-maxEvent'],
    ['the end of a key', 'maxEvent', 'docs/configuration.html#routes-upstream-maxEvent'],
    ['an event of the log', 'edge.wrong_path', 'docs/operate/log.html#edge-wrong_path'],
    [
      'a metric',
      'mrtr_gateway_running_calls',
      'docs/operate/metrics.html#mrtr_gateway_running_calls',
    ],
    ['a variable', 'MRTR_GATEWAY_PATH', 'docs/configuration.html#MRTR_GATEWAY_PATH'],
    ['a rule', 'http-4', 'docs/rules/edge.html#http-4'],
    ['a heading', 'rotating sealing keys', 'docs/operate/keys.html'],
  ])('finds %s: %s', (_what, query, href) => {
    const first = search(query).map(({ hits }) => hits[0]?.entry.href);
    expect(first.slice(0, 3)).toContain(href);
  });

  // What an operator asks first, in the words of one who has not read the documents.
  test.each([
    ['how do forms survive deploys', 'docs/operate/deploys.html'],
    ['which headers reach my server', 'docs/operate/headers.html'],
    ['how many parked calls per GiB', 'docs/operate/sizing.html'],
    ['error coordination_unavailable', 'docs/operate/errors.html'],
    ['rotate keys', 'docs/operate/keys.html'],
    ['allow some tools for some users', 'docs/operate/rights.html'],
    ['who is stuck', 'docs/operate/live.html'],
    ['does it work with ChatGPT or VS Code', 'docs/clients.html'],
    ['timeouts of Cloudflare and ALB', 'docs/operate/timeouts.html'],
    ['what happens when Redis dies', 'docs/operate/redis.html'],
    ['what is logged about users', 'docs/operate/personal-data.html'],
    ['my question never arrives', 'docs/operate/question-never-arrives.html'],
    ['scale out to more machines', 'docs/operate/scaling.html'],
    ['RBAC', 'docs/operate/rights.html'],
    ['permissions', 'docs/operate/rights.html'],
    ['who is waiting', 'docs/operate/live.html'],
    ['supported clients', 'docs/clients.html'],
    ['compatibility', 'docs/clients.html'],
    ['GDPR', 'docs/operate/personal-data.html'],
    ['privacy', 'docs/operate/personal-data.html'],
    ['PII', 'docs/operate/personal-data.html'],
    ['personal data', 'docs/operate/personal-data.html'],
    ['elicitation not shown', 'docs/operate/question-never-arrives.html'],
    ['form does not appear', 'docs/operate/question-never-arrives.html'],
    ['multiple instances', 'docs/operate/scaling.html'],
    ['high availability', 'docs/operate/scaling.html'],
    ['capacity', 'docs/operate/sizing.html'],
    ['RAM', 'docs/operate/sizing.html'],
    ['zero downtime', 'docs/operate/deploys.html'],
    ['graceful shutdown', 'docs/operate/deploys.html'],
    ['fastmcp event store', 'docs/operate/deploys.html'],
  ])('answers "%s"', (question, page) => {
    const found = search(question).map(({ hits }) => hits[0]!.entry.href.split('#')[0]);
    expect(found.slice(0, 3)).toContain(page);
  });

  test('finds nothing for words that no page has', () => {
    expect(search('zzyzx')).toEqual([]);
    expect(search('   ')).toEqual([]);
  });
});
