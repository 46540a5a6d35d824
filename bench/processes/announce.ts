/** How a process of the benchmark tells its parent where it listens. */
import type { Server } from 'node:http';

/** Sends the port of a server that listens to the parent. */
export function announcePort(server: Server): void {
  const address = server.address();
  if (address === null || typeof address === 'string')
    throw new Error('the server does not listen');
  process.send?.({ port: address.port });
}
