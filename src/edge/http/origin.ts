/** The checks of `Origin` and `Host` against DNS rebinding (streamable-http, "Security & Endpoint"). */

export interface OriginPolicy {
  /** Origins as browsers send them, such as `https://app.example.com`. */
  readonly allowedOrigins: readonly string[];
  /** Values of `Host` besides the names of this machine, such as `mcp.example.com`. */
  readonly allowedHosts: readonly string[];
  /** Whether pages served from this machine are allowed, as they are if the gateway listens on loopback. */
  readonly allowLoopback: boolean;
}

const LOOPBACK_HOSTS: readonly string[] = ['localhost', '127.0.0.1', '[::1]'];

/** Returns true if the page is allowed. A request without an `Origin` comes from no page. */
export function isAllowedOrigin(origin: string | undefined, policy: OriginPolicy): boolean {
  if (origin === undefined) return true;
  if (policy.allowedOrigins.includes(origin)) return true;
  return policy.allowLoopback && URL.canParse(origin) && isLoopbackUrl(new URL(origin));
}

const HOST = /^(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::\d{1,5})?$/i;

/**
 * Returns true if the `Host` names this gateway. On loopback another name means that a page has rebound its
 * own name to this machine. Its GET requests carry no `Origin`, so that only `Host` shows it.
 */
export function isAllowedHost(host: string, policy: OriginPolicy): boolean {
  if (!policy.allowLoopback) return true;
  const name = HOST.exec(host)?.[1];
  if (name === undefined) return false;
  return (
    isLoopbackHost(name) ||
    policy.allowedHosts.includes(name.toLowerCase()) ||
    policy.allowedOrigins.some(
      (origin) => URL.canParse(origin) && new URL(origin).hostname === name.toLowerCase(),
    )
  );
}

function isLoopbackUrl({ protocol, hostname }: URL): boolean {
  return /^https?:$/.test(protocol) && isLoopbackHost(hostname);
}

/** Returns true for the loopback names and addresses. */
export function isLoopbackHost(host: string): boolean {
  const name = host.toLowerCase();
  return (
    LOOPBACK_HOSTS.includes(name) ||
    name === '::1' ||
    name.endsWith('.localhost') ||
    /^127(\.\d{1,3}){3}$/.test(name)
  );
}
