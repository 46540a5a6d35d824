/** The keys of `edge`: how requests of clients are accepted and answered. */
import { isIP } from 'node:net';
import { checked, choice, list, section, text } from './fields.ts';

export const edge = section({
  allowedOrigins: list(
    'origins',
    checked(isOrigin, 'an origin such as https://app.example (no path, no *)', 'origin'),
    'Origins of browser clients that are allowed, those of this machine included.',
  ),
  allowedHosts: list(
    'host names',
    text(/^[a-z0-9.-]{1,253}$/, 'a host name in lower case, without a port', 'host name'),
    'Additional `Host` names that a gateway on loopback accepts, such as that of a proxy in front. Callers without credentials are then not the local user, and get a session for each call.',
  ),
  trustedProxies: list(
    'IP addresses and networks',
    checked(isNetwork, 'an IP address or a network such as 10.0.0.0/8', 'IP address or network'),
    'Proxies that can set `identity.header`, and whose `X-Forwarded-For`, `-Host` and `-Proto` reach the server; those of other peers are dropped. Callers without credentials are then not the local user, and get a session for each call.',
  ),
  legacyClients: choice(
    ['pass-through', 'reject'],
    'pass-through',
    'Whether clients of older revisions, and requests to other paths of a single server, are passed through. `/.well-known/` is always passed through.',
  ),
})
  .prefault({})
  .describe('The public side.');

/** Checks an IP address, or a network with the length of its prefix. */
function isNetwork(written: string): boolean {
  const [, address = '', bits = '0'] = /^([^/]*)(?:\/(\d{1,3}))?$/.exec(written) ?? [];
  const family = isIP(address);
  return family !== 0 && Number(bits) <= (family === 4 ? 32 : 128);
}

function isOrigin(written: string): boolean {
  return URL.parse(written)?.origin === written;
}
