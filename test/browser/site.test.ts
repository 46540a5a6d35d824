/** The site of the documentation in Chromium, read from files: its search, its tables on each screen, and without scripts. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import axe, { type AxeResults } from 'axe-core';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { buildSite } from '../../scripts/site/build.ts';
import { startBrowser } from '../fixtures/live-page.ts';
import { stopAfterTest } from '../fixtures/stop-after-test.ts';

const BROWSER = { tags: ['browser', 'chromium'], timeout: 120_000 };
const SOON = { timeout: 30_000 };
const SCREENS = [390, 1100, 1440];
/** Long tables, long names, and diagrams. */
const PAGES = [
  'index.html',
  'docs/configuration.html',
  'docs/operate/errors.html',
  'docs/operate/log.html',
  'docs/parked-call.html',
];

let browser: Browser;
let out: string;
beforeAll(async () => {
  out = mkdtempSync(join(tmpdir(), 'mrtr-gateway-site-'));
  await buildSite(fileURLToPath(new URL('../..', import.meta.url)), out);
  browser = await startBrowser();
});
afterAll(async () => {
  await browser.close();
  rmSync(out, { recursive: true });
});

/** Opens a page from its file. @returns it, and the addresses that it loaded from elsewhere */
async function open(path: string, options: BrowserContextOptions = {}) {
  const context = await browser.newContext(options);
  stopAfterTest(() => context.close());
  const page = await context.newPage();
  const foreign: string[] = [];
  page.on('request', (request) => {
    if (!request.url().startsWith('file:')) foreign.push(request.url());
  });
  await page.goto(pathToFileURL(join(out, path)).href);
  return { page, foreign };
}

async function violations(page: Page): Promise<string[]> {
  await page.evaluate(axe.source);
  const { violations: found } = await page.evaluate<AxeResults>('axe.run()');
  return found.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`);
}

describe('the site', BROWSER, () => {
  test('is searched with the keyboard alone, from files', async () => {
    const { page, foreign } = await open('docs/operations.html');
    await page.keyboard.press('/');
    await page.keyboard.type('call_lost');
    await page.locator('#found a').first().waitFor(SOON);
    expect(await page.locator('#said').innerText()).toMatch(/^\d+ results in \d+ pages$/);
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('ArrowUp');
    const first = await page.locator('#found a').first().getAttribute('href');
    expect(await page.locator(':focus').getAttribute('href')).toBe(first);
    await page.keyboard.press('Enter');
    await page.waitForURL(/errors\.html#call_lost$/, SOON);
    expect(await page.locator(':target').innerText()).toMatch(/^call_lost/);
    expect(foreign).toEqual([]);
  });

  test('leads to the first result with Enter, and closes its results with Escape', async () => {
    const { page } = await open('index.html');
    await page.keyboard.press('/');
    await page.keyboard.type('rotate seal.keys');
    await page.locator('#found a').first().waitFor(SOON);
    await page.keyboard.press('Escape');
    expect(await page.locator('#found').isVisible()).toBe(false);
    await page.keyboard.type('rotate seal.keys');
    await page.locator('#found a').first().waitFor(SOON);
    await page.keyboard.press('Enter');
    await page.waitForURL(/docs\/operate\/keys\.html/, SOON);
  });

  test('says so if nothing is found', async () => {
    const { page } = await open('index.html');
    await page.locator('#search input').fill('zzyzx');
    await page.locator('#found').getByText('Nothing found for "zzyzx".').waitFor(SOON);
  });

  test('has its menu and its text without scripts, and no search', async () => {
    const { page } = await open('docs/operate/errors.html', { javaScriptEnabled: false });
    expect(await page.locator('#search').isVisible()).toBe(false);
    expect(await page.locator('main table').first().isVisible()).toBe(true);
    await page.getByRole('link', { name: 'Configuration', exact: true }).click();
    await page.waitForURL(/docs\/configuration\.html$/, SOON);
  });

  test.each(SCREENS)('scrolls its tables and no page to the side, %i px wide', async (width) => {
    for (const path of PAGES) {
      const { page } = await open(path, { viewport: { width, height: 900 } });
      const widest = await page.evaluate<number>('document.documentElement.scrollWidth');
      expect(widest, path).toBeLessThanOrEqual(width);
    }
  });

  test('breaks no name of a first column on a desk, and a long one between its parts on a phone', async () => {
    const linesOf = `[...document.querySelectorAll('td:first-child:not(.prose) code')]
      .map((code) => ({ name: code.textContent, lines: code.getClientRects().length }))`;
    for (const path of PAGES) {
      const { page } = await open(path, { viewport: { width: 1100, height: 900 } });
      const names = await page.evaluate<{ name: string; lines: number }[]>(linesOf);
      expect(names.filter(({ lines }) => lines > 1)).toEqual([]);
      await page.setViewportSize({ width: 390, height: 844 });
      const narrow = await page.evaluate<{ name: string; lines: number }[]>(linesOf);
      const parts = (name: string) =>
        name.length > 24 ? name.split(/(?<=[._\]/-])(?=\w)|\s/).length : 1;
      expect(narrow.filter(({ name, lines }) => lines > parts(name))).toEqual([]);
    }
  });

  test('marks in the contents of a page what is read', async () => {
    const { page } = await open('docs/architecture.html', {
      viewport: { width: 1440, height: 900 },
    });
    const current = page.locator('nav.contents a[aria-current]');
    await page.locator('main h2').nth(3).scrollIntoViewIfNeeded();
    await page.evaluate("document.querySelectorAll('main h2')[3].scrollIntoView()");
    const heading = await page.locator('main h2').nth(3).innerText();
    await expect.poll(() => current.allInnerTexts(), SOON).toEqual([heading]);
    expect(await current.isVisible()).toBe(true);
  });

  test.each([
    ['light', 1440],
    ['dark', 1440],
    ['light', 390],
    ['dark', 390],
  ] as const)('has nothing that axe objects to, %s and %i px wide', async (colorScheme, width) => {
    for (const path of PAGES) {
      const { page } = await open(path, { colorScheme, viewport: { width, height: 900 } });
      expect(await violations(page), path).toEqual([]);
    }
    const { page } = await open('index.html', { colorScheme, viewport: { width, height: 900 } });
    await page.locator('#search input').fill('redis');
    await page.locator('#found a').first().waitFor(SOON);
    expect(await violations(page), 'results').toEqual([]);
  });
});
