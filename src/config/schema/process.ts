/** The keys of the process: workers, limits, drain, log, and the secrets of `seal`. */
import { z } from 'zod';
import {
  choice,
  count,
  countOrAuto,
  countOrOff,
  duration,
  section,
  size,
  text,
  NAME,
} from './fields.ts';

export const workers = countOrAuto(
  1,
  { min: 1, max: 128 },
  'How many processes serve the clients, which share the limits. `auto` is one for each core. Changes need a restart.',
);

export const limits = section({
  maxBody: size(
    '4MiB',
    '1KiB',
    '256MiB',
    'The largest request body. With `relay` or several workers, changes need a restart.',
  ),
  maxRunningCalls: count(
    10_000,
    { min: 1, max: 1_000_000 },
    'The maximum number of running calls, over all routes. The last twentieth is for callers that have less than half of them.',
  ),
  maxParkedCalls: count(
    10_000,
    { min: 1, max: 1_000_000 },
    'The maximum number of parked calls and tasks, over all routes. Anonymous callers together have half of it.',
  ),
  maxParkedCallsPerPrincipal: count(
    100,
    { min: 1, max: 1_000_000 },
    'The maximum number of parked calls and tasks of one principal.',
  ),
  maxConnections: count(
    20_000,
    { min: 1, max: 1_000_000 },
    'The maximum number of client connections. Responses that are passed through to one caller take at most half of them.',
  ),
  maxMemoryPercent: countOrOff(
    80,
    { min: 10, max: 99 },
    'The memory in use, in percent of the limit of the container or the heap, above which a process refuses additional calls with `overloaded`, but serves retries. As memory use grows, it allows fewer.',
  ),
})
  .prefault({})
  .describe('Limits on what clients can use.');

export const drain = section({
  delay: duration(
    '0s',
    '0s',
    '10m',
    'How long `/readyz` reports 503 while requests are still accepted, so that load balancers stop sending them.',
  ),
  // With the timeout and what ends after it, it fits into the 90 s that systemd waits.
  parked: duration(
    '50s',
    '0s',
    '1d',
    'How long, after `drain.delay`, parked calls that no other process can continue are kept and their retries served. The drain ends earlier if all of them are answered. `0s`: they end at once.',
  ),
  timeout: duration(
    '25s',
    '0s',
    '1d',
    'How long, after `drain.delay` and `drain.parked`, running calls have to finish.',
  ),
})
  .prefault({})
  .describe('What happens on SIGTERM or SIGINT, and on SIGHUP where there is nothing to reload.');

export const log = section({
  level: choice(
    ['trace', 'debug', 'info', 'warn', 'error', 'fatal'],
    'info',
    'The least severe level that is logged.',
  ),
  format: choice(
    ['auto', 'json', 'pretty'],
    'auto',
    '`auto` is pretty on a terminal and JSON elsewhere. Changes need a restart.',
  ),
})
  .prefault({})
  .describe('The log, on standard error.');

const SEAL_KEY = /^[A-Za-z0-9_-]{43}=?$/;
const SECRET_BYTES = 32;

export const seal = section({
  keys: z
    .array(
      section(
        {
          kid: text(NAME, 'a name (letters, digits, "_" and "-", at most 64)', 'name').describe(
            'The public name of the key.',
          ),
          key: text(
            SEAL_KEY,
            `${SECRET_BYTES} bytes as base64url, as "mrtr-gateway keygen" prints them`,
            `${SECRET_BYTES} bytes as base64url`,
          )
            .transform((written) => written.replace(/=$/, ''))
            .describe('The secret: 32 random bytes. Can be a `file:/path` reference.'),
        },
        'a map with kid and key',
      ),
      { error: 'a list of keys, each with kid and key' },
    )
    .max(16, { error: 'at most 16 keys' })
    .meta({ title: 'list' })
    .prefault([])
    .describe(
      'The first key encrypts; all keys decrypt. Without one, a key is generated at start, and parked calls do not survive a restart. To add the first one or remove the last one needs a restart.',
    ),
  audience: text(/^[\x21-\x7e]{1,128}$/, 'a name of 1 to 128 printable ASCII characters', 'name')
    .default('mrtr-gateway')
    .describe(
      'The name of the deployment, which all its replicas share and no other deployment uses. Changes need a restart.',
    ),
})
  .prefault({})
  .describe('How pointers to parked calls are sealed.');
