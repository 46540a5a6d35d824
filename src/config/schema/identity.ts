/** The keys of `identity`: who calls. */
import { isAbsolute } from 'node:path';
import { z } from 'zod';
import { checked, choice, orNull, scopes, section, text, HEADER_NAME } from './fields.ts';
import { clientHeaders } from './header-names.ts';

const SOURCE =
  'Where the identity of a caller comes from: credentials only (`none`), a `header` of a trusted proxy, or an access token (`jwt`).';

const credentialHeaders = clientHeaders(
  'Headers that tell callers apart, as `Authorization` does, such as `[X-API-Key]`. The gateway does not verify them; `upstream.forwardHeaders` decides which reach the server.',
);

function httpUrl(expected: string) {
  return checked(isHttpUrl, expected, 'URL');
}

function isHttpUrl(written: string): boolean {
  const url = URL.parse(written);
  return url !== null && /^https?:$/.test(url.protocol) && url.username === '' && url.hash === '';
}

const member = z.union([z.string(), z.array(z.string()), z.boolean()], {
  error: 'a text or a list of texts',
});

/** A set of public keys (RFC 7517). A secret or a private key in it is a mistake. */
export const keySet = z
  .strictObject(
    {
      keys: z
        .array(z.record(z.string(), member), { error: 'a list of keys' })
        .describe('Public keys (RFC 7517).'),
    },
    { error: 'a JWK set: a map with keys' },
  )
  .refine(({ keys }) => keys.every((key) => key['kty'] !== 'oct' && key['d'] === undefined), {
    error: 'public keys only',
  })
  .meta({ title: 'JWK set' });

const jwks = section(
  {
    url: orNull(
      httpUrl('an http or https URL')
        .transform((written) => new URL(written))
        .describe('The URL of the keys (`jwks_uri` in the metadata of the authorization server).'),
    ),
    file: orNull(
      checked(isAbsolute, 'an absolute path', 'path').describe(
        'The absolute path of a file with the keys, instead of `url`.',
      ),
    ),
  },
  'a map with url or file',
)
  .superRefine(({ url, file }, context) => {
    const expect = (key: string, message: string) =>
      context.addIssue({ code: 'custom', path: [key], message });
    if (url === null && file === null) expect('url', 'the URL of the keys, or file instead');
    if (url !== null && file !== null) expect('file', 'no file, since there is url');
  })
  .describe(
    'The public keys of the issuer, read every 10 minutes and for tokens with an unknown key. If they cannot be read, the known ones are used for an hour.',
  );

const resourceMetadata = orNull(
  section(
    {
      resource: httpUrl(
        'the public URL of the gateway, such as https://mcp.example.com/mcp',
      ).describe(
        'The public URL of a route. With several routes it ends with the path of one of them, and those of the others differ in that path.',
      ),
      scopesSupported: scopes('The scopes that clients ask for.'),
    },
    'a map with at least resource',
  ).describe(
    "The gateway's own metadata (RFC 9728), at `/.well-known/oauth-protected-resource`. Without it, the server's is passed through.",
  ),
);

const tokens = section({
  source: z.literal('jwt').describe(SOURCE),
  mode: choice(
    ['strict', 'optional'],
    'strict',
    '`strict`: a request without a token gets 401. `optional`: it is anonymous. A token that is not valid gets 401 in both.',
  ),
  issuer: httpUrl('the issuer as the tokens name it, such as https://auth.example.com').describe(
    'The authorization server, exactly as its tokens name it in `iss`.',
  ),
  audiences: z
    .array(text(/^\S{1,512}$/, 'an audience, such as the URL of the gateway', 'audience'), {
      error: 'a list of audiences',
    })
    .min(1, { error: 'a list of at least one audience' })
    .meta({ title: 'list of texts' })
    .describe('The gateway as tokens name it in `aud`. A token for none of them is refused.'),
  jwks,
  requiredScopes: scopes('Scopes that a token must have. A token without one of them gets 403.'),
  principalClaim: text(/^\S{1,256}$/, 'the name of a claim', 'name of a claim')
    .default('sub')
    .describe(
      'The claim that names the caller. The issuer must never give its value to another caller.',
    ),
  resourceMetadata,
  credentialHeaders,
});

export const identity = z
  .discriminatedUnion(
    'source',
    [
      z.strictObject({
        source: z.literal('none').default('none').describe(SOURCE),
        credentialHeaders,
      }),
      z.strictObject({
        source: z.literal('header').describe(SOURCE),
        header: text(HEADER_NAME, 'the name of an HTTP header', 'header name').describe(
          'The header with the principal, which the proxy must remove from client requests. A request without it gets 401, except for `/.well-known/`.',
        ),
        credentialHeaders,
      }),
      tokens,
    ],
    {
      error: ({ input }) =>
        typeof input === 'object' && input !== null ? 'none, header or jwt' : 'a map with a source',
    },
  )
  .prefault({ source: 'none' })
  .describe('How callers are identified.');
