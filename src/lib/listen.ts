/** Makes applications listen, and explains to the operator why they cannot. */
import { once } from 'node:events';
import { createServer, type AddressInfo, type Server } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { formatAddress, type ListenAddress } from './address.ts';
import { StartFailure } from './program.ts';

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
  return originOf(app.server, at);
}

export interface ListenOptions {
  /** Whether several processes listen on the port. */
  readonly reusePort?: boolean;
  /** The address of the host, if it is known already. */
  readonly host?: string;
}

/** Makes a server listen, as `listen` does an application. */
export async function listenAt(
  server: Server,
  at: ListenAddress,
  setting: string,
  options: ListenOptions = {},
): Promise<string> {
  try {
    server.listen({ host: at.host, port: at.port, ...options });
    await once(server, 'listening');
  } catch (error) {
    throw startFailureOf(error, at, setting);
  }
  return originOf(server, at);
}

/**
 * Demands that nobody listens at an address, by listening there for a moment.
 * @throws StartFailure if it is not available
 */
export async function expectFree(at: ListenAddress, setting: string): Promise<void> {
  const probe = createServer();
  await listenAt(probe, at, setting);
  probe.close();
  await once(probe, 'close');
}

/** So many gateways with default addresses can run on one machine. */
const PORTS_TRIED = 10;

/**
 * Finds the first address with a free port, from the given port upwards.
 * @param taken ports that are spoken for
 * @returns the given address if none is free, so that listening there explains why
 */
export async function nextFree(
  at: ListenAddress,
  taken: readonly number[] = [],
): Promise<ListenAddress> {
  for (let port = at.port; port < at.port + PORTS_TRIED; port += 1) {
    if (taken.includes(port)) continue;
    try {
      await expectFree({ ...at, port }, '');
      return { ...at, port };
    } catch (error) {
      if (!(error instanceof StartFailure && error.code === 'port_in_use')) return at;
    }
  }
  return at;
}

/** Tells whether processes can share a port on this platform. */
export async function canSharePorts(): Promise<boolean> {
  const probe = createServer();
  try {
    probe.listen({ host: '127.0.0.1', port: 0, reusePort: true });
    await once(probe, 'listening');
  } catch {
    return false;
  }
  probe.close();
  await once(probe, 'close');
  return true;
}

/** Returns the origin of a server that listens: its port differs from that of the address if that is 0. */
function originOf(server: Server, { host }: ListenAddress): string {
  const { port } = server.address() as AddressInfo;
  return `http://${formatAddress({ host, port })}`;
}

function startFailureOf(error: unknown, at: ListenAddress, setting: string): unknown {
  const address = formatAddress(at);
  const code = error instanceof Error && 'code' in error ? error.code : '';
  switch (code) {
    case 'EADDRINUSE':
      return new StartFailure(
        'port_in_use',
        `${address} is in use by another process; stop it or choose another address with ${setting}`,
      );
    case 'EACCES':
      return new StartFailure(
        'not_permitted',
        `not permitted to listen on ${address}; choose a port above 1023 with ${setting}`,
      );
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return new StartFailure(
        'address_unavailable',
        `${at.host} is not an address of this machine; choose another with ${setting}`,
      );
    default:
      return error;
  }
}
