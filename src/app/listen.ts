/** Makes an application listen, and explains to the operator why it cannot. */
import type { AddressInfo } from 'node:net';
import type { FastifyInstance } from 'fastify';
import type { ListenAddress } from '../config/units.ts';
import { StartFailure } from '../lib/start-failure.ts';

/**
 * Makes an application listen.
 * @param setting the flag or key of the address, for the message
 * @returns the origin of the listener
 * @throws StartFailure if the address is not available
 */
export async function listen(
  app: FastifyInstance,
  at: ListenAddress,
  setting: string,
): Promise<string> {
  try {
    await app.listen({ host: at.host, port: at.port });
  } catch (error) {
    throw startFailureOf(error, at, setting);
  }
  const { port } = app.server.address() as AddressInfo;
  const host = at.host.includes(':') ? `[${at.host}]` : at.host;
  return `http://${host}:${port}`;
}

function startFailureOf(error: unknown, { host, port }: ListenAddress, setting: string): unknown {
  const code = error instanceof Error && 'code' in error ? error.code : '';
  switch (code) {
    case 'EADDRINUSE':
      return new StartFailure(
        'port_in_use',
        `${host}:${port} is in use by another process; stop it or choose another address with ${setting}`,
      );
    case 'EACCES':
      return new StartFailure(
        'not_permitted',
        `not permitted to listen on ${host}:${port}; choose a port above 1023 with ${setting}`,
      );
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return new StartFailure(
        'address_unavailable',
        `${host} is not an address of this machine; choose another with ${setting}`,
      );
    default:
      return error;
  }
}
