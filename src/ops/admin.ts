/** The operator's listener: is the process alive, is it ready, what does it count. Never on the public port. */
import fastify, { type FastifyInstance } from 'fastify';
import type { Metrics } from './metrics.ts';

export interface Readiness {
  readonly status: 'ready' | 'not ready' | 'draining';
  /** A word for each route, for whoever reads the body. */
  readonly routes: Readonly<Record<string, string>>;
}

/**
 * The admin application; the caller makes it listen and closes it.
 * @param isKnownHost whether a `Host` may be ours; a page may have rebound its own name to this machine
 */
export function createAdmin(
  metrics: Metrics,
  readiness: () => Readiness,
  isKnownHost: (host: string) => boolean,
): FastifyInstance {
  const app = fastify({ logger: false, requestTimeout: 10_000 });
  app.addHook('onRequest', async ({ headers: { host = '' } }, reply) => {
    if (!isKnownHost(host)) return reply.code(403).send({ status: 'unknown Host' });
  });
  app.get('/healthz', () => ({ status: 'ok' }));
  app.get('/readyz', (_request, reply) => {
    const state = readiness();
    return reply.code(state.status === 'ready' ? 200 : 503).send(state);
  });
  app.get('/metrics', async (_request, reply) => {
    return reply.type(metrics.contentType).send(await metrics.text());
  });
  return app;
}
