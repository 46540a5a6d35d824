/** The HTTP framework as the public side uses it: its handlers read, or stream, the bodies themselves. */
import fastify, { type FastifyInstance, type FastifyServerOptions } from 'fastify';
import { WITHOUT_SCHEMAS } from '../../lib/http.ts';

/** Creates an application that reads no body. */
export function createStreamingApp(options: FastifyServerOptions): FastifyInstance {
  const app = fastify({
    logger: false,
    schemaController: WITHOUT_SCHEMAS,
    return503OnClosing: false,
    exposeHeadRoutes: false,
    ...options,
  });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', (_request, payload, done) => done(null, payload));
  return app;
}
