/** The live page in Chromium: what it shows of a real gateway, on each screen, by keyboard, and from hostile names. */
import axe, { type AxeResults } from 'axe-core';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { callTool } from '../fixtures/clients/modern-client.ts';
import { openPage, servePage, startBrowser } from '../fixtures/live-page.ts';
import { busySnapshot, callOf, routeOf, snapshotOf } from '../fixtures/live-snapshots.ts';
import {
  answersOf,
  greeter,
  legacyServer,
  reasonOf,
  replica,
} from '../fixtures/gateways/replica-testbed.ts';
import { stopAfterTest } from '../fixtures/stop-after-test.ts';
import { shownName } from '../../src/ops/live/snapshot.ts';

const BROWSER = { tags: ['browser', 'chromium'], timeout: 120_000 };
const SOON = { timeout: 30_000 };

let browser: Browser;
beforeAll(async () => {
  browser = await startBrowser();
});
afterAll(() => browser.close());

async function open(snapshot = busySnapshot(), options = {}) {
  const served = await servePage(snapshot);
  stopAfterTest(() => served.close());
  const { page, errors } = await openPage(browser, served.url, options);
  stopAfterTest(() => page.context().close());
  return { served, page, errors };
}

describe('the live page', BROWSER, () => {
  // Rule live-4: The page at `/` updates by itself, says when it is stale, and reconnects.
  test('follows a real gateway', async () => {
    const gateway = await replica(await legacyServer({ tools: greeter().tools }));
    const { page, errors } = await openPage(browser, `${gateway.adminUrl}/live`);
    stopAfterTest(() => page.context().close());
    const rows = page.locator('#calls tr');
    await page.getByText('None.').waitFor(SOON);
    const asked = await callTool(gateway.url, 'greet', {});
    await rows.first().waitFor(SOON);
    expect(await rows.first().innerText()).toMatch(
      /greet\s+a form\s+\d+ (?:ms|s)\s+local-user\s+\S+\s+mcp/,
    );
    await callTool(gateway.url, 'greet', answersOf(asked, 'Ada'));
    await expect.poll(() => rows.count(), SOON).toBe(0);
    await page.getByText('1 succeeded').waitFor(SOON);
    expect(await page.title()).toBe('0 waiting - mrtr-gateway');
    expect(errors).toEqual([]);
  });

  test('says when it is stale, and reconnects by itself', async () => {
    const { served, page } = await open(snapshotOf());
    await served.close();
    await page.getByText(/^stale for/).waitFor(SOON);
    const again = await servePage(
      snapshotOf({ calls: [callOf({ target: 'after' })] }),
      Number(new URL(served.url).port),
    );
    stopAfterTest(() => again.close());
    await page.getByRole('rowheader', { name: 'after' }).waitFor(SOON);
    expect(await page.locator('#connection').innerText()).toBe('live');
  });

  test('names what did not respond', async () => {
    const { page } = await open(snapshotOf({ missing: ['worker 2'] }));
    expect(await page.getByRole('alert').innerText()).toContain('No reply from worker 2');
  });

  // Rule live-5: Names of others are text on the page. It runs only its own script, and cannot be framed.
  test('shows hostile names as text, and runs nothing but its own script', async () => {
    const name = '<img src=x onerror="document.title=1"><script>document.title=2</script>';
    const hostile = shownName(name);
    const calls = [callOf({ target: hostile, who: hostile, route: hostile, kinds: [hostile] })];
    const routes = [routeOf({ id: hostile, path: hostile, server: hostile })];
    const { served, page, errors } = await open(snapshotOf({ calls, routes }));
    expect(await page.getByRole('rowheader').allInnerTexts()).toEqual([
      `${hostile} (${hostile})`,
      hostile,
    ]);
    expect(await page.locator('img, main script, iframe').count()).toBe(0);
    expect(errors).toEqual([]);
    await expect(page.addScriptTag({ content: 'document.title = 3' })).rejects.toThrow();
    expect(await page.title()).toBe('1 waiting - mrtr-gateway');
    const { headers } = await fetch(served.url);
    expect(headers.get('content-security-policy')).toMatch(
      /^default-src 'none'; style-src 'sha256-[^']+'; script-src 'sha256-[^']+'; connect-src 'self';.*frame-ancestors 'none'/,
    );
  });

  // Rule live-7.
  test('cancels a call of a real gateway with the keyboard, after a question', async () => {
    const gateway = await replica(await legacyServer({ tools: greeter().tools }), {
      config: { adminActions: 'cancel' },
    });
    const asked = await callTool(gateway.url, 'greet', {});
    const { page, errors } = await openPage(browser, `${gateway.adminUrl}/live`);
    stopAfterTest(() => page.context().close());
    const button = page.getByRole('button', { name: 'Cancel greet of local-user' });
    await button.focus();
    await page.keyboard.press('Enter');
    await page.getByText('Cancel greet of local-user?').waitFor(SOON);
    expect(await page.locator(':focus').innerText()).toBe('Keep it');
    await page.keyboard.press('Escape');
    expect(await page.locator(':focus').innerText()).toBe('Cancel');
    await button.click();
    await page.getByRole('button', { name: 'Cancel the call' }).press('Enter');
    await page.getByText('greet of local-user: cancelled').waitFor(SOON);
    await page.getByText('None.').waitFor(SOON);
    await gateway.saw('audit.stopped');
    const retried = await callTool(gateway.url, 'greet', answersOf(asked, 'Ada'));
    expect(reasonOf(retried)).toBe('cancelled_by_operator');
    expect(errors).toEqual([]);
  });

  test('has links that open VS Code and Cursor with the URL of a route', async () => {
    const gateway = await replica(await legacyServer({ tools: greeter().tools }));
    const { page } = await openPage(browser, `${gateway.adminUrl}/live`);
    stopAfterTest(() => page.context().close());
    await page.getByRole('link', { name: 'VS Code' }).waitFor(SOON);
    const [code = '', cursor = ''] = await page
      .locator('#routes a')
      .evaluateAll((links) => links.map((link) => link.getAttribute('href') ?? ''));
    expect(code.startsWith('vscode:mcp/install?')).toBe(true);
    expect(JSON.parse(decodeURIComponent(code.slice('vscode:mcp/install?'.length)))).toEqual({
      name: 'mcp',
      type: 'http',
      url: gateway.url,
    });
    const { host, pathname, searchParams } = new URL(cursor);
    expect([host, pathname]).toEqual(['anysphere.cursor-deeplink', '/mcp/install']);
    expect(searchParams.get('name')).toBe('mcp');
    expect(JSON.parse(atob(searchParams.get('config') ?? ''))).toEqual({ url: gateway.url });
  });

  test('has no button to cancel unless the configuration allows it', async () => {
    const { served, page } = await open(snapshotOf({ calls: [callOf()] }));
    const buttons = page.getByRole('button', { name: 'Cancel deploy' });
    await page.getByRole('rowheader', { name: 'deploy' }).waitFor(SOON);
    expect(await buttons.count()).toBe(0);
    served.snapshot = { ...served.snapshot, actions: ['cancel'] };
    await buttons.waitFor(SOON);
    served.snapshot = { ...served.snapshot, actions: [] };
    await buttons.waitFor({ state: 'hidden', ...SOON });
  });

  // Rule live-6: The page works on a phone, in dark mode, with the keyboard alone and with a screen reader.
  test.each([320, 390, 768, 1280])('fits on a screen of %i pixels', async (width) => {
    const long = shownName('x'.repeat(500));
    const snapshot = busySnapshot();
    const calls = [...snapshot.calls, callOf({ target: long, who: long, owner: long })];
    const { page } = await open({ ...snapshot, calls }, { viewport: { width, height: 700 } });
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(width);
    for (const cell of await page.locator('tbody th, tbody td:not(:empty), dd, h2').all()) {
      const { x, width: own } = (await cell.boundingBox())!;
      expect(x + own).toBeLessThanOrEqual(width + 1);
    }
  });

  test.each(['light', 'dark'] as const)(
    'breaks no rule of WCAG 2.2 that axe knows, in %s mode',
    async (colorScheme) => {
      for (const viewport of [
        { width: 390, height: 844 },
        { width: 1280, height: 800 },
      ]) {
        const snapshot = busySnapshot();
        snapshot.actions.push('cancel');
        const { page } = await open(snapshot, { colorScheme, viewport, bypassCSP: true });
        await page.getByText('304 succeeded').waitFor(SOON);
        const ground = await page.evaluate('getComputedStyle(document.body).backgroundColor');
        expect(ground).toBe(colorScheme === 'light' ? 'rgb(255, 255, 255)' : 'rgb(17, 22, 29)');
        await page.addScriptTag({ content: axe.source });
        const { violations, passes } = await page.evaluate<AxeResults>('axe.run()');
        const found = violations.map(({ id, nodes }) => [id, nodes.map(({ html }) => html)]);
        expect(found).toEqual([]);
        expect(passes.map(({ id }) => id)).toContain('color-contrast');
      }
    },
  );

  test('can be used with the keyboard alone', async () => {
    const { served, page } = await open();
    const focused = page.locator(':focus');
    await page.keyboard.press('Tab');
    expect(await focused.innerText()).toBe('Skip to the calls that wait');
    await page.keyboard.press('Tab');
    expect(await focused.innerText()).toBe('Pause');
    expect(await page.evaluate('getComputedStyle(document.activeElement).outlineStyle')).toBe(
      'solid',
    );
    await page.keyboard.press('Space');
    expect(await page.getByRole('button', { pressed: true }).innerText()).toBe('Pause');
    await page.getByText('paused', { exact: true }).waitFor(SOON);
    served.snapshot = snapshotOf({ calls: [callOf({ target: 'later' })] });
    await page.keyboard.press('Space');
    await page.getByRole('rowheader', { name: 'later' }).waitFor(SOON);
    expect(await focused.innerText()).toBe('Pause');
  });

  test('tells a screen reader what plots and tables show', async () => {
    const { page } = await open();
    await page.getByRole('img', { name: '304 succeeded, 14 failed' }).first().waitFor(SOON);
    const table = page.getByRole('table', { name: 'Calls that wait for their client' });
    expect(await table.getByRole('columnheader').allInnerTexts()).toContain('Waits for');
    await page.getByRole('status').getByText('live').waitFor(SOON);
  });
});
