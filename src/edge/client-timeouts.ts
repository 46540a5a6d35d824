/** How long a client may take to send a request and to take its answer. */
import type { ServerResponse } from 'node:http';

export interface ClientTimeouts {
  /** From the first byte of a request to the end of its head, in ms. */
  readonly headMs: number;
  /** From the first byte of a request to its last, however slowly it drips, in ms. */
  readonly requestMs: number;
  /** How often connections are looked at for the two above, in ms. */
  readonly checkEveryMs: number;
  /** Between two requests on one connection, in ms. */
  readonly idleMs: number;
  /** How long bytes may wait for a client that takes none of them, in ms. */
  readonly writeStallMs: number;
}

export const CLIENT_TIMEOUTS: ClientTimeouts = {
  headMs: 10_000,
  requestMs: 30_000,
  checkEveryMs: 1_000,
  // Longer than the 60 s of the usual load balancers, which then close first.
  idleMs: 65_000,
  writeStallMs: 60_000,
};

/**
 * Cuts the connection when bytes of this response wait and the client takes none of them for so long.
 * A stream on which nothing is to be sent may stay silent.
 * @param afterMs how long nothing may move, in ms
 */
export function cutWhenStalled(response: ServerResponse, afterMs: number): void {
  // Progress of a write counts as activity of the socket, so this comes only when there was none.
  response.setTimeout(afterMs, () => {
    if (response.writableLength > 0) response.destroy();
  });
}
