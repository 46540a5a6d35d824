/** A request that is passed through: its target, always at the origin of the upstream, and its bounded body. */
import { Transform, type Readable } from 'node:stream';

/**
 * Reads the path of a request target.
 * @param requestTarget of the request line, with the query
 * @returns `null` if an intermediary and the upstream could read it differently: dot segments in any spelling,
 *   another authority, a fragment, or characters that a URL does not allow
 */
export function plainPath(requestTarget: string): string | null {
  if (requestTarget.includes('#')) return null;
  const path = requestTarget.split('?', 1)[0] ?? '';
  const origin = 'http://upstream.invalid';
  if (!path.startsWith('/') || !URL.canParse(path, origin)) return null;
  const url = new URL(path, origin);
  if (url.origin !== origin || url.pathname !== path) return null;
  return hasDotSegment(path) ? null : path;
}

/** Metadata for authorization, which clients read before they can authorize: RFC 9728 and RFC 8414, section 3. */
const METADATA = /^\/\.well-known\/[\w.~:@/-]+$/;

/** Tells whether a request reads metadata, with a path that no intermediary can take for another one. */
export function readsMetadata(method: string, requestTarget: string): boolean {
  if (!['GET', 'HEAD', 'OPTIONS'].includes(method)) return false;
  return METADATA.test(plainPath(requestTarget) ?? '');
}

/** Encoded slashes and backslashes count: the upstream may decode before it resolves. */
function hasDotSegment(path: string): boolean {
  let decoded: string;
  try {
    decoded = decodeURIComponent(path);
  } catch {
    return true;
  }
  return decoded.split(/[/\\]/).some((segment) => segment === '.' || segment === '..');
}

/** Joins the configured query of the upstream and that of the client, without `?`. */
export function joinedQuery(upstream: URL, requestTarget: string): string {
  const at = requestTarget.indexOf('?');
  const own = upstream.search.slice(1);
  const clients = at < 0 ? '' : requestTarget.slice(at + 1);
  return [own, clients].filter((part) => part !== '').join('&');
}

export class BodyTooLarge extends Error {
  readonly code = 'body_too_large';
  constructor(maxBytes: number) {
    super(`the body is larger than ${maxBytes} bytes`);
    this.name = 'BodyTooLarge';
  }
}

/**
 * Passes on a body of at most `maxBytes`. A longer one ends with a `BodyTooLarge` error. The source stays open, since
 * its connection carries the response.
 */
export function boundedBody(source: Readable, maxBytes: number): Readable {
  let bytes = 0;
  const bounded = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.byteLength;
      if (bytes > maxBytes) done(new BodyTooLarge(maxBytes));
      else done(null, chunk);
    },
  });
  source.once('error', (error) => bounded.destroy(error));
  // The reader may be gone when the body turns out to be too long.
  bounded.on('error', () => {});
  return source.pipe(bounded);
}
