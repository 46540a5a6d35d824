/** Takes the pictures of the live page, in a browser. */
import type { BrowserContextOptions } from 'playwright-core';
import { openPage, servePage, startBrowser } from '../../test/fixtures/live-page.ts';
import { busySnapshot } from '../../test/fixtures/live-snapshots.ts';

const PICTURES: Readonly<Record<string, BrowserContextOptions>> = {
  light: { viewport: { width: 960, height: 720 }, colorScheme: 'light' },
  dark: { viewport: { width: 960, height: 720 }, colorScheme: 'dark' },
  phone: { viewport: { width: 390, height: 844 }, colorScheme: 'light' },
};

/** Writes `live-light.png`, `live-dark.png` and `live-phone.png` into a folder. */
export async function takeLivePictures(folder: string): Promise<void> {
  const [served, browser] = [await servePage(busySnapshot()), await startBrowser()];
  for (const [name, options] of Object.entries(PICTURES)) {
    const { page } = await openPage(browser, served.url, options);
    await page.screenshot({ path: `${folder}/live-${name}.png` });
  }
  await browser.close();
  await served.close();
}
