/** The commands that read a configuration: `check`, and the start of a gateway from flags or from a file. */
import { readFileSync } from 'node:fs';
import { nextFree } from '../lib/listen.ts';
import { loadClientFile } from '../config/load/client-file.ts';
import { ConfigFile } from '../config/load/config-file.ts';
import type { FlagValues, Overrides } from '../config/load/flag-fields.ts';
import { configFromFlags, overrideConfig, withRootsOfCallers } from '../config/load/from-flags.ts';
import { listenDefault } from '../config/load/listen-default.ts';
import { loadConfig } from '../config/load/load.ts';
import { adviseOn, notesOn } from '../config/load/advice.ts';
import { ConfigError, formatPath } from '../config/load/problem.ts';
import type { Config } from '../config/schema.ts';
import { systemClock } from '../lib/clock.ts';
import type { Environment } from '../lib/program.ts';
import { nameOfValue, type CommandOf, type Host, type Served } from './arguments.ts';
import { EXIT, type ExitCode } from './exit-codes.ts';
import { logFor, serve, tellStartFailed, type Start } from './serve.ts';
import { describeUnknown, describeUnused, unknownVariables, unusedVariables } from './variables.ts';

/** Checks a file, and prints what is wrong or risky in it. @returns the exit code */
export function printCheck(file: string, host: Host): ExitCode {
  const { good, text, warnings } = check(file, host.env);
  for (const warning of warnings) host.stderr.write(`${warning}\n`);
  (good ? host.stdout : host.stderr).write(`${text}\n`);
  return good ? EXIT.ok : EXIT.checkFailed;
}

/** Runs a gateway with the configuration of flags. @returns the exit code */
export async function serveUpstream(
  command: CommandOf<'serve-upstream'>,
  words: readonly string[],
  host: Host,
  start: Start,
): Promise<ExitCode> {
  const told = { host, format: command.values['log-format'] };
  const config = attempt(() => configOfFlags(command, words, host.env), told, 'mrtr-gateway: ');
  if (config === null) return EXIT.usage;
  warnOfVariables(config, host, variablesOfCommand(command.values));
  return serve(await beside(config, command.values, host), host, start);
}

/** Runs a gateway for the servers in the file of a client. @returns the exit code */
export async function serveFrom(
  command: CommandOf<'serve-from'>,
  words: readonly string[],
  host: Host,
  start: Start,
): Promise<ExitCode> {
  const told = { host, format: command.overrides['log-format'] };
  const file = attempt(() => loadClientFile(command.file, host.env), told, '');
  if (file === null) return EXIT.config;
  const override = () => configOfClient(file.config, command.overrides, words, host.env);
  const config = attempt(override, told, 'mrtr-gateway: ');
  if (config === null) return EXIT.usage;
  warnOfVariablesBesideFile(config, host, new Set(file.variables.keys()));
  const log = logFor(config, host);
  for (const problem of file.notes) log.event('config.risky', { field: command.file, problem });
  return serve(await beside(config, command.overrides, host), host, start);
}

/** Runs a gateway with the configuration of a file. @returns the exit code */
export async function serveFile(
  command: CommandOf<'serve-file'>,
  words: readonly string[],
  host: Host,
  start: Start,
): Promise<ExitCode> {
  const nameOf = (flag: string) => nameOfValue(words, host.env, flag);
  const file = new ConfigFile(command.file, host.env, systemClock);
  const told = { host, format: command.overrides['log-format'] };
  const loaded = attempt(() => file.load(), told, '');
  if (loaded === null) return EXIT.config;
  const override = (config: Config) => overrideConfig(config, command.overrides, nameOf);
  const config = attempt(() => override(loaded), told, 'mrtr-gateway: ');
  if (config === null) return EXIT.usage;
  warnOfVariablesBesideFile(config, host, file.variables);
  const source = { file, load: () => override(file.load()) };
  return serve(config, host, start, systemClock, source);
}

/** Logs the variables that look like those of the gateway, and have no effect. */
function warnOfVariables(config: Config, host: Host, used: ReadonlySet<string>): void {
  const log = logFor(config, host);
  for (const variable of unknownVariables(host.env, used)) {
    log.event('gateway.unknown_variable', { ...variable });
  }
}

/** Logs besides the variables that count only without a file. */
function warnOfVariablesBesideFile(config: Config, host: Host, used: ReadonlySet<string>): void {
  warnOfVariables(config, host, used);
  const log = logFor(config, host);
  for (const variable of unusedVariables(host.env, used)) {
    log.event('gateway.unused_variable', { ...variable });
  }
}

/** Returns the names of the variables that the server over stdio gets. */
function variablesOfCommand({ upstream }: FlagValues): ReadonlySet<string> {
  return new Set(typeof upstream === 'string' ? [] : Object.keys(upstream.env));
}

/** Reads the configuration of flags. @throws ConfigError */
function configOfFlags(
  { values, sealKeyFile }: CommandOf<'serve-upstream'>,
  words: readonly string[],
  env: Environment,
): Config {
  const nameOf = (flag: string) =>
    nameOfValue(words, env, flag === 'seal-key' && sealKeyFile !== null ? 'seal-key-file' : flag);
  const listen = listenDefault(env);
  const sealKey = sealKeyFile === null ? undefined : readSealKeys(sealKeyFile, nameOf);
  const given = { ...(listen && { listen }), ...(sealKey && { 'seal-key': sealKey }), ...values };
  return configFromFlags(given, nameOf);
}

/** Applies flags to the configuration that the file of a client gives. @throws ConfigError */
function configOfClient(
  config: Config,
  overrides: Overrides,
  words: readonly string[],
  env: Environment,
): Config {
  const listen = listenDefault(env);
  const nameOf = (flag: string) => nameOfValue(words, env, flag);
  return withRootsOfCallers(
    overrideConfig(config, { ...(listen && { listen }), ...overrides }, nameOf),
  );
}

/** A configuration that was read, and not started. */
export interface ReadConfig {
  readonly config: Config;
  /** One line for each thing that is valid but risky, and for each variable that has no effect. */
  readonly warnings: readonly string[];
  /** Fields whose addresses move to the next free port. */
  readonly movable: readonly string[];
}

/** Reads what a gateway would serve. @throws ConfigError */
export function readServed(served: Served, words: readonly string[], env: Environment): ReadConfig {
  const nameOf = (flag: string) => nameOfValue(words, env, flag);
  if (served.kind === 'serve-file') {
    const { config, warnings } = readFile(served.file, env);
    return { config: overrideConfig(config, served.overrides, nameOf), warnings, movable: [] };
  }
  if (served.kind === 'serve-from') {
    const { config: inFile, notes, variables } = loadClientFile(served.file, env);
    const config = configOfClient(inFile, served.overrides, words, env);
    const warnings = [
      ...notes.map((note) => `${served.file}: ${note}`),
      ...risksOf(config, env),
      ...withoutEffect(env, new Set(variables.keys())),
    ];
    return { config, warnings, movable: movable(served.overrides, env) };
  }
  const config = configOfFlags(served, words, env);
  return { config, warnings: risksOf(config, env), movable: movable(served.values, env) };
}

/** Lists what is risky in a configuration that is not written in a file. */
function risksOf(config: Config, env: Environment): string[] {
  const risks = adviseOn(config, () => false, env);
  return risks.map(({ path, text }) => `${formatPath(path)}: ${text}`);
}

function movable(values: Overrides, env: Environment): string[] {
  const isListenGiven = values.listen !== undefined || listenDefault(env) !== undefined;
  return [...(isListenGiven ? [] : ['listen']), ...(values.admin === undefined ? ['admin'] : [])];
}

function readFile(file: string, env: Environment): Pick<ReadConfig, 'config' | 'warnings'> {
  const { config, warnings: risks, variables } = loadConfig(file, env);
  const unheard = withoutEffect(env, variables);
  return { config, warnings: [...risks, ...unheard.map((text) => `warning: ${text}`)] };
}

/** Describes the variables that have no effect beside a file. @param used names that the file refers to */
function withoutEffect(env: Environment, used: ReadonlySet<string>): string[] {
  return [
    ...unknownVariables(env, used).map(describeUnknown),
    ...unusedVariables(env, used).map(describeUnused),
  ];
}

/**
 * Lets a gateway without a file start beside another one: where an address is the default and in use, it
 * uses the next free port, and logs a warning.
 */
async function beside(config: Config, values: Overrides, host: Host): Promise<Config> {
  const fields = movable(values, host.env);
  const listen = fields.includes('listen') ? await nextFree(config.listen) : config.listen;
  const wanted = config.admin;
  const canMove = wanted !== null && fields.includes('admin');
  const admin = canMove ? await nextFree(wanted, [listen.port]) : wanted;
  const log = logFor(config, host);
  for (const [flag, before, now] of [
    ['--listen', config.listen, listen],
    ['--admin', wanted, admin],
  ] as const) {
    if (before === null || now === null || before.port === now.port) continue;
    log.event('gateway.port_in_use', { flag, port: before.port, instead: now.port });
  }
  return { ...config, listen, admin };
}

/** @throws ConfigError if the file cannot be read, or is empty */
function readSealKeys(file: string, nameOf: (flag: string) => string): string {
  const name = nameOf('seal-key-file');
  let keys;
  try {
    keys = readFileSync(file, 'utf8');
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    throw new ConfigError('config_unreadable', [`${name}: cannot read ${file} (${code})`]);
  }
  if (keys.trim() !== '') return keys;
  throw new ConfigError('config_invalid', [`${name}: expected a key in ${file}, which is empty`]);
}

/** @param format as a flag or a variable has it; a file that cannot be read says nothing of it */
function attempt<Result>(
  load: () => Result,
  { host, format }: { readonly host: Host; readonly format: string | undefined },
  prefix: string,
): Result | null {
  try {
    return load();
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const { code, message } = error;
    tellStartFailed(host, format, { code, problems: message.split('\n'), prefix });
    return null;
  }
}

export interface CheckResult {
  readonly good: boolean;
  /** If the file is valid, one line and its notes, otherwise a line for each problem. Without the last newline. */
  readonly text: string;
  /** One line for each thing that is valid but risky, and for each variable that has no effect. */
  readonly warnings: readonly string[];
}

export function check(file: string, env: Environment): CheckResult {
  try {
    const { config, warnings } = readFile(file, env);
    const { length } = config.routes;
    const verdict = `${file}: ok (${counted(length, 'route')}${warnings.length === 0 ? '' : `, ${counted(warnings.length, 'warning')}`})`;
    return { good: true, text: [verdict, ...notesOn(config)].join('\n'), warnings };
  } catch (error) {
    if (error instanceof ConfigError) return { good: false, text: error.message, warnings: [] };
    throw error;
  }
}

function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`;
}
