/** The keys of the process itself: the public side, its limits, the drain, the log. */
import { isIP } from 'node:net';
import { z } from 'zod';
import { choice, count, duration, section, size, text } from './fields.ts';

export const edge = section({
  allowedOrigins: z
    .array(
      z
        .string({ error: 'an origin such as https://app.example' })
        .refine(isOrigin, { error: 'an origin such as https://app.example (no path, no *)' })
        .meta({ title: 'origin' }),
      { error: 'a list of origins' },
    )
    .meta({ title: 'list of origins' })
    .prefault([])
    .describe(
      'Origins of browser clients that may call. Loopback origins may where the gateway listens on loopback.',
    ),
  allowedHosts: z
    .array(text(/^[a-z0-9.-]{1,253}$/, 'a host name in lower case, without a port', 'host name'), {
      error: 'a list of host names',
    })
    .meta({ title: 'list of host names' })
    .prefault([])
    .describe(
      'Names under which a gateway that listens on loopback may be called, such as that of the proxy in front of it. Elsewhere every name may be used.',
    ),
  trustedProxies: z
    .array(
      z
        .string({ error: 'an IP address or a network such as 10.0.0.0/8' })
        .refine(isNetwork, { error: 'an IP address or a network such as 10.0.0.0/8' })
        .meta({ title: 'IP address or network' }),
      { error: 'a list of IP addresses and networks' },
    )
    .meta({ title: 'list of IP addresses and networks' })
    .prefault([])
    .describe(
      'Proxies whose `X-Forwarded-For`, `-Host` and `-Proto` are told to the server. Those of everybody else are dropped.',
    ),
  legacyClients: choice(
    ['pass-through', 'reject'],
    'pass-through',
    'What becomes of clients that speak an older revision themselves, and of the other paths of a single server; `/.well-known/` stays open.',
  ),
  commitAfter: duration(
    '5s',
    '0s',
    '5m',
    'After this long without an outcome an answer becomes an event stream.',
  ),
  keepAlive: duration('15s', '1s', '5m', 'How often a silent event stream gets a comment.'),
})
  .prefault({})
  .describe('The public side.');

export const limits = section({
  maxBody: size('4MiB', '1KiB', '256MiB', 'The largest request body.'),
  maxJsonDepth: count(64, { min: 8, max: 512 }, 'How deep JSON may nest.'),
  maxRunningCalls: count(
    10_000,
    { min: 1, max: 1_000_000 },
    'Calls that run at once, over all routes.',
  ),
  maxParkedCalls: count(
    10_000,
    { min: 1, max: 1_000_000 },
    'Calls that wait for answers at once, over all routes.',
  ),
  maxParkedCallsPerPrincipal: count(
    100,
    { min: 1, max: 1_000_000 },
    'Calls of one principal that wait for answers at once.',
  ),
  maxConnections: count(20_000, { min: 1, max: 1_000_000 }, 'Connections of clients at once.'),
})
  .prefault({})
  .describe('Bounds on what clients may use.');

export const drain = section({
  delay: duration(
    '0s',
    '0s',
    '10m',
    'How long readiness says no while requests are still taken, so that load balancers notice.',
  ),
  parked: duration(
    '0s',
    '0s',
    '1d',
    'How long parked calls that no other process can take up are then kept, and their retries served.',
  ),
  timeout: duration('25s', '0s', '1d', 'How long running calls may then take to finish.'),
})
  .prefault({})
  .describe('What happens on SIGTERM, SIGINT or SIGHUP.');

export const log = section({
  level: choice(
    ['trace', 'debug', 'info', 'warn', 'error', 'fatal'],
    'info',
    'The least severe level that is logged.',
  ),
  format: choice(
    ['auto', 'json', 'pretty'],
    'auto',
    '`auto` is pretty on a terminal and JSON elsewhere.',
  ),
})
  .prefault({})
  .describe('The log, on standard error.');

/** An address, or one with the length of its prefix. */
function isNetwork(written: string): boolean {
  const [, address = '', bits = '0'] = /^([^/]*)(?:\/(\d{1,3}))?$/.exec(written) ?? [];
  const family = isIP(address);
  return family !== 0 && Number(bits) <= (family === 4 ? 32 : 128);
}

function isOrigin(written: string): boolean {
  return URL.canParse(written) && new URL(written).origin === written;
}
