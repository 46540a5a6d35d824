/**
 * The HTTP server of the listener that only replicas can reach. It takes upgrades to kept connections (see `takeArrivals`), and
 * asks of peers. Nobody gets memory before they show the key: of a request little is read, and connections have a limit.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { MAX_MESSAGE_BYTES, PEERS_PATH } from '../peers/peer-messages.ts';
import type { Peers } from '../peers/peers.ts';
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
 * @param peers `null` if homes are not found among peers
 * @param onArrival takes each replica that wants to connect
 */
export function createRelayServer(
  peers: Pick<Peers, 'serve'> | null,
  onArrival: (arrival: Arrival) => void,
): Server {
  const server = createServer(LIMITS, (request, response) => {
    if (request.method !== 'POST') return void response.writeHead(404).end();
    if (peers !== null && request.url === PEERS_PATH) void servePeer(peers, request, response);
    else response.writeHead(421, { connection: 'close' }).end();
  });
  server.maxConnections = MAX_CONNECTIONS;
  takeArrivals(server, onArrival);
  return server;
}

/** Answers another gateway that asks about homes. */
async function servePeer(
  peers: Pick<Peers, 'serve'>,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  let sealed = '';
  try {
    for await (const chunk of request.setEncoding('latin1')) {
      sealed += chunk;
      if (sealed.length > MAX_MESSAGE_BYTES) return void response.destroy();
    }
  } catch {
    return;
  }
  const { status, reply } = await peers.serve(sealed);
  response.writeHead(status).end(reply);
}
