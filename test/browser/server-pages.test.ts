/** What a page of a server can do in Chromium, at the origin of a gateway on this machine. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { modernBody, modernHeaders } from '../fixtures/clients/modern-client.ts';
import { replica } from '../fixtures/gateways/replica-testbed.ts';
import { startBrowser } from '../fixtures/live-page.ts';
import { LegacyServer } from '../fixtures/servers/legacy-server.ts';
import { legacyServer } from '../fixtures/servers/scripted-server.ts';
import { stopAfterTest } from '../fixtures/stop-after-test.ts';

const BROWSER = { tags: ['browser', 'chromium'], timeout: 120_000 };
const SOON = { timeout: 30_000 };

let browser: Browser;
beforeAll(async () => {
  browser = await startBrowser();
});
afterAll(() => browser.close());

/** A server of MCP that shows a page to browsers. */
async function hostileServer() {
  const shown = { page: '', times: 0 };
  const server = await legacyServer(() => {}, {
    onGet: ({ headers }, response) => {
      if (headers.accept?.includes('text/html') !== true) return void response.writeHead(405).end();
      shown.times += 1;
      response.writeHead(200, { 'content-type': 'text/html' }).end(shown.page);
    },
  });
  stopAfterTest(() => server.stop());
  return { url: server.url, shown };
}

/** A server whose tool does something. */
async function toolServer() {
  const effects: unknown[] = [];
  const tools = {
    set: async ({ args }: { args: unknown }) => {
      effects.push(args);
      return 'done';
    },
  };
  const server = await LegacyServer.start({ tools });
  stopAfterTest(() => server.stop());
  return { url: server.url, effects };
}

/** A page whose script calls the tool at an address, and says what came of it. */
function attackOn(url: string): string {
  const params = { name: 'set', arguments: { to: 'PWNED' } };
  const request = {
    method: 'POST',
    headers: modernHeaders('tools/call', params),
    body: JSON.stringify(modernBody('tools/call', params)),
  };
  return `<title>a page</title><script>
    fetch(${JSON.stringify(url)}, ${JSON.stringify(request)})
      .then((response) => response.text())
      .then((text) => console.log('the page read: ' + text), (error) => console.log('the page failed: ' + error));
  </script>`;
}

async function newPage(): Promise<Page> {
  const page = await (await browser.newContext()).newPage();
  stopAfterTest(() => page.context().close());
  return page;
}

/** Opens a page. @returns what it said first in the console */
async function openHostile(url: string): Promise<string> {
  const page = await newPage();
  const said = page.waitForEvent('console', SOON);
  expect((await page.goto(url))?.status()).toBe(200);
  expect(await page.title()).toBe('a page');
  return (await said).text();
}

describe('a page of a server', BROWSER, () => {
  // Rule callers-10.
  test('cannot call another route of its gateway', async () => {
    const [hostile, other] = [await hostileServer(), await toolServer()];
    const routes = [
      { id: 'a', path: '/a', upstream: { url: hostile.url } },
      { id: 'b', path: '/b', upstream: { url: other.url } },
    ];
    const gateway = await replica(hostile, { relay: false, config: { routes } });
    const { origin } = new URL(gateway.url);
    hostile.shown.page = attackOn(`${origin}/b`);
    const said = await openHostile(`${origin}/a`);
    expect(other.effects).toEqual([]);
    expect(said).toMatch(/^Blocked script execution/);
  });

  // Rules callers-10, callers-3.
  test('cannot call another gateway of this machine', async () => {
    const [hostile, other] = [await hostileServer(), await toolServer()];
    const [one, two] = [
      await replica(hostile, { relay: false }),
      await replica(other, { relay: false }),
    ];
    hostile.shown.page = attackOn(two.url);
    for (const path of ['/mcp', '/any/page']) {
      const said = await openHostile(new URL(path, one.url).href);
      expect(other.effects).toEqual([]);
      expect(said).toMatch(/^Blocked script execution/);
    }
  });

  // Rule callers-3.
  test('cannot call a gateway from an origin of this machine that nobody listed', async () => {
    const other = await toolServer();
    const gateway = await replica(other, { relay: false });
    const said = await openHostile(await pageAt('127.0.0.1', attackOn(gateway.url)));
    expect(other.effects).toEqual([]);
    expect(said).toMatch(/blocked by CORS policy/);
  });

  // Rule callers-12.
  test('is not reached by a page of another site that sends its visitor there', async () => {
    const hostile = await hostileServer();
    const gateway = await replica(hostile, { relay: false });
    const sent = `<title>a page</title><meta http-equiv="refresh" content="0; url=${gateway.url}">`;
    const page = await newPage();
    // A name of this machine, and another site than its address.
    const arrived = page.waitForResponse(gateway.url, SOON);
    await page.goto(await pageAt('localhost', sent));
    expect((await arrived).status()).toBe(403);
    expect(hostile.shown.times).toBe(0);
  });
});

/** Serves a page that is none of a gateway. @returns its URL */
async function pageAt(host: string, page: string): Promise<string> {
  const server = createServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/html' }).end(page);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  stopAfterTest(async () => {
    server.closeAllConnections();
    server.close();
  });
  return `http://${host}:${(server.address() as AddressInfo).port}/`;
}
