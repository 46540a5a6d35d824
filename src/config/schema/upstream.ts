/** The keys of `routes[].upstream`: the legacy server, and how the gateway speaks to it. */
import { z } from 'zod';
import { choice, duration, flag, section, size, text } from './fields.ts';
import { HEADER_NAME } from './names.ts';

/** RFC 9110, section 5.5, without the obsolete octets. */
const HEADER_VALUE = /^[\t\x20-\x7e]*$/;
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

export const upstream = section(
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
  'a map with at least a url',
).describe('The legacy MCP server.');
