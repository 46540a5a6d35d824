/** Runs the command of a command line. */
import type { Config } from '../config/schema.ts';
import { ConfigError } from '../config/load/problem.ts';
import { configFromFlags, overrideConfig } from '../config/load/from-flags.ts';
import { writtenSchemaText } from '../config/schema/json-schema.ts';
import { notesOn } from '../config/load/notes.ts';
import { listenDefault, loadConfig, loadWithAdvice } from '../config/load/load.ts';
import { VERSION } from '../lib/version.ts';
import {
  nameOfValue,
  parseArguments,
  UsageError,
  type Command,
  type Host,
  type Environment,
} from './arguments.ts';
import { EXIT, type ExitCode } from './exit-codes.ts';
import { helpFor } from './help.ts';
import { serve, type Start } from './serve.ts';
import { generateKey, type SecretKey } from '../seal/key-ring.ts';

/** Runs a command. @returns its exit code */
export async function run(words: readonly string[], host: Host, start: Start): Promise<ExitCode> {
  const command = parseArguments(words, host.env);
  if (command instanceof UsageError) {
    host.stderr.write(`mrtr-gateway: ${command.message} (see mrtr-gateway --help)\n`);
    return EXIT.usage;
  }
  switch (command.kind) {
    case 'help':
      return print(host, helpFor(command.command));
    case 'version':
      return print(host, `mrtr-gateway ${VERSION}\n`);
    case 'schema':
      return print(host, writtenSchemaText());
    case 'keygen':
      return print(host, keygen());
    case 'check': {
      const { good, text, warnings } = check(command.file, host.env);
      for (const warning of warnings) host.stderr.write(`${warning}\n`);
      (good ? host.stdout : host.stderr).write(`${text}\n`);
      return good ? EXIT.ok : EXIT.checkFailed;
    }
    case 'probe': {
      const { probeUpstream } = await import('./probe.ts');
      return probeUpstream(command, host);
    }
    case 'serve-file':
    case 'serve-upstream': {
      const config = configOf(command, words, host);
      return typeof config === 'number' ? config : serve(config, host, start);
    }
  }
}

function print(host: Host, text: string): ExitCode {
  host.stdout.write(text);
  return EXIT.ok;
}

/** Loads the configuration. @returns it, or the exit code after its problems are printed */
function configOf(
  command: Extract<Command, { kind: 'serve-file' | 'serve-upstream' }>,
  words: readonly string[],
  host: Host,
): Config | ExitCode {
  const nameOf = (flag: string) => nameOfValue(words, host.env, flag);
  try {
    if (command.kind === 'serve-upstream') {
      const listen = listenDefault(host.env);
      return configFromFlags({ ...(listen && { listen }), ...command.values }, nameOf);
    }
    const config = attempt(() => loadConfig(command.file, host.env), host, '');
    if (config === null) return EXIT.config;
    return overrideConfig(config, command.overrides, nameOf);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    printProblems(error, host, 'mrtr-gateway: ');
    return EXIT.usage;
  }
}

function attempt(load: () => Config, host: Host, prefix: string): Config | null {
  try {
    return load();
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    printProblems(error, host, prefix);
    return null;
  }
}

function printProblems(error: ConfigError, host: Host, prefix: string): void {
  host.stderr.write(`${error.message.replace(/^/gm, prefix)}\n`);
}

export interface CheckResult {
  readonly good: boolean;
  /** If the file is valid, one line and its notes, otherwise a line for each problem. Without the last newline. */
  readonly text: string;
  /** One line for each thing that is valid and risky. */
  readonly warnings: readonly string[];
}

export function check(file: string, env: Environment): CheckResult {
  try {
    const { config, warnings } = loadWithAdvice(file, env);
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

/** Formats a key as two lines for `seal.keys`. It is quoted, since YAML reads a name of digits as a number. */
export function keygen(key: SecretKey = generateKey()): string {
  const secret = Buffer.from(key.secret).toString('base64url');
  return `    # under seal.keys\n    - kid: "${key.kid}"\n      key: "${secret}"\n`;
}
