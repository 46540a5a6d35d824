/** The gateway as a protected resource: the metadata that tells clients where to get tokens (RFC 9728). */
import { ROOT_METADATA_PATH } from '../protocol/protected-resource.ts';

export interface ResourceMetadata {
  /** The public URL of a route. Those of other routes differ in their paths. */
  readonly resource: string;
  readonly scopesSupported: readonly string[];
}

/** The metadata of one route, and where it is. */
export interface ProtectedResource {
  /** The URL for challenges. */
  readonly metadataUrl: string;
  /** The paths at which this gateway serves it. */
  readonly paths: readonly string[];
  readonly document: Readonly<Record<string, unknown>>;
}

/**
 * Describes a route.
 * @param paths of all routes; the metadata without a path is that of the first
 */
export function protectedResource(
  { resource: configured, scopesSupported }: ResourceMetadata,
  issuer: string,
  path: string,
  paths: readonly string[],
): ProtectedResource {
  const named = namedRoute(configured, paths);
  const resource =
    named === null || named === path
      ? configured
      : `${configured.slice(0, configured.length - suffix(named).length)}${suffix(path)}`;
  const { origin, pathname } = new URL(resource);
  const publicPath = `${ROOT_METADATA_PATH}${suffix(pathname)}`;
  const own = [publicPath, `${ROOT_METADATA_PATH}${suffix(path)}`];
  return {
    metadataUrl: `${origin}${publicPath}`,
    paths: [...new Set(path === paths[0] ? [...own, ROOT_METADATA_PATH] : own)],
    document: {
      resource,
      authorization_servers: [issuer],
      ...(scopesSupported.length > 0 && { scopes_supported: scopesSupported }),
      bearer_methods_supported: ['header'],
    },
  };
}

/** Finds the path that the configured URL ends with. @returns `null` if it is that of no route */
export function namedRoute(resource: string, paths: readonly string[]): string | null {
  const written = suffix(new URL(resource).pathname);
  const fitting = paths.filter((path) => written.endsWith(suffix(path)));
  return fitting.toSorted((one, other) => other.length - one.length)[0] ?? null;
}

/** A path as the end of a URL: that of the root is empty. */
function suffix(path: string): string {
  return path === '/' ? '' : path;
}
