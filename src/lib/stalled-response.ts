/** Disconnects clients that stop reading. */
import type { ServerResponse } from 'node:http';

/**
 * Closes the connection if bytes of this response wait and the client reads none of them. A stream with
 * nothing to send can stay silent.
 * @param afterMs how long the client can read nothing, in ms
 */
export function cutWhenStalled(response: ServerResponse, afterMs: number): void {
  // The progress of a write counts as socket activity, so the timeout means that there was none.
  response.setTimeout(afterMs, () => {
    if (response.writableLength > 0) response.destroy();
  });
}
