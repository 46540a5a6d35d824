/** The live page on the admin listener, and what it reads. */
import type { FastifyInstance } from 'fastify';
import type { ServerResponse } from 'node:http';
import { cutWhenStalled } from '../../lib/responses.ts';
import type { LiveFeed } from './feed.ts';
import { readPage, type Page } from './page.ts';

/** A viewer that reads nothing for longer is gone. */
const STALLED_MS = 30_000;
const TOO_MANY = { status: 'too many viewers' };

export function serveLive(app: FastifyInstance, feed: LiveFeed): void {
  let page: Page | null = null;
  for (const path of ['/', '/live']) {
    app.get(path, async (_request, reply) => {
      page ??= readPage();
      return reply.headers(page.headers).send(page.html);
    });
  }
  app.addHook('onSend', async (_request, reply) => {
    // No page of another site reads what is here, or shows it in a frame.
    reply.header('cross-origin-resource-policy', 'same-origin');
    reply.header('x-content-type-options', 'nosniff');
  });
  app.get('/live.json', async (_request, reply) => {
    const json = await feed.current();
    return reply.type('application/json').header('cache-control', 'no-store').send(json);
  });
  app.get('/live/events', (_request, reply) => {
    const { raw } = reply;
    const stop = feed.watch({
      // Each snapshot is whole, so a viewer that is behind gets a later one.
      show: (json) => void (raw.writableLength === 0 && raw.write(`data: ${json}\n\n`)),
      end: () => raw.end(),
    });
    if (stop === null) return reply.code(503).header('retry-after', '5').send(TOO_MANY);
    reply.hijack();
    beginEvents(raw);
    raw.once('close', stop);
  });
  app.addHook('preClose', async () => feed.close());
}

function beginEvents(response: ServerResponse): void {
  response.writeHead(200, {
    'content-type': 'text/event-stream',
    'cache-control': 'no-store',
    connection: 'close',
  });
  response.flushHeaders();
  cutWhenStalled(response, STALLED_MS);
}
