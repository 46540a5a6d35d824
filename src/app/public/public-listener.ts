/** The public listener: the connections of clients. What serves their requests is replaced by a reload (`public-app.ts`). */
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http';
import fastify, { type FastifyInstance } from 'fastify';
import { WITHOUT_SCHEMAS } from '../../lib/http.ts';
import { ClientConnections, type ClientTimeouts } from '../../edge/http/connection.ts';
import { Members } from '../../lib/containers.ts';
import type { ListenAddress } from '../../config/units.ts';
import { listen } from '../listen.ts';

export class PublicListener {
  readonly connections: ClientConnections;
  readonly #app: FastifyInstance;
  #serve: RequestListener = (_request, response) => void response.writeHead(503).end();
  readonly #open = new Members<ServerResponse>();
  #isStopping = false;

  /** @param onStalled called with a request whose response is cut, since its client reads nothing of it */
  constructor(timeouts: ClientTimeouts, onStalled: (request: IncomingMessage) => void) {
    const connections = new ClientConnections(timeouts.writeStallMs, onStalled);
    this.connections = connections;
    this.#app = fastify({
      logger: false,
      schemaController: WITHOUT_SCHEMAS,
      // The framework disables Node's own limits; without them a slow client holds a socket forever.
      requestTimeout: timeouts.requestMs,
      keepAliveTimeout: timeouts.idleMs,
      http: {
        headersTimeout: timeouts.headMs,
        // The guard checks it, and responds in the gateway's own form.
        requireHostHeader: false,
        connectionsCheckingInterval: timeouts.checkEveryMs,
      },
      clientErrorHandler: (error, socket) => connections.refuse(error, socket),
      forceCloseConnections: true,
    });
    const serve: RequestListener = (request, response) => {
      const place = this.#open.add(response);
      response.on('close', () => place.leave());
      if (this.#isStopping) response.shouldKeepAlive = false;
      this.#serve(request, response);
    };
    connections.attach(this.#app.server, serve);
    // For a name with several addresses, the framework listens with further servers of its own.
    this.#app.addHook('onRequest', (request, reply) => {
      serve(request.raw, reply.hijack().raw);
    });
  }

  get server(): Server {
    return this.#app.server;
  }

  /** Has all requests served by this listener from here on. */
  serve(listener: RequestListener): void {
    this.#serve = listener;
  }

  /** @returns its origin. @throws StartFailure if it cannot listen */
  listen(at: ListenAddress, options?: { readonly reusePort: boolean }): Promise<string> {
    return listen(this.#app, at, '--listen HOST:PORT', options);
  }

  /** Has each connection closed after its response, so that clients connect to another process. */
  stopKeepingConnections(): void {
    this.#isStopping = true;
    for (const response of this.#open) response.shouldKeepAlive = false;
  }

  /** Closes all connections. */
  async close(): Promise<void> {
    await this.#app.close();
  }
}
