/** The names and addresses by which a machine reaches itself. */

const LOOPBACK_NAMES: readonly string[] = ['localhost', '::1', '[::1]'];
const LOOPBACK_IPV4 = /^(?:::ffff:)?127(?:\.\d{1,3}){3}$/;

/** Returns true for the loopback names and addresses. */
export function isLoopbackHost(host: string): boolean {
  const name = host.toLowerCase();
  return LOOPBACK_NAMES.includes(name) || name.endsWith('.localhost') || LOOPBACK_IPV4.test(name);
}
