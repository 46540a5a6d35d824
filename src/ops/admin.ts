/** The admin listener: liveness, readiness and metrics. It is never on the public port. */
import fastify, { type FastifyInstance } from 'fastify';
import type { Metrics } from './metrics.ts';

export interface Readiness {
  readonly status: 'ready' | 'not ready' | 'draining';
  /** A word for each route, for readers of the body. */
  readonly routes: Readonly<Record<string, string>>;
}

/**
 * Creates the admin application. The caller starts and closes it.
 * @param isKnownHost tells whether a `Host` is that of the gateway. It stops DNS rebinding.
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
