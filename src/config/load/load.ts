/** Loads a configuration file: reads, parses, resolves references, validates. */
import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { getSystemErrorMessage } from 'node:util';
import type { Config } from '../schema.ts';
import { keySet } from '../schema/identity.ts';
import { adviseOn } from './advice.ts';
import { ConfigError, type FieldPath, formatPath, lookUp, type Problem } from './problem.ts';
import { resolveReferences, type ReferenceSources } from './references.ts';
import { validate } from './validate.ts';
import { listenDefault } from './listen-default.ts';
import { readSource, type Source, type SourceProblem } from './yaml-source.ts';

const MAX_FILE_BYTES = 1024 * 1024;
const MAX_SECRET_BYTES = 64 * 1024;

/** Called with each file that is read, and its text; `null` if it cannot be read. */
export type OnRead = (file: string, text: string | null) => void;

export interface LoadedConfig {
  readonly config: Config;
  /** What is valid but risky, one line each. */
  readonly warnings: readonly string[];
  /** Tells whether the file has a value for a field. */
  readonly isWritten: (path: FieldPath) => boolean;
  /** The names of the environment variables that the file refers to. */
  readonly variables: ReadonlySet<string>;
}

/**
 * Loads a YAML or JSON file. `file:` references are relative to its folder.
 * @param env resolves `${NAME}` references
 * @throws ConfigError with one line per problem: `file:line:column field: expected ..., got ...`
 */
export function loadConfig(
  file: string,
  env: ReferenceSources['env'],
  onRead: OnRead = () => {},
): LoadedConfig {
  const folder = dirname(file);
  return parseConfig(readConfigFile(file, onRead), file, {
    env,
    readSecret: (path) => readSecretFile(resolve(folder, path), path, onRead),
  });
}

/**
 * Parses and validates the text of a configuration.
 * @param file its name in messages
 * @throws ConfigError and nothing else
 */
export function parseConfig(text: string, file: string, sources: ReferenceSources): LoadedConfig {
  const source = readSource(text);
  if (source.problems.length > 0) throw invalid(source.problems, file);
  const resolved = resolveReferences(source.data ?? {}, sources);
  const data = withListen(resolved.data, listenDefault(sources.env));
  const unresolved = resolved.problems.map(({ path }) => path);
  const shownInstead = (path: FieldPath) => {
    const written = resolved.writtenAt(path);
    return written === null ? null : `the value of ${JSON.stringify(written)}`;
  };
  const { config, problems } = validate(data, shownInstead, unresolved);
  const found = [...resolved.problems, ...(problems ?? [])];
  if (config === null || found.length > 0) throw invalid(placed(found, source), file);
  const written = source.data;
  const isWritten = (path: FieldPath) => lookUp(written, path) !== undefined;
  const advice = [...adviseOn(config, isWritten, sources.env), ...adviseOnKeyFile(config)];
  const warnings = linesOf(placed(advice, source), file, 'warning: ');
  return { config, warnings, isWritten, variables: resolved.variables };
}

/** A file of keys can come later, so what is wrong with it is not a problem of the configuration. */
function adviseOnKeyFile({ identity }: Config): Problem[] {
  if (identity.source !== 'jwt' || identity.jwks.file === null) return [];
  const problem = keyFileProblem(identity.jwks.file);
  if (problem === null) return [];
  const text = `the keys cannot be read, and without them all tokens are refused: ${problem}`;
  return [{ path: ['identity', 'jwks', 'file'], text }];
}

function keyFileProblem(file: string): string | null {
  try {
    const { error } = keySet.safeParse(JSON.parse(readRegular(file, MAX_FILE_BYTES)));
    return error === undefined ? null : 'it is not a JWK set of public keys';
  } catch (error) {
    return error instanceof SyntaxError ? 'it is not JSON' : reason(error);
  }
}

/** Sets the default of `listen`, if it is not that of the schema. */
function withListen(data: unknown, listen: string | undefined): unknown {
  const isMap = typeof data === 'object' && data !== null && !Array.isArray(data);
  return isMap && listen !== undefined ? { listen, ...data } : data;
}

function placed(problems: readonly Problem[], source: Source): SourceProblem[] {
  return problems.map((problem) => ({
    ...problem,
    position: source.positionOf(problem.path, problem.atKey),
  }));
}

function invalid(problems: readonly SourceProblem[], file: string): ConfigError {
  return new ConfigError('config_invalid', linesOf(problems, file));
}

function linesOf(problems: readonly SourceProblem[], file: string, prefix = ''): string[] {
  const ordered = problems.toSorted(
    ({ position: left }, { position: right }) =>
      left.line - right.line || left.column - right.column,
  );
  return ordered.map(({ position: { line, column }, path, text }) => {
    const field = path.length === 0 ? '' : `${formatPath(path)}: `;
    return `${file}:${line}:${column} ${prefix}${field}${text}`;
  });
}

/** @throws ConfigError if it cannot be read */
export function readConfigFile(file: string, onRead: OnRead = () => {}): string {
  try {
    return readBounded(file, MAX_FILE_BYTES, onRead);
  } catch (error) {
    throw new ConfigError('config_unreadable', [`cannot read ${file}: ${reason(error)}`]);
  }
}

function readSecretFile(file: string, written: string, onRead: OnRead): string {
  try {
    return readBounded(file, MAX_SECRET_BYTES, onRead);
  } catch (error) {
    throw new Error(`expected a readable file, got ${JSON.stringify(written)}: ${reason(error)}`, {
      cause: error,
    });
  }
}

function readBounded(file: string, maxBytes: number, onRead: OnRead): string {
  try {
    const text = readRegular(file, maxBytes);
    onRead(file, text);
    return text;
  } catch (error) {
    onRead(file, null);
    throw error;
  }
}

/** Reads a file as the loader does. @returns `null` if that refuses it */
export function readableText(file: string): string | null {
  try {
    return readRegular(file, MAX_FILE_BYTES);
  } catch {
    return null;
  }
}

/** Reads a regular file of at most `maxBytes`. A pipe is refused: reading it could block, as opening it would. */
function readRegular(file: string, maxBytes: number): string {
  const descriptor = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const stats = fstatSync(descriptor);
    if (!stats.isFile())
      throw new Error(stats.isDirectory() ? 'it is a directory' : 'it is not a regular file');
    if (stats.size > maxBytes) throw new Error(`it is larger than ${maxBytes} bytes`);
    return new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(descriptor));
  } finally {
    closeSync(descriptor);
  }
}

function reason(error: unknown): string {
  if (error instanceof TypeError) return 'it is not UTF-8 text';
  if (!(error instanceof Error)) return String(error);
  const { errno, code } = error as NodeJS.ErrnoException;
  if (errno === undefined) return error.message;
  return `${getSystemErrorMessage(errno)} (${code ?? errno})`;
}
