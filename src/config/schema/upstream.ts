/** The keys of `routes[].upstream`: the legacy server, and how the gateway speaks to it. */
import { z } from 'zod';
import {
  checked,
  choice,
  countOrOff,
  duration,
  flag,
  list,
  orNull,
  parsed,
  scopes,
  section,
  size,
  text,
  HEADER_NAME,
} from './fields.ts';
import { clientHeaders, OUR_HEADERS } from './header-names.ts';

/** RFC 9110, section 5.5, without the obsolete octets. */
const HEADER_VALUE = /^[\t\x20-\x7e]*$/;
/** RFC 6749, appendix A. */
const CLIENT = /^[\x20-\x7e]{1,1024}$/;

/** Versioning, "Extension Negotiation". Those of MCP itself are translated, or cannot be. */
const EXTENSION = /^(?!io\.modelcontextprotocol\/)[A-Za-z0-9.-]{1,128}\/[A-Za-z0-9._-]{1,128}$/;

/** @param credentials the keys that credentials belong in */
function httpUrl(credentials: string) {
  return z
    .string({ error: 'an http or https URL' })
    .transform((written, context): URL => {
      const problem = urlProblem(written, credentials);
      if (problem === null) return new URL(written);
      context.addIssue({ code: 'custom', message: problem });
      return z.NEVER;
    })
    .meta({ title: 'URL' });
}

function urlProblem(written: string, credentials: string): string | null {
  const url = URL.parse(written);
  if (url === null || !['http:', 'https:'].includes(url.protocol)) return 'an http or https URL';
  if (url.username !== '' || url.password !== '') {
    return `a URL without credentials (use ${credentials})`;
  }
  return url.hash === '' ? null : 'a URL without a fragment';
}

export const publicUrl = parsed(
  parsePublicUrl,
  'an http or https URL without credentials, query and fragment',
  'URL',
).describe(
  'The URL of the route for clients, such as `https://mcp.example.com/mcp`. The OAuth metadata and challenges of the server then name it as the resource, and the server must accept tokens for it.',
);

function parsePublicUrl(written: string): URL | null {
  const url = urlProblem(written, '') === null ? new URL(written) : null;
  return url?.search === '' ? url : null;
}

/** RFC 8707, section 2. */
function isResource(written: string): boolean {
  return URL.canParse(written) && !written.includes('#');
}

const headers = z
  .record(
    z.string(),
    text(HEADER_VALUE, 'a header value (text of printable ASCII characters)', 'text'),
    { error: 'a map of header names to strings' },
  )
  .superRefine((entries, context) => {
    const seen = new Set<string>();
    for (const name of Object.keys(entries)) {
      const problem = headerNameProblem(name, seen);
      seen.add(name.toLowerCase());
      if (problem !== null) context.addIssue({ code: 'custom', message: problem });
    }
  })
  .transform((entries): Record<string, string> =>
    Object.fromEntries(Object.entries(entries).map(([name, value]) => [name.toLowerCase(), value])),
  )
  .meta({ title: 'map of header names to strings' })
  .prefault({})
  .describe(
    'Headers of every request to `upstream.url` and to the message endpoint of HTTP+SSE, in place of those of the client. Values can be `file:/path` references.',
  );

/** @param seen names before this one, in lower case */
function headerNameProblem(name: string, seen: ReadonlySet<string>): string | null {
  if (!HEADER_NAME.test(name)) return 'valid HTTP header names';
  const lower = name.toLowerCase();
  if (OUR_HEADERS.has(lower) || lower.startsWith('proxy-')) {
    return `no header ${lower}, which only the gateway sets`;
  }
  return seen.has(lower) ? `the header ${lower} only once` : null;
}

/** What a server over stdio gets of the environment of the gateway: no variable in which people keep secrets. */
const INHERITED_VARIABLES = [
  'HOME',
  'LANG',
  'LC_ALL',
  'LC_CTYPE',
  'LOGNAME',
  'PATH',
  'SHELL',
  'TERM',
  'TMPDIR',
  'TZ',
  'USER',
];

/** No NUL, which ends a string for the operating system. */
const ARGUMENT = /^[^\0]*$/;
const VARIABLE_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;

const args = list(
  'texts',
  text(ARGUMENT, 'a text without NUL', 'text'),
  'The arguments of `upstream.command`. No shell reads them.',
);

const env = z
  .record(z.string(), text(ARGUMENT, 'a text without NUL', 'text'), {
    error: 'a map of names to texts',
  })
  .refine((entries) => Object.keys(entries).every((name) => VARIABLE_NAME.test(name)), {
    error: 'names of environment variables (letters, digits and "_")',
  })
  .meta({ title: 'map of names to texts' })
  .prefault({})
  .describe(
    `Environment variables of \`upstream.command\`, besides ${INHERITED_VARIABLES.map((name) => `\`${name}\``).join(', ')} of the gateway. Values can be \`file:/path\` references.`,
  );

const tokenExchange = orNull(
  section(
    {
      tokenEndpoint: httpUrl('clientId and clientSecret').describe(
        'The token endpoint of the authorization server.',
      ),
      clientId: text(CLIENT, 'a client id', 'text').describe(
        'The client id of the gateway at the authorization server.',
      ),
      clientSecret: text(CLIENT, 'a client secret', 'text').describe(
        'The client secret of the gateway, sent as `Basic`. Can be a `file:/path` reference.',
      ),
      resource: orNull(
        checked(isResource, 'a URL without a fragment', 'URL').describe(
          'The URL of the server, exactly as the authorization server knows it.',
        ),
      ),
      scopes: scopes(
        'The scopes of the new token. Default: those that the authorization server gives.',
      ),
    },
    'a map with at least tokenEndpoint, clientId and clientSecret',
  ).describe(
    'How the token of a caller is exchanged for one of the server (RFC 8693). Needs `identity.source: jwt`.',
  ),
);

const circuitBreaker = section({
  consecutiveFailures: countOrOff(
    5,
    { min: 1, max: 1000 },
    'After how many failures in a row new requests are refused, until the server responds again. Failures are broken connections, the statuses 502, 503 and 504, and no response headers within `headersTimeout`, but no slow calls.',
  ),
})
  .prefault({})
  .describe('When a server counts as down and gets no new requests.');

/** The keys of a server that is reached over HTTP. */
const httpKeys = {
  url: httpUrl('upstream.headers').describe('The URL of the legacy MCP server.').optional(),
  transport: choice(
    ['auto', 'streamable-http', 'http-sse'],
    'auto',
    '`auto` detects the transport: Streamable HTTP first, then HTTP+SSE. With another value the server is bridged and not asked what it speaks, unless `era` is `modern`.',
  ),
  headers,
  hostHeader: orNull(
    text(
      /^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]{1,253})(:\d{1,5})?$/,
      'a host, and a port if it is part of it, such as localhost:8931',
      'host',
    ).describe(
      'The `Host` of every request, for servers that accept certain names only; over TLS, the certificate has to be for it. Default: that of `upstream.url`.',
    ),
  ),
  forwardHeaders: clientHeaders(
    'Headers of the client that go upstream, besides `Authorization`, trace context and `Mcp-Param-*`, such as `[X-API-Key]`. Those that tell users apart also belong in `identity.credentialHeaders`; what is passed through keeps all headers.',
  ),
  authorization: orNull(
    z
      .enum(['forward', 'strip', 'exchange'], { error: 'one of forward, strip, exchange' })
      .meta({ title: '`forward`, `strip`, `exchange`' })
      .describe(
        "What the server gets of the client's `Authorization` header: the same (`forward`), nothing (`strip`), or a token of its own (`exchange`, see `tokenExchange`). Default: `forward`; with `identity.source: jwt`, `strip`.",
      ),
  ),
  tokenExchange,
  circuitBreaker,
  statefulWithoutSessionId: flag(
    false,
    'Whether a server that sends no session id keeps its state in one process, so that its tools can ask. Not if several processes serve the URL: an answer can reach the wrong one.',
  ),
};

/** The keys of a server that the gateway runs, and speaks to over stdio. */
const processKeys = {
  command: orNull(
    text(/^[^\0]+$/, 'the path or the name of a program', 'text').describe(
      'The program of a server that speaks over stdio, in place of `url`. The gateway runs one process of it for each session.',
    ),
  ),
  args,
  env,
  cwd: orNull(
    text(/^[^\0]+$/, 'the path of a folder', 'text').describe(
      'The folder in which `upstream.command` runs. Default: that of the gateway.',
    ),
  ),
};

const keys = section(
  {
    ...httpKeys,
    ...processKeys,
    era: choice(
      ['auto', 'legacy', 'modern'],
      'auto',
      '`auto` bridges a server that takes a legacy handshake and, over HTTP, keeps sessions, so that its tools can ask; it passes requests through to others. `legacy` always bridges, `modern` always passes through.',
    ),
    headersTimeout: duration(
      '60s',
      '100ms',
      '1h',
      'Timeout of the response headers, and of the whole response to a request in which the server cannot ask. Calls over Streamable HTTP are bounded by `calls.maxDuration` only.',
    ),
    maxEvent: size(
      '32MiB',
      '1KiB',
      '256MiB',
      'The largest message of the server: a JSON body, an event of a stream, or a line over stdio. A larger one fails its call.',
    ),
    pingInterval: duration(
      '60s',
      '1s',
      '1h',
      'How often a session that is idle or waits for answers is pinged, so that the server keeps it open.',
    ),
    roots: choice(
      ['none', 'caller'],
      'none',
      '`none`: a server gets the roots of its client only if it asks in a call. `caller`: each session begins with them, and a server that resolves them on its own machine lets callers choose what it reads there. `--stdio` on loopback sets `caller`.',
    ),
    extensions: list(
      'identifiers of extensions',
      text(EXTENSION, 'the identifier of an extension, such as com.example/theme', 'identifier'),
      'Extensions that modern clients are told of, besides MCP Apps, `openai/settings` and `openai/mentions`. They must need no messages of their own.',
    ),
  },
  'a map with a url or a command',
);

export const upstream = z
  .preprocess(checkKeys, keys)
  .transform(({ url, command, args, env, cwd, ...common }) => {
    const inherited = INHERITED_VARIABLES;
    const process = { args, env, inherited, cwd };
    return command === null || url !== undefined
      ? // `checkKeys` has reported where there is neither.
        { ...common, maxBodyBytes: common.maxEventBytes, url: url ?? NO_URL, process: null }
      : // Nothing behind it checks the credentials of clients.
        { ...common, authorization: 'strip' as const, url: null, process: { ...process, command } };
  })
  .describe('The legacy MCP server: either `url` or `command`.');

const NO_URL = new URL('http://upstream.invalid');

/** Reports keys that have no effect beside others. It sees what is written, without defaults. */
function checkKeys(written: unknown, context: z.core.$RefinementCtx): unknown {
  if (typeof written !== 'object' || written === null || Array.isArray(written)) return written;
  const isGiven = (key: string) =>
    Object.entries(written).some(([name, value]) => name === key && value !== undefined);
  const report = (key: string, expected: string) =>
    context.issues.push({ code: 'custom', input: written, path: [key], message: expected });
  if (isGiven('command')) {
    for (const key of Object.keys(httpKeys).filter(isGiven)) {
      report(key, `no ${key}, since upstream.command names a server over stdio`);
    }
  } else {
    if (!isGiven('url')) report('url', 'an http or https URL, or upstream.command');
    for (const key of Object.keys(processKeys).filter(isGiven)) {
      report(key, `no ${key} without upstream.command`);
    }
  }
  // With an issue of its own, a preprocessor keeps the schema from checking the rest.
  const rest = context.issues.length === 0 ? undefined : keys.safeParse(written).error;
  for (const issue of rest?.issues ?? []) context.issues.push({ ...issue, input: undefined });
  return written;
}
