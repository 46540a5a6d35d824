/** The variables of the gateway without which a server, or the npx that fetches it, may wait in vain for the network. */

type Environment = Readonly<Record<string, string | undefined>>;

/** Programs read proxies and settings of npm in either case, and certificates in this one. */
const OF_THE_NETWORK = /^(?:NODE_EXTRA_CA_CERTS|https?_proxy|npm_config_registry)$/;

/**
 * Names the variables of the network that are set for the gateway and that the server does not get.
 * @returns the end of a message, without values; nothing if there is none
 */
export function networkHint(own: Environment, passed: Environment): string {
  const key = (name: string) => (name === 'NODE_EXTRA_CA_CERTS' ? name : name.toLowerCase());
  const given = new Set(Object.keys(passed).map(key));
  const missing = Object.keys(own).filter(
    (name) => OF_THE_NETWORK.test(key(name)) && own[name] && !given.has(key(name)),
  );
  if (missing.length === 0) return '';
  const [are, one] = missing.length === 1 ? ['is', 'it'] : ['are', 'one'];
  return `; ${missing.toSorted().join(', ')} of the gateway ${are} not passed on to it: --env NAME passes ${one} on (upstream.env in a file)`;
}
