/** The live page on the admin listener, and what it reads. */
import type { FastifyInstance } from 'fastify';
import type { ServerResponse } from 'node:http';
import { cutWhenStalled } from '../../lib/http.ts';
import type { LiveFeed } from './feed.ts';
import { readPage, type Page } from './page.ts';
import { asksToStop, stopOrder, type StopOrder } from './stop.ts';

/** A viewer that reads nothing for longer is gone. */
const STALLED_MS = 30_000;
const MAX_ORDER_BYTES = 1_024;
const TOO_MANY = { status: 'too many viewers' };
const NOT_ALLOWED = { status: 'not allowed: adminActions is not "cancel"' };
const NOT_FROM_HERE = { status: 'refused: expected the header x-mrtr-gateway-action: cancel' };
const NO_CALL = { status: 'expected {"call": ID}' };
const NOT_WAITING = { status: 'no such call waits for its client, or its stream is being resumed' };

/** What the operator can do. */
export interface LiveActions {
  /** Whether the operator allows to cancel calls from the live page. */
  mayStop(): boolean;
  /** Cancels a call that waits for its client, wherever it is. Resolves to false if it waits nowhere. */
  stop(order: StopOrder): Promise<boolean>;
}

export function serveLive(app: FastifyInstance, feed: LiveFeed, actions: LiveActions): void {
  let page: Page | null = null;
  for (const path of ['/', '/live']) {
    app.get(path, async (_request, reply) => {
      page ??= readPage();
      return reply.headers(page.headers).send(page.html);
    });
  }
  app.get('/live.json', async (_request, reply) => {
    const json = await feed.current();
    return reply.type('application/json').header('cache-control', 'no-store').send(json);
  });
  // The response to a HEAD would never end, and have the place of a viewer.
  app.get('/live/events', { exposeHeadRoute: false }, (_request, reply) => {
    const { raw } = reply;
    const stop = feed.watch({
      // Each snapshot is whole, so a viewer that is behind gets a later one.
      show: (json) => {
        if (raw.writableLength === 0) raw.write(`data: ${json}\n\n`);
      },
      end: () => raw.end(),
    });
    if (stop === null) return reply.code(503).header('retry-after', '5').send(TOO_MANY);
    reply.hijack();
    beginEvents(raw);
    raw.once('close', stop);
  });
  app.post('/live/cancel', { bodyLimit: MAX_ORDER_BYTES }, async (request, reply) => {
    if (!actions.mayStop()) return reply.code(403).send(NOT_ALLOWED);
    if (!asksToStop(request.headers)) return reply.code(403).send(NOT_FROM_HERE);
    const order = stopOrder.pick({ call: true }).safeParse(request.body);
    if (!order.success) return reply.code(400).send(NO_CALL);
    const isStopped = await actions.stop({ ...order.data, by: request.ip });
    return isStopped ? { status: 'cancelled' } : reply.code(404).send(NOT_WAITING);
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
