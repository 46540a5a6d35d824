/** The admin listener: liveness, readiness, metrics and the live page. It is never on the public port. */
import type { IncomingHttpHeaders } from 'node:http';
import fastify, { type FastifyInstance } from 'fastify';
import { pathOf, WITHOUT_SCHEMAS } from '../lib/http.ts';
import { Registry } from 'prom-client';
import type { Clock } from '../lib/clock.ts';
import { LiveFeed } from './live/feed.ts';
import { serveLive, type LiveActions } from './live/routes.ts';
import type { LiveSnapshot } from './live/snapshot.ts';

export interface Readiness {
  readonly status: 'ready' | 'not ready' | 'draining';
  /** A word for each route, for readers of the body. */
  readonly routes: Readonly<Record<string, string>>;
  /** What keeps the gateway from identifying callers. */
  readonly identity?: string;
  /** What the start waits for of Redis. */
  readonly redis?: string;
}

/** When it makes sense to ask again: another process can be ready by then. */
const RETRY_AFTER_SECONDS = 1;

/** What the admin listener shows. */
export interface AdminSource extends LiveActions {
  /** Resolves to false if a part of the gateway does not respond. */
  health(): Promise<boolean>;
  readiness(): Promise<Readiness>;
  /** The text of all metrics. */
  metrics(): Promise<string>;
  /** What the live page shows. */
  live(): Promise<LiveSnapshot>;
}

/** Pages of other sites can link to these, and show them in no frame. */
const PAGES = ['/', '/live'];
const UNKNOWN_HOST = {
  status: 'unknown Host: expected an IP address, localhost, a name without dots, or that in admin',
};
const OTHER_SITE = { status: 'refused: a page of another site asks for this' };

/**
 * Creates the admin application. The caller starts and closes it.
 * @param isKnownHost tells whether a `Host` is that of the gateway, for this path. It stops DNS rebinding.
 */
export function createAdmin(
  source: AdminSource,
  isKnownHost: (host: string, path: string) => boolean,
  clock: Clock,
): FastifyInstance {
  const app = fastify({
    logger: false,
    schemaController: WITHOUT_SCHEMAS,
    requestTimeout: 10_000,
    // Otherwise the end of the process waits for each connection on which no whole request has come.
    forceCloseConnections: true,
  });
  app.addHook('onRequest', async ({ headers, url }, reply) => {
    const path = pathOf(url);
    // No page of another site reads what is here, or shows it in a frame. Event streams are written without the framework.
    reply.raw.setHeader('cross-origin-resource-policy', 'same-origin');
    reply.raw.setHeader('x-content-type-options', 'nosniff');
    if (!isKnownHost(headers.host ?? '', path)) return reply.code(403).send(UNKNOWN_HOST);
    if (isOfOtherSite(headers) && !PAGES.includes(path)) return reply.code(403).send(OTHER_SITE);
  });
  app.get('/healthz', async (_request, reply) => {
    if (await source.health()) return { status: 'ok' };
    return reply.code(503).send({ status: 'not responding' });
  });
  app.get('/readyz', async (_request, reply) => {
    const state = await source.readiness();
    if (state.status !== 'ready') reply.code(503).header('retry-after', RETRY_AFTER_SECONDS);
    return state;
  });
  app.get('/metrics', async (_request, reply) => {
    return reply.type(Registry.PROMETHEUS_CONTENT_TYPE).send(await source.metrics());
  });
  serveLive(app, new LiveFeed(() => source.live(), clock), source);
  return app;
}

/** Tells whether a page of another site has its browser send this. Where a browser sends `Sec-Fetch-Site`, that decides. */
function isOfOtherSite({
  host = '',
  origin,
  'sec-fetch-site': site,
}: IncomingHttpHeaders): boolean {
  if (site !== undefined) return site !== 'same-origin' && site !== 'none';
  return origin !== undefined && URL.parse(origin)?.host !== host.toLowerCase();
}
