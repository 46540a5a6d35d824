/** Builds a configuration from the flags of the command line: without a file, or on top of one. */
import type { Config } from '../schema.ts';
import { ConfigError, type FieldPath, formatPath, type Problem } from './problem.ts';
import { crossCheck } from './cross-checks.ts';
import { validate } from './validate.ts';

/** The values as written. Omitted ones have their defaults. */
export interface FlagValues {
  readonly upstream: string | CommandValues;
  readonly listen?: string;
  readonly admin?: string;
  readonly workers?: string;
  readonly path?: string;
  readonly publicUrl?: string;
  readonly transport?: string;
  readonly upstreamHeader?: Readonly<Record<string, string>>;
  readonly maxEvent?: string;
  readonly sessionScope?: string;
  /** Keys as `KID:KEY`, separated by white space or commas. The first one seals. */
  readonly sealKey?: string;
  readonly logLevel?: string;
  readonly logFormat?: string;
}

/** Values of the flags that can be combined with `--config`. They override the file. */
export type Overrides = Pick<FlagValues, 'listen' | 'admin' | 'workers' | 'logLevel' | 'logFormat'>;

/** A server over stdio: what is given after `--`, and with `--env`. */
export interface CommandValues {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

const FLAG_OF_FIELD: ReadonlyMap<string, string> = new Map([
  ['routes[0].upstream.url', 'upstream'],
  ['routes[0].upstream.command', 'stdio'],
  ['routes[0].upstream.env', 'env'],
  ['listen', 'listen'],
  ['admin', 'admin'],
  ['workers', 'workers'],
  ['routes[0].path', 'path'],
  ['routes[0].publicUrl', 'public-url'],
  ['routes[0].upstream.transport', 'transport'],
  ['routes[0].upstream.headers', 'upstream-header'],
  ['routes[0].upstream.maxEvent', 'max-event'],
  ['routes[0].sessions.scope', 'session-scope'],
  ['seal.keys', 'seal-key'],
  ['log.level', 'log-level'],
  ['log.format', 'log-format'],
]);

/** Other gateways call the older transport so. */
const TRANSPORT_ALIASES: ReadonlyMap<string | undefined, string> = new Map([['sse', 'http-sse']]);

/**
 * Builds the configuration of a single route.
 * @param nameOf names a flag such as `log-level` in messages: its value can come from the environment
 * @throws ConfigError with one line per problem, such as `--listen: expected an address ...`
 */
export function configFromFlags(
  values: FlagValues,
  nameOf: (flag: string) => string = withDashes,
): Config {
  const { upstream, listen, admin, workers, path, publicUrl, maxEvent } = values;
  const nameless = values.sealKey === undefined ? [] : keysWithoutName(values.sealKey);
  if (nameless.length > 0) throw invalid(nameless, nameOf);
  const transport = TRANSPORT_ALIASES.get(values.transport) ?? values.transport;
  const { config, problems } = validate({
    listen,
    admin,
    workers,
    routes: [
      {
        path,
        publicUrl,
        upstream:
          typeof upstream === 'string'
            ? { url: upstream, transport, headers: values.upstreamHeader, maxEvent }
            : { ...upstream, maxEvent },
        sessions: { scope: values.sessionScope },
      },
    ],
    seal: { keys: values.sealKey === undefined ? undefined : sealKeysIn(values.sealKey) },
    log: { level: values.logLevel, format: values.logFormat },
  });
  if (problems !== null) throw invalid(problems, nameOf);
  return config;
}

/** Parses sealing keys as `keygen --format raw` prints them. */
function sealKeysIn(text: string): { readonly kid: string; readonly key: string }[] {
  return wordsIn(text).map((word) => {
    const colon = word.indexOf(':');
    return { kid: word.slice(0, colon), key: word.slice(colon + 1) };
  });
}

/** Reports keys without a name: 32 random bytes are a valid key in a file, where the name has a field of its own. */
function keysWithoutName(text: string): Problem[] {
  return wordsIn(text).flatMap((word, index) =>
    word.includes(':')
      ? []
      : [
          {
            path: ['seal', 'keys', index],
            text: 'expected KID:KEY, as "mrtr-gateway keygen --format raw" prints it, got a text without ":" (not shown)',
          },
        ],
  );
}

function wordsIn(text: string): string[] {
  return text.split(/[\s,]+/).filter((word) => word !== '');
}

/**
 * Applies flags to the configuration of a file. Flags take precedence.
 * @throws ConfigError with one line per problem
 */
export function overrideConfig(
  config: Config,
  values: Overrides,
  nameOf: (flag: string) => string = withDashes,
): Config {
  const { listen, admin, workers, logLevel, logFormat } = values;
  const placeholder = { ...values, admin: admin ?? 'off', upstream: 'http://upstream.invalid' };
  const flags = configFromFlags(placeholder, nameOf);
  const overridden: Config = {
    ...config,
    listen: listen === undefined ? config.listen : flags.listen,
    admin: admin === undefined ? config.admin : flags.admin,
    workers: workers === undefined ? config.workers : flags.workers,
    log: {
      level: logLevel === undefined ? config.log.level : flags.log.level,
      format: logFormat === undefined ? config.log.format : flags.log.format,
    },
  };
  const problems = crossCheck(overridden);
  if (problems.length > 0) throw invalid(problems, nameOf);
  return overridden;
}

function invalid(problems: readonly Problem[], nameOf: (flag: string) => string): ConfigError {
  const lines = problems.map(({ path, text }) => `${nameOfField(path, nameOf)}: ${text}`);
  return new ConfigError('config_invalid', lines);
}

function nameOfField(path: FieldPath, nameOf: (flag: string) => string): string {
  for (let length = path.length; length > 0; length -= 1) {
    const flag = FLAG_OF_FIELD.get(formatPath(path.slice(0, length)));
    if (flag !== undefined) return `${nameOf(flag)}${formatPath(path.slice(length))}`;
  }
  return formatPath(path);
}

function withDashes(flag: string): string {
  return `--${flag}`;
}
