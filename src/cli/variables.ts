/** The environment variables that the gateway reads, and those that are meant to be one of them. */
import { fieldInFile } from '../config/load/flag-fields.ts';
import { LISTEN_DEFAULT_VARIABLE } from '../config/load/listen-default.ts';
import { nearest } from '../config/load/problem.ts';
import type { ReferenceSources } from '../config/load/references.ts';
import { FLAGS, SEAL_KEY_VARIABLE } from './flags.ts';
import { quote } from './words.ts';

const PREFIX = 'MRTR_GATEWAY_';

/** All variables of the gateway itself. A configuration file can refer to any others. */
export const VARIABLES: readonly string[] = [
  ...FLAGS.serve.flatMap(({ env }) => env ?? []),
  SEAL_KEY_VARIABLE,
  LISTEN_DEFAULT_VARIABLE,
];

/** What Kubernetes sets in each pod for a Service whose name begins with "mrtr-gateway". */
const OF_A_SERVICE =
  /_(?:SERVICE_HOST|SERVICE_PORT(?:_[A-Z0-9_]+)?|PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)$/;
const SERVICE_URL = /^(?:tcp|udp|sctp):\/\//;

/** No environment needs more lines to be understood. */
const MAX_UNKNOWN = 20;

export interface UnknownVariable {
  readonly name: string;
  /** The most similar variable that there is; `null` if none is similar. */
  readonly nearest: string | null;
}

/**
 * Finds the variables with the prefix of the gateway that it does not read. Their values are not returned.
 * @param used names of variables that are read for another reason, such as a reference in the configuration file
 */
export function unknownVariables(
  env: ReferenceSources['env'],
  used: ReadonlySet<string>,
): UnknownVariable[] {
  const known = VARIABLES.map((name) => name.slice(PREFIX.length));
  return Object.entries(env)
    .filter(
      ([name, value]) =>
        name.startsWith(PREFIX) &&
        !VARIABLES.includes(name) &&
        !used.has(name) &&
        !isOfService(name, value ?? ''),
    )
    .slice(0, MAX_UNKNOWN)
    .map(([name]) => {
      // Without the prefix, which would make all of them similar.
      const word = nearest(name.slice(PREFIX.length), known);
      return { name, nearest: word === null ? null : `${PREFIX}${word}` };
    });
}

/** Describes a variable without its value, in one line. */
export function describeUnknown({ name, nearest: word }: UnknownVariable): string {
  const hint =
    word === null ? '"mrtr-gateway --help" lists the variables' : `did you mean ${word}?`;
  return `unknown variable ${quote(name)}; ${hint}`;
}

/** A variable that counts only without a configuration file. */
export interface UnusedVariable {
  readonly name: string;
  /** The field of a file that says the same. */
  readonly field: string;
}

const FIELDS_OF_VARIABLES: readonly UnusedVariable[] = [
  ...FLAGS.serve.flatMap(({ name, env }) => {
    const field = fieldInFile(name);
    return env === undefined || field === null ? [] : [{ name: env, field }];
  }),
  { name: SEAL_KEY_VARIABLE, field: 'seal.keys' },
];

/**
 * Finds the variables that are set and have no effect, since there is a configuration file.
 * @param used names of variables that the file refers to
 */
export function unusedVariables(
  env: ReferenceSources['env'],
  used: ReadonlySet<string>,
): UnusedVariable[] {
  return FIELDS_OF_VARIABLES.filter(({ name }) => env[name] && !used.has(name));
}

/** Describes a variable without its value, in one line. */
export function describeUnused({ name, field }: UnusedVariable): string {
  return `${name} has no effect with a file; set ${field} in a configuration file`;
}

/** A port alone can also be meant as a setting, so its value decides. */
function isOfService(name: string, value: string): boolean {
  return OF_A_SERVICE.test(name) || (name.endsWith('_PORT') && SERVICE_URL.test(value));
}
