/**
 * The configuration file: every key with its form, its default and its meaning. The reference in the
 * documentation and the JSON Schema for editors are made from this.
 */
import { isIP } from 'node:net';
import { z } from 'zod';
import {
  address,
  addressOrOff,
  choice,
  count,
  duration,
  durationOrOff,
  flag,
  size,
  text,
} from './fields.ts';
import { redis, relay } from './replicas.ts';

const NAME = /^[A-Za-z0-9_-]{1,64}$/;
const PATH = /^\/$|^(?!.*\/\.{1,2}(?:\/|$))(?:\/[A-Za-z0-9._~-]+)+$/;
const HEADER_NAME = /^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$/;
/** RFC 9110, section 5.5, without the obsolete octets. */
const HEADER_VALUE = /^[\t\x20-\x7e]*$/;
const SEAL_KEY = /^[A-Za-z0-9_-]{43}=?$/;
const SECRET_BYTES = 32;
/** What we, HTTP or MCP itself must set, lest requests upstream break. */
const OUR_HEADERS = new Set([
  'accept',
  'accept-encoding',
  'connection',
  'content-encoding',
  'content-length',
  'content-type',
  'expect',
  'host',
  'keep-alive',
  'last-event-id',
  'mcp-protocol-version',
  'mcp-session-id',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

const upstreamUrl = z
  .string({ error: 'an http or https URL' })
  .transform((written, context): URL => {
    const problem = urlProblem(written);
    if (problem === null) return new URL(written);
    context.addIssue({ code: 'custom', message: problem });
    return z.NEVER;
  })
  .meta({ title: 'URL' })
  .describe('Where the legacy MCP server answers.');

function urlProblem(written: string): string | null {
  const url = URL.canParse(written) ? new URL(written) : null;
  if (url === null || !['http:', 'https:'].includes(url.protocol)) return 'an http or https URL';
  if (url.username !== '' || url.password !== '') {
    return 'a URL without credentials in it (use upstream.headers)';
  }
  return url.hash === '' ? null : 'a URL without a fragment';
}

const headers = z
  .record(
    z.string(),
    text(HEADER_VALUE, 'a header value (text of printable ASCII characters)', 'text'),
    { error: 'a map of header names to texts' },
  )
  .superRefine((entries, context) => {
    const seen = new Set<string>();
    for (const name of Object.keys(entries)) {
      const lower = name.toLowerCase();
      const problem = !HEADER_NAME.test(name)
        ? 'names that are HTTP header names'
        : OUR_HEADERS.has(lower) || lower.startsWith('proxy-')
          ? `no header ${lower}, which the gateway itself sets or leaves out`
          : seen.has(lower)
            ? `the header ${lower} once only`
            : null;
      seen.add(lower);
      if (problem !== null) context.addIssue({ code: 'custom', message: problem });
    }
  })
  .transform((entries): Record<string, string> =>
    Object.fromEntries(Object.entries(entries).map(([name, value]) => [name.toLowerCase(), value])),
  )
  .meta({ title: 'map of header names to texts' })
  .prefault({})
  .describe(
    'Headers set on every request to `upstream.url`, and to where an HTTP+SSE server wants messages posted; they win over those of the client. No other path gets them. Values may be `file:/path` references.',
  );

const upstream = z
  .strictObject(
    {
      url: upstreamUrl,
      transport: choice(
        ['auto', 'streamable-http', 'http-sse'],
        'auto',
        'How the server speaks; `auto` finds out, as clients do: Streamable HTTP first, then HTTP+SSE.',
      ),
      headers,
      authorization: choice(
        ['forward', 'strip'],
        'forward',
        "What becomes of the client's `Authorization` header.",
      ),
      connectTimeout: duration('5s', '10ms', '5m', 'How long a connection may take to be made.'),
      headersTimeout: duration(
        '60s',
        '100ms',
        '1h',
        'How long the head of an answer may take, and the whole answer of a request that cannot ask anything.',
      ),
      maxBody: size('16MiB', '1KiB', '1GiB', 'The largest body that is read from the server.'),
      maxEvent: size('4MiB', '1KiB', '256MiB', 'The largest single event of a stream.'),
      pingInterval: duration(
        '60s',
        '1s',
        '1h',
        'How often a session that waits for answers is pinged, so that the server keeps it.',
      ),
      statefulWithoutSessionId: flag(
        false,
        'The server keeps state although it hands out no session id (one process, one session).',
      ),
    },
    { error: 'a map with at least a url' },
  )
  .describe('The legacy MCP server.');

const sessions = z
  .strictObject(
    {
      scope: z
        .enum(['principal', 'call', 'shared'], { error: 'one of principal, call, shared' })
        .meta({ title: '`principal`, `call`, `shared`' })
        .optional()
        .describe(
          'Who shares an upstream session. Left out: one per `call` for anonymous callers, one per `principal` for others.',
        ),
      idleTimeout: duration(
        '5m',
        '0s',
        '1d',
        'How long an idle session is kept for the next call.',
      ),
      maxIdle: count(8, { min: 0, max: 10_000 }, 'How many idle sessions are kept.'),
    },
    { error: 'a map' },
  )
  .prefault({})
  .describe('Sessions with the legacy server.');

const calls = z
  .strictObject(
    {
      maxDuration: duration(
        '1h',
        '1s',
        '7d',
        'How long the server may work on a call while a client is attached.',
      ),
      maxHold: durationOrOff(
        'off',
        '1s',
        '1d',
        'After this long without an outcome the client is told to call again, so that no connection outlives the timeout of a load balancer. Its calls attach again; each takes one of `parking.maxRounds`.',
      ),
    },
    { error: 'a map' },
  )
  .prefault({})
  .describe('Calls that the server works on.');

const parking = z
  .strictObject(
    {
      ttl: duration('10m', '1s', '7d', 'How long one round of questions may wait for its answers.'),
      callTtl: duration('1h', '1s', '7d', 'How long a call may take over all its rounds.'),
      maxRounds: count(10, { min: 1, max: 1000 }, 'How many rounds of questions a call may have.'),
      redeliver: duration(
        '2m',
        '0s',
        '1h',
        'How long an outcome is kept for a retry that is sent twice.',
      ),
      release: choice(
        ['never', 'when-resumable'],
        'never',
        'Whether a parked call is let go at once, so that it takes no memory and no connection, where the server keeps its events and any replica can read on. `mrtr-gateway probe` tells whether it does. Needs `continuation.reattach`.',
      ),
    },
    { error: 'a map' },
  )
  .prefault({})
  .describe('Calls that wait for answers.');

const continuation = z
  .strictObject(
    {
      reattach: flag(
        true,
        'Whether a call whose replica is gone is read on by another one, where the server keeps its events.',
      ),
      replay: z
        .strictObject(
          {
            tools: z
              .array(
                z.string({ error: 'the name of a tool' }).min(1, { error: 'the name of a tool' }),
                {
                  error: 'a list of tool names',
                },
              )
              .meta({ title: 'list of names' })
              .prefault([])
              .describe(
                'Tools that may be called anew when a call is lost. Their side effects may then happen twice.',
              ),
            annotated: flag(
              false,
              'Whether tools that the server annotates as read-only or idempotent may be called anew as well.',
            ),
          },
          { error: 'a map' },
        )
        .prefault({})
        .describe(
          'Calls that are made anew when nothing else can save them: the questions that they repeat are answered from what was answered before.',
        ),
    },
    { error: 'a map' },
  )
  .prefault({})
  .describe('What becomes of a parked call whose replica or whose server lost it.');

const tools = z
  .strictObject(
    {
      parameterHeaders: choice(
        ['strip', 'validate'],
        'strip',
        'What becomes of `x-mcp-header` annotations: `strip` takes them out, so that clients send no such headers, which no legacy server reads; `validate` leaves them and checks the headers of every call against its arguments, for proxies that route on them.',
      ),
    },
    { error: 'a map' },
  )
  .prefault({})
  .describe('How tools of the server are shown to clients.');

const caching = z
  .strictObject(
    {
      listTtl: duration(
        '0s',
        '0s',
        '1d',
        'How long clients may keep lists of tools, prompts and resources.',
      ),
      resourceTtl: duration(
        '0s',
        '0s',
        '1d',
        'How long clients may keep a resource that they read.',
      ),
      scope: choice(
        ['private', 'public'],
        'private',
        'Who may share what is kept: `public` only where every caller is shown the same.',
      ),
      serveLists: flag(
        false,
        'Whether the gateway itself answers lists from what it got last, for `caching.listTtl` and until the server says that they changed.',
      ),
    },
    { error: 'a map' },
  )
  .prefault({})
  .describe('How long results may be kept.');

const questions = z
  .strictObject(
    {
      keyNames: z
        .record(
          z.string(),
          z.array(
            text(
              /^[A-Za-z_][A-Za-z0-9_.-]{0,63}$/,
              'a name (letters, digits, "_", "." and "-", not beginning with a digit)',
              'name',
            ),
            { error: 'a list of names' },
          ),
          { error: 'a map of tool names to lists of names' },
        )
        .meta({ title: 'map of names to lists of names' })
        .prefault({})
        .describe(
          'Keys of `inputRequests` by tool, prompt or resource, in the order in which it asks.',
        ),
      keysFromStringIds: flag(
        true,
        "Whether a request id of the server's that is a plain name becomes the key of its question.",
      ),
      strictCapabilities: flag(
        false,
        'Whether a question whose capability the client did not declare ends the call at once.',
      ),
      urlVisitWait: duration(
        '10s',
        '0s',
        '10m',
        "How long to wait for the server's word that a URL was visited before a call that failed with -32042 is made again.",
      ),
    },
    { error: 'a map' },
  )
  .prefault({})
  .describe('How questions of the server are shown to clients.');

const route = z.strictObject(
  {
    id: text(NAME, 'a name (letters, digits, "_" and "-", at most 64)', 'name')
      .optional()
      .describe(
        'Names the route in logs, metrics and sealed pointers. Left out: made from the path, so `/mcp` is `mcp`.',
      ),
    path: text(PATH, 'a path such as /mcp, without a slash at its end', 'path')
      .default('/mcp')
      .describe('The public path.'),
    upstream,
    sessions,
    calls,
    parking,
    continuation,
    questions,
    tools,
    caching,
  },
  { error: 'a map with at least upstream.url' },
);

const identity = z
  .discriminatedUnion(
    'source',
    [
      z.strictObject({ source: z.literal('none') }),
      z.strictObject({
        source: z.literal('header'),
        header: text(HEADER_NAME, 'the name of an HTTP header', 'header name').describe(
          'The header that holds the principal. The proxy must remove it from what clients send. A request without it gets 401, also one that would be passed through, unless it reads `/.well-known/`.',
        ),
      }),
    ],
    {
      error: ({ input }) =>
        typeof input === 'object' && input !== null ? 'none or header' : 'a map with a source',
    },
  )
  .prefault({ source: 'none' })
  .describe(
    'Who names the caller: `none` (callers are told apart by their credentials), or a `header` that a trusted proxy sets.',
  );

const seal = z
  .strictObject(
    {
      keys: z
        .array(
          z.strictObject(
            {
              kid: text(NAME, 'a name (letters, digits, "_" and "-", at most 64)', 'name').describe(
                'The public name of the key, readable in what it seals.',
              ),
              key: text(
                SEAL_KEY,
                `${SECRET_BYTES} bytes as base64url, as "mrtr-gateway keygen" prints them`,
                `${SECRET_BYTES} bytes as base64url`,
              )
                .transform((written) => written.replace(/=$/, ''))
                .describe('The secret: 32 random bytes. May be a `file:/path` reference.'),
            },
            { error: 'a map with kid and key' },
          ),
          { error: 'a list of keys, each with kid and key' },
        )
        .max(16, { error: 'at most 16 keys' })
        .meta({ title: 'list' })
        .prefault([])
        .describe(
          'The first key seals, all of them open. Empty: a key is made at start, and parked calls do not survive a restart.',
        ),
      audience: text(
        /^[\x21-\x7e]{1,128}$/,
        'a name of 1 to 128 printable ASCII characters',
        'name',
      )
        .default('mrtr-gateway')
        .describe('The name that all replicas of one deployment share, and no other deployment.'),
    },
    { error: 'a map' },
  )
  .prefault({})
  .describe('How the pointers to parked calls are sealed.');

const edge = z
  .strictObject(
    {
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
        .array(
          text(/^[a-z0-9.-]{1,253}$/, 'a host name in lower case, without a port', 'host name'),
          { error: 'a list of host names' },
        )
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
    },
    { error: 'a map' },
  )
  .prefault({})
  .describe('The public side.');

const limits = z
  .strictObject(
    {
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
    },
    { error: 'a map' },
  )
  .prefault({})
  .describe('Bounds on what clients may use.');

const drain = z
  .strictObject(
    {
      delay: duration(
        '0s',
        '0s',
        '10m',
        'How long readiness says no while requests are still taken, so that load balancers notice.',
      ),
      timeout: duration('25s', '0s', '1d', 'How long running calls may then take to finish.'),
    },
    { error: 'a map' },
  )
  .prefault({})
  .describe('What happens on SIGTERM.');

const log = z
  .strictObject(
    {
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
    },
    { error: 'a map' },
  )
  .prefault({})
  .describe('The log, on standard error.');

export const fileSchema = z.strictObject(
  {
    listen: address()
      .prefault('127.0.0.1:8080')
      .describe(
        'Where clients connect. `:8080` means all IPv4 interfaces, port `0` any free port.',
      ),
    admin: addressOrOff()
      .prefault('127.0.0.1:9090')
      .describe('Where `/healthz`, `/readyz` and `/metrics` are. Keep it private.'),
    routes: z
      .array(route, { error: 'a list of at least one route' })
      .min(1, { error: 'a list of at least one route' })
      .max(1000, { error: 'at most 1000 routes' })
      .meta({ title: 'list' })
      .describe('One entry for each legacy server.'),
    identity,
    seal,
    relay,
    redis,
    edge,
    limits,
    drain,
    log,
  },
  { error: 'a map with at least routes' },
);

/** The file as it is after parsing: units resolved, defaults filled in. */
export type ParsedFile = z.output<typeof fileSchema>;

/** An address, or one with the length of its prefix. */
function isNetwork(written: string): boolean {
  const [, address = '', bits = '0'] = /^([^/]*)(?:\/(\d{1,3}))?$/.exec(written) ?? [];
  const family = isIP(address);
  return family !== 0 && Number(bits) <= (family === 4 ? 32 : 128);
}

function isOrigin(written: string): boolean {
  return URL.canParse(written) && new URL(written).origin === written;
}
