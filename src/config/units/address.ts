/** Addresses to listen on, as people write them. */
import { isIPv6 } from 'node:net';

export interface ListenAddress {
  readonly host: string;
  /** `0` lets the system choose. */
  readonly port: number;
}

export const ADDRESS = /^(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]*)):(\d{1,5})$/;
const ALL_INTERFACES = '0.0.0.0';
const MAX_PORT = 65_535;

/** In: `127.0.0.1:8080`, `localhost:0`, `[::1]:8080`, or `:8080` for all interfaces. Out: `null` if it is none of these. */
export function parseAddress(text: string): ListenAddress | null {
  const match = ADDRESS.exec(text);
  if (match === null) return null;
  const [, ipv6, name, digits] = match;
  const port = Number(digits);
  if (port > MAX_PORT || (ipv6 !== undefined && !isIPv6(ipv6))) return null;
  return { host: ipv6 ?? (name === undefined || name === '' ? ALL_INTERFACES : name), port };
}

/** In: an address. Out: its text, with brackets around IPv6. */
export function formatAddress({ host, port }: ListenAddress): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

/** True when only this machine can reach the host. */
export function isLoopback(host: string): boolean {
  const name = host.replace(/^\[|\]$/g, '').toLowerCase();
  return name === 'localhost' || name === '::1' || /^127\.\d+\.\d+\.\d+$/.test(name);
}
