/** What a server may miss of the variables of the gateway, for messages. No value is in them. */

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
  return missing.length === 0 ? '' : notPassed(missing);
}

function notPassed(names: readonly string[]): string {
  const [are, one] = names.length === 1 ? ['is', 'it'] : ['are', 'one'];
  return `; ${names.toSorted().join(', ')} of the gateway ${are} not passed on to it: --env NAME passes ${one} on (upstream.env in a file)`;
}

/** Shorter names are in any text. */
const MIN_NAME = 3;

/**
 * Names the variables that a server got, or those of the gateway that it asked for and did not get.
 * @param words what the server wrote last
 * @returns the end of a message
 */
export function variablesHint(own: Environment, passed: Environment, words: string): string {
  const named = new Set(words.match(/[A-Za-z_][A-Za-z0-9_]*/g));
  const asked = Object.keys(own).filter(
    (name) => name.length >= MIN_NAME && passed[name] === undefined && named.has(name),
  );
  if (asked.length > 0) return notPassed(asked);
  const got = Object.keys(passed).toSorted().join(', ');
  return `; of variables it got ${got === '' ? 'none' : got}: --env NAME passes another one on (upstream.env in a file)`;
}
