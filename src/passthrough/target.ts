/** Where a request that is passed on goes: always to the origin of the one upstream. */

/**
 * The path of a request target, or `null` when an intermediary and the upstream could read it
 * differently: dot segments in any spelling, another authority, a fragment, characters that a URL
 * does not hold. Such a target is refused and not repaired.
 * @param requestTarget as it stood in the request line, query included
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

/** What tells how to authorize, and is read before anybody can: RFC 9728, section 3; RFC 8414, section 3. */
const METADATA = /^\/\.well-known\/[\w.~:@/-]+$/;

/** True for a look at metadata, in a spelling that nothing on the way could take for another path. */
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

/** The query to send upstream, without `?`: the one configured for the upstream, then the client's. */
export function joinedQuery(upstream: URL, requestTarget: string): string {
  const at = requestTarget.indexOf('?');
  const own = upstream.search.slice(1);
  const clients = at < 0 ? '' : requestTarget.slice(at + 1);
  return [own, clients].filter((part) => part !== '').join('&');
}
