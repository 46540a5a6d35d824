/** The addresses at which a process listens, as people write them and as the code uses them. */
import { isIPv6 } from 'node:net';

export interface ListenAddress {
  readonly host: string;
  /** `0` means any free port. */
  readonly port: number;
}

export const ADDRESS = /^(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]*)):(\d{1,5})$/;
const ALL_INTERFACES = '0.0.0.0';
const MAX_PORT = 65_535;

/** Parses `127.0.0.1:8080`, `localhost:0`, `[::1]:8080`, or `:8080` for all IPv4 interfaces. @returns `null` for anything else */
export function parseAddress(text: string): ListenAddress | null {
  const match = ADDRESS.exec(text);
  if (match === null) return null;
  const [, ipv6, name, digits] = match;
  const port = Number(digits);
  if (port > MAX_PORT || (ipv6 !== undefined && !isIPv6(ipv6))) return null;
  return { host: ipv6 ?? (name === undefined || name === '' ? ALL_INTERFACES : name), port };
}

/** Formats an address, with brackets around IPv6. */
export function formatAddress({ host, port }: ListenAddress): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}
