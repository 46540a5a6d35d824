/** Clients that wait with a body until they are told to go on (RFC 9110, section 10.1.1). */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { FastifyInstance } from 'fastify';

/**
 * Tells them once the headers have passed every check, so that nobody uploads what is refused anyway.
 * To be installed before the server listens; left alone, Node tells everybody at once.
 */
export function continueAfterChecks(app: FastifyInstance): void {
  const waiting = new WeakSet<ServerResponse>();
  app.server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    waiting.add(response);
    app.server.emit('request', request, response);
  });
  app.addHook('preParsing', (_request, { raw }, payload, next) => {
    if (waiting.delete(raw)) raw.writeContinue();
    next(null, payload);
  });
}
