/** Takes the pictures of the live page for docs/operate/live.md: `npm run docs:pictures`. */
import { fileURLToPath } from 'node:url';
import type { BrowserContextOptions } from 'playwright-core';
import { openPage, servePage, startBrowser } from '../test/fixtures/live-page.ts';
import { busySnapshot } from '../test/fixtures/live-snapshots.ts';

const PICTURES: Readonly<Record<string, BrowserContextOptions>> = {
  light: { viewport: { width: 960, height: 720 }, colorScheme: 'light' },
  dark: { viewport: { width: 960, height: 720 }, colorScheme: 'dark' },
  phone: { viewport: { width: 390, height: 844 }, colorScheme: 'light' },
};

const [served, browser] = [await servePage(busySnapshot()), await startBrowser()];
for (const [name, options] of Object.entries(PICTURES)) {
  const { page } = await openPage(browser, served.url, options);
  const path = fileURLToPath(new URL(`../docs/images/live-${name}.png`, import.meta.url));
  await page.screenshot({ path });
}
await browser.close();
await served.close();
