/** Responses that nobody takes. */
import type { ServerResponse } from 'node:http';

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
