/** The keys of `routes[].upstream`: the legacy server, and how the gateway speaks to it. */
import { z } from 'zod';
import { choice, duration, flag, orNull, section, size, text, HEADER_NAME } from './fields.ts';
import { clientHeaders, OUR_HEADERS } from './header-names.ts';

/** RFC 9110, section 5.5, without the obsolete octets. */
const HEADER_VALUE = /^[\t\x20-\x7e]*$/;
const PUBLIC_URL = 'an http or https URL without credentials, query and fragment';

const upstreamUrl = z
  .string({ error: 'an http or https URL' })
  .transform((written, context): URL => {
    const problem = urlProblem(written);
    if (problem === null) return new URL(written);
    context.addIssue({ code: 'custom', message: problem });
    return z.NEVER;
  })
  .meta({ title: 'URL' })
  .describe('The URL of the legacy MCP server.');

function urlProblem(written: string): string | null {
  const url = URL.canParse(written) ? new URL(written) : null;
  if (url === null || !['http:', 'https:'].includes(url.protocol)) return 'an http or https URL';
  if (url.username !== '' || url.password !== '') {
    return 'a URL without credentials (use upstream.headers)';
  }
  return url.hash === '' ? null : 'a URL without a fragment';
}

export const publicUrl = z
  .string({ error: PUBLIC_URL })
  .transform((written, context): URL => {
    const url = urlProblem(written) === null ? new URL(written) : null;
    if (url?.search === '') return url;
    context.addIssue({ code: 'custom', message: PUBLIC_URL });
    return z.NEVER;
  })
  .meta({ title: 'URL' })
  .describe(
    'The URL of the route for clients, such as `https://mcp.example.com/mcp`. With it, the OAuth metadata of the server and its challenges name this URL as the protected resource: clients get tokens for it, and the server must accept those.',
  );

const headers = z
  .record(
    z.string(),
    text(HEADER_VALUE, 'a header value (text of printable ASCII characters)', 'text'),
    { error: 'a map of header names to strings' },
  )
  .superRefine((entries, context) => {
    const seen = new Set<string>();
    for (const name of Object.keys(entries)) {
      const lower = name.toLowerCase();
      const problem = !HEADER_NAME.test(name)
        ? 'valid HTTP header names'
        : OUR_HEADERS.has(lower) || lower.startsWith('proxy-')
          ? `no header ${lower}, which only the gateway sets`
          : seen.has(lower)
            ? `the header ${lower} only once`
            : null;
      seen.add(lower);
      if (problem !== null) context.addIssue({ code: 'custom', message: problem });
    }
  })
  .transform((entries): Record<string, string> =>
    Object.fromEntries(Object.entries(entries).map(([name, value]) => [name.toLowerCase(), value])),
  )
  .meta({ title: 'map of header names to strings' })
  .prefault({})
  .describe(
    'Headers of every request to `upstream.url`, and to the message endpoint of an HTTP+SSE server. They replace those of the client. Other paths do not get them. Values can be `file:/path` references.',
  );

export const upstream = section(
  {
    url: upstreamUrl,
    era: choice(
      ['auto', 'legacy', 'modern'],
      'auto',
      'How the gateway uses a server that also speaks `2026-07-28`. `auto` bridges a server that takes a legacy handshake and keeps sessions, since only there can its tools ask in the legacy way, and passes requests through to one that speaks `2026-07-28` only, or keeps no sessions. `legacy` always bridges, `modern` always passes through.',
    ),
    transport: choice(
      ['auto', 'streamable-http', 'http-sse'],
      'auto',
      'The transport of the server. `auto` detects it: Streamable HTTP first, then HTTP+SSE. With another value the server is bridged and not asked what it speaks, unless `era` is `modern`.',
    ),
    headers,
    hostHeader: orNull(
      text(
        /^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]{1,253})(:\d{1,5})?$/,
        'a host, and a port if it is part of it, such as localhost:8931',
        'host',
      ).describe(
        'The `Host` of every request to the server, for servers that accept certain names only. Default: that of `upstream.url`. Over TLS, the certificate has to be for this name.',
      ),
    ),
    forwardHeaders: clientHeaders(
      'Headers of the client that go upstream with its requests, besides `Authorization`, trace context and `Mcp-Param-*`, such as `[X-API-Key]`. A header that tells users or tenants apart also belongs in `identity.credentialHeaders`. Requests that are passed through keep all their headers.',
    ),
    authorization: orNull(
      z
        .enum(['forward', 'strip'], { error: 'one of forward, strip' })
        .meta({ title: '`forward`, `strip`' })
        .describe(
          "What happens to the client's `Authorization` header. Default: `forward`; with `identity.source: jwt`, `strip`, since a token that was issued for the gateway is not one for the server.",
        ),
    ),
    connectTimeout: duration('5s', '10ms', '5m', 'Connect timeout.'),
    headersTimeout: duration(
      '60s',
      '100ms',
      '1h',
      'Timeout of the response headers, and of the whole response to a request that cannot ask for input.',
    ),
    maxBody: size('16MiB', '1KiB', '1GiB', 'The largest response body.'),
    maxEvent: size('4MiB', '1KiB', '256MiB', 'The largest event of a stream.'),
    pingInterval: duration(
      '60s',
      '1s',
      '1h',
      'How often a session that waits for answers is pinged, so that the server keeps it open.',
    ),
    statefulWithoutSessionId: flag(
      false,
      'Whether a server that sends no session id keeps its state in a single process. The gateway then declares the capabilities of clients to it, so that its tools can ask questions. If several processes serve the URL, an answer can reach a process that did not ask.',
    ),
  },
  'a map with at least a url',
).describe('The legacy MCP server.');
