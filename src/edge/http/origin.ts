/** Which web pages may call: the checks against DNS rebinding (streamable-http, "Security & Endpoint"). */

export interface OriginPolicy {
  /** Origins as browsers send them, such as `https://app.example.com`. */
  readonly allowedOrigins: readonly string[];
  /** Names under which we may be called besides those of this machine, such as `mcp.example.com`. */
  readonly allowedHosts: readonly string[];
  /** Whether pages served from this machine may call; right where we listen on loopback only. */
  readonly allowLoopback: boolean;
}

const LOOPBACK_HOSTS: readonly string[] = ['localhost', '127.0.0.1', '[::1]'];

/** True when the page may call. A request without an `Origin` comes from no page. */
export function isAllowedOrigin(origin: string | undefined, policy: OriginPolicy): boolean {
  if (origin === undefined) return true;
  if (policy.allowedOrigins.includes(origin)) return true;
  return policy.allowLoopback && URL.canParse(origin) && isLoopbackUrl(new URL(origin));
}

const HOST = /^(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::\d{1,5})?$/i;

/**
 * True when the `Host` may be ours. Behind a loopback address another name means that a page rebound
 * its own name to this machine; its GET requests then carry no `Origin` that would give it away.
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

/** True for the names and addresses of this machine itself. */
export function isLoopbackHost(host: string): boolean {
  const name = host.toLowerCase();
  return (
    LOOPBACK_HOSTS.includes(name) ||
    name === '::1' ||
    name.endsWith('.localhost') ||
    /^127(\.\d{1,3}){3}$/.test(name)
  );
}
