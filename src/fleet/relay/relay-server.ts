/**
 * The HTTP server of the listener that only replicas can reach. It takes upgrades to kept connections (see `takeArrivals`), and
 * nothing else. Nobody gets memory before they show the key: of a request no body is read, and connections have a limit.
 */
import { createServer, type Server } from 'node:http';
import { takeArrivals, type Arrival } from './direct/handshake.ts';

const LIMITS = {
  requestTimeout: 30_000,
  headersTimeout: 10_000,
  connectionsCheckingInterval: 1_000,
};
/** Far more than replicas keep: each has one connection to each other one. */
const MAX_CONNECTIONS = 1_000;

/**
 * Creates the server, which does not listen yet.
 * @param onArrival takes each replica that wants to connect
 */
export function createRelayServer(onArrival: (arrival: Arrival) => void): Server {
  const server = createServer(LIMITS, (request, response) => {
    const status = request.method === 'POST' ? 421 : 404;
    response.writeHead(status, { connection: 'close' }).end();
  });
  server.maxConnections = MAX_CONNECTIONS;
  takeArrivals(server, onArrival);
  return server;
}
