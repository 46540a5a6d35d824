/** The one relay listener of a gateway with several workers. */
import type { Server } from 'node:http';
import type { ListenAddress } from '../lib/address.ts';
import { refuse, type Arrival } from '../fleet/relay/direct/handshake.ts';
import { createRelayServer } from '../fleet/relay/relay-server.ts';
import { listenAt } from '../lib/listen.ts';

/**
 * The one relay listener of a gateway with several workers. It reads which process a replica wants to reach, and passes
 * the connection on to that worker. No byte of a retry goes through the primary.
 */
export class RelayListener {
  readonly #server: Server;

  /** @param pass passes a connection to the worker that it names. Returns false if there is none. */
  constructor(pass: (arrival: Arrival) => boolean) {
    this.#server = createRelayServer((arrival) => {
      if (!pass(arrival)) refuse(arrival.socket);
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
