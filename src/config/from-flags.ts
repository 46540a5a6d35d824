/** A configuration without a file: one route, from the flags of the command line. */
import type { Config } from './config.ts';
import { ConfigError } from './config-error.ts';
import type { FieldPath } from './field-path.ts';
import { formatPath } from './field-path.ts';
import { validate } from './validate.ts';

/** The values as written; what is left out has its default. */
export interface FlagValues {
  readonly upstream: string;
  readonly listen?: string;
  readonly admin?: string;
  readonly path?: string;
  readonly transport?: string;
  readonly logLevel?: string;
  readonly logFormat?: string;
}

const FLAG_FIELDS: Readonly<Record<keyof FlagValues, FieldPath>> = {
  upstream: ['routes', 0, 'upstream', 'url'],
  listen: ['listen'],
  admin: ['admin'],
  path: ['routes', 0, 'path'],
  transport: ['routes', 0, 'upstream', 'transport'],
  logLevel: ['log', 'level'],
  logFormat: ['log', 'format'],
};

/**
 * In: the values of flags, and how to name a flag in a message (a value may come from the environment).
 * Out: the finished configuration.
 * @throws ConfigError with one line per problem, such as `--listen: expected an address ...`
 */
export function configFromFlags(
  values: FlagValues,
  nameOf: (flag: keyof FlagValues) => string = defaultName,
): Config {
  const { upstream, listen, admin, path, transport, logLevel, logFormat } = values;
  const { config, problems } = validate({
    listen,
    admin,
    routes: [{ path, upstream: { url: upstream, transport } }],
    log: { level: logLevel, format: logFormat },
  });
  if (problems === null) return config;
  const lines = problems.map((problem) => `${nameOfField(problem.path, nameOf)}: ${problem.text}`);
  throw new ConfigError('config_invalid', lines);
}

function nameOfField(path: FieldPath, nameOf: (flag: keyof FlagValues) => string): string {
  const field = formatPath(path);
  for (const [flag, flagPath] of Object.entries(FLAG_FIELDS)) {
    if (formatPath(flagPath) === field) return nameOf(flag as keyof FlagValues);
  }
  return field;
}

function defaultName(flag: keyof FlagValues): string {
  return `--${flag.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}
