/** The static site of the documentation: every link leads somewhere, and nothing comes from another host. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { buildSite } from '../../../scripts/site/build.ts';
import { pathOf } from './markdown-tables.ts';

const out = mkdtempSync(join(tmpdir(), 'mrtr-gateway-site-'));
afterAll(() => rmSync(out, { recursive: true }));
const pages = buildSite(pathOf('.'), out);
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
  expect(textOf(join(out, 'docs/configuration.html'))).toContain('routes[].upstream.url');
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

test('no page loads anything from another host, or runs a script', () => {
  for (const page of pages) {
    const html = textOf(join(out, page));
    expect(html).not.toMatch(
      /<(?:img|link|source|iframe)\s[^>]*(?:href|src|srcset)="(?:https?:)?\/\//,
    );
    expect(html).not.toContain('<script');
  }
  expect(readFileSync(join(out, 'style.css'), 'utf8')).not.toMatch(/url\(|@import/);
});
