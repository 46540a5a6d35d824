/** The one relay listener of a gateway with several workers. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { ListenAddress } from '../../config/units.ts';
import { MAX_MESSAGE_BYTES, PEERS_PATH } from '../../replicas/peers/peer-messages.ts';
import type { Peers } from '../../replicas/peers/peers.ts';
import {
  refuseArrival,
  takeArrivals,
  type Arrival,
} from '../../replicas/relay/direct/handshake.ts';
import { listenAt } from '../listen.ts';

/**
 * The one relay listener of a gateway with several workers. It reads which process a replica wants to reach, and passes
 * the connection on to that worker. No byte of a retry goes through the primary.
 */
export class RelayListener {
  readonly #server: Server;

  /**
   * @param pass passes a connection to the worker that it names. Returns false if there is none.
   * @param peers `null` if homes are not found among peers
   */
  constructor(pass: (arrival: Arrival) => boolean, peers: Peers | null) {
    this.#server = createServer((request, response) => {
      if (peers !== null && request.url === PEERS_PATH) void servePeer(peers, request, response);
      // A replica of an earlier version, whose message does not name a worker.
      else response.writeHead(503, { connection: 'close' }).end();
    });
    takeArrivals(this.#server, (arrival) => {
      if (!pass(arrival)) refuseArrival(arrival);
    });
  }

  /** @returns its origin. @throws StartFailure if it cannot listen */
  async listen(at: ListenAddress): Promise<string> {
    return listenAt(this.#server, at, 'relay.listen');
  }

  /** Connections that were passed on stay open. */
  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }
}

/** Answers another gateway that asks about homes. */
async function servePeer(
  peers: Peers,
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
