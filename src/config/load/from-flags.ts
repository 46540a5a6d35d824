/** Builds a configuration from the flags of the command line: without a file, or on top of one. */
import { isLoopbackHost } from '../../lib/http.ts';
import type { Config } from '../schema.ts';
import { ConfigError, type FieldPath, formatPath, lookUp, type Problem } from './problem.ts';
import { crossCheck } from './cross-checks.ts';
import {
  FIELDS,
  type FlagName,
  type FlagValues,
  OVERRIDES,
  type Overrides,
} from './flag-fields.ts';
import { validate } from './validate.ts';

/** Other gateways call the older transport so. */
const TRANSPORT_ALIASES: ReadonlyMap<string, string> = new Map([['sse', 'http-sse']]);

/**
 * Builds the configuration of a single route.
 * @param nameOf names a flag such as `log-level` in messages: its value can come from the environment
 * @throws ConfigError with one line per problem, such as `--listen: expected an address ...`
 */
export function configFromFlags(
  values: FlagValues,
  nameOf: (flag: string) => string = withDashes,
): Config {
  const { upstream, 'seal-key': keys, ...others } = values;
  const nameless = keys === undefined ? [] : keysWithoutName(keys);
  if (nameless.length > 0) throw invalid(nameless, nameOf);
  const server = typeof upstream === 'string' ? { url: upstream } : { ...upstream };
  const data = { routes: [{ upstream: server }], seal: { keys: keys && sealKeysIn(keys) } };
  for (const [flag, value] of Object.entries(others)) put(data, FIELDS[flag as FlagName], value);
  const { transport } = others;
  if (transport !== undefined)
    put(data, FIELDS.transport, TRANSPORT_ALIASES.get(transport) ?? transport);
  const { config, problems } = validate(data);
  if (problems !== null) throw invalid(problems, nameOf);
  return withRootsOfCallers(config);
}

/** Has programs learn the roots of callers, if these are on this machine only: whoever gave the command is who calls it. */
export function withRootsOfCallers(config: Config): Config {
  if (!isLoopbackHost(config.listen.host)) return config;
  const routes = config.routes.map(({ upstream, ...route }) => ({
    ...route,
    upstream: upstream.process === null ? upstream : { ...upstream, roots: 'caller' as const },
  }));
  return { ...config, routes };
}

/** Sets a field, with the maps and lists around it. */
function put(data: object, [step = '', ...rest]: FieldPath, value: unknown): void {
  const around = data as Record<string | number, unknown>;
  if (rest.length === 0) around[step] = value;
  else put((around[step] ??= {}), rest, value);
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
  const placeholder = {
    ...values,
    admin: values.admin ?? 'off',
    upstream: 'http://upstream.invalid',
  };
  const flags = configFromFlags(placeholder, nameOf);
  const overridden: Config = { ...config, log: { ...config.log } };
  for (const flag of OVERRIDES) {
    if (values[flag] !== undefined) put(overridden, FIELDS[flag], lookUp(flags, FIELDS[flag]));
  }
  const problems = crossCheck(overridden);
  if (problems.length > 0) throw invalid(problems, nameOf, OVERRIDES);
  return overridden;
}

/** @param flags that can be given: other fields are in a file */
function invalid(
  problems: readonly Problem[],
  nameOf: (flag: string) => string,
  flags: readonly string[] = Object.keys(FIELDS),
): ConfigError {
  const lines = problems.map(({ path, text }) => `${nameOfField(path, nameOf, flags)}: ${text}`);
  return new ConfigError('config_invalid', lines);
}

function nameOfField(
  path: FieldPath,
  nameOf: (flag: string) => string,
  flags: readonly string[],
): string {
  const found = Object.entries(FIELDS).find(
    ([flag, field]) => flags.includes(flag) && field.every((step, index) => step === path[index]),
  );
  if (found === undefined) return formatPath(path);
  const [flag, field] = found;
  return `${nameOf(flag)}${formatPath(path.slice(field.length))}`;
}

function withDashes(flag: string): string {
  return `--${flag}`;
}
