/**
 * The metadata of a protected resource (RFC 9728), by which clients learn where to log in, for a server that clients reach
 * under another URL.
 */
import { without, type JsonObject } from './json.ts';

const WELL_KNOWN = '/.well-known/oauth-protected-resource';

/** Returns the path of the metadata of a resource (RFC 9728, section 3.1). */
export function metadataPath({ pathname }: URL): string {
  return pathname === '/' ? WELL_KNOWN : `${WELL_KNOWN}${pathname.replace(/\/$/, '')}`;
}

/** The path that clients try if there is nothing at that of the resource. */
export const ROOT_METADATA_PATH = WELL_KNOWN;

/** Writes the identifier of a resource, without a slash at its end (authorization, "Canonical Server URI"). */
export function resourceIdentifier({ href }: URL): string {
  return href.replace(/\/$/, '');
}

/**
 * Rewrites the metadata of a server to its public URL.
 * @returns a document without `signed_metadata`, which would take precedence with the URL of the server
 */
export function publicMetadata(document: JsonObject, publicUrl: URL): JsonObject {
  return { ...without(document, ['signed_metadata']), resource: resourceIdentifier(publicUrl) };
}

/** No more of a challenge is read. */
const MAX_CHALLENGE_CHARACTERS = 4_096;

/**
 * A quoted text of another parameter, or the one parameter that is rewritten (RFC 9110, section 11.4). A quote without an
 * end takes all that follows, so that nothing is read twice.
 */
const METADATA_PARAMETER =
  /"(?:[^"\\]|\\.)*(?:"|\\?$)|(?<![\w!#$%&'*+.^`|~-])(resource_metadata[ \t]*=[ \t]*)(?:"(?:[^"\\]|\\.)*(?:"|\\?$)|[^\s,"]+)/gi;

/**
 * Rewrites a `WWW-Authenticate` challenge, so that clients read the metadata at the public URL. Of one that is too long
 * nothing is left but that URL.
 */
export function publicChallenge(challenge: string, publicUrl: URL): string {
  const url = new URL(metadataPath(publicUrl), publicUrl).href;
  if (challenge.length > MAX_CHALLENGE_CHARACTERS) return `Bearer resource_metadata="${url}"`;
  return challenge.replace(METADATA_PARAMETER, (found, name: string | undefined) =>
    name === undefined ? found : `${name}"${url}"`,
  );
}

/** Reads a parameter of a challenge. @returns `null` if there is none, or the challenge is too long */
export function challengeParameter(challenge: string, name: string): string | null {
  if (challenge.length > MAX_CHALLENGE_CHARACTERS) return null;
  for (const [, found, quoted, token] of challenge.matchAll(PARAMETER)) {
    if (found?.toLowerCase() !== name) continue;
    return quoted === undefined ? (token ?? null) : quoted.replace(/\\(.)/g, '$1');
  }
  return null;
}

/** What a client needs to log in. Other parameters can be words of the server, which repeat a token. */
const LOGIN_PARAMETERS = ['realm', 'error', 'scope', 'resource_metadata'];

/** Rewrites a challenge with the parameters by which a client logs in, and no others. */
export function loginChallenge(challenge: string): string {
  const parameters = LOGIN_PARAMETERS.flatMap((name) => {
    const value = challengeParameter(challenge, name);
    return value === null ? [] : [`${name}="${value.replace(/["\\]/g, '\\$&')}"`];
  });
  return ['Bearer', parameters.join(', ')].join(' ').trimEnd();
}

/** It begins with the first character of a name, so that a name without a value is read once, however long it is. */
const PARAMETER =
  /(?<![\w!#$%&'*+.^`|~-])([\w!#$%&'*+.^`|~-]+)[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))/g;
