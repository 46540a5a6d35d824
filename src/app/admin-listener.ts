/** The admin listener of a gateway, if one is configured. */
import { isIP } from 'node:net';
import type { ListenAddress } from '../lib/address.ts';
import { hostName } from '../edge/http/guard.ts';
import type { Clock } from '../lib/clock.ts';
import { isLoopbackHost } from '../lib/http.ts';
import { createAdmin, type AdminSource } from '../ops/admin.ts';
import { listen } from '../lib/listen.ts';

export interface AdminListener {
  /** @returns its URL, or `null` if there is none. @throws StartFailure if it cannot listen */
  listen(): Promise<string | null>;
  close(): Promise<void>;
}

/** @param at `null` if there is no admin listener */
export function createAdminListener(
  at: ListenAddress | null,
  source: AdminSource,
  clock: Clock,
): AdminListener {
  if (at === null) return { listen: async () => null, close: async () => {} };
  const app = createAdmin(source, knownHosts(at), clock);
  return {
    listen: () => listen(app, at, '--admin HOST:PORT'),
    close: () => app.close(),
  };
}

/**
 * Names that no web page can point at this machine: without a dot, or of domains that the public DNS does not have (RFC 6762,
 * RFC 8375, `.internal`, and `.svc` of Kubernetes).
 */
const PRIVATE_NAME = /^(?:[^.]+|.+\.(?:home\.arpa|internal|local|svc))$/;
/** Load balancers ask for these by any name, and they say little. */
const PROBED = ['/healthz', '/readyz'];

/** Creates the check of the `Host`. On loopback only names of this machine are known. */
function knownHosts(at: ListenAddress): (host: string, path: string) => boolean {
  if (isLoopbackHost(at.host)) return (host) => isLoopbackHost(hostName(host) ?? '');
  return (host, path) => {
    // A browser always sends it.
    if (host === '' || PROBED.includes(path)) return true;
    const name = hostName(host)?.replace(/^\[|\]$/g, '') ?? '';
    if (isIP(name) !== 0 || isLoopbackHost(name)) return true;
    return PRIVATE_NAME.test(name) || name === at.host.toLowerCase();
  };
}
