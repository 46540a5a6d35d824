/** From a file to a finished configuration: read, parse, resolve references, validate. */
import { closeSync, fstatSync, openSync, readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { getSystemErrorMessage } from 'node:util';
import type { Config } from '../config.ts';
import { ConfigError } from './config-error.ts';
import { formatPath } from './field-path.ts';
import type { Problem } from './problem.ts';
import { resolveReferences, type ReferenceSources } from './references.ts';
import { validate } from './validate.ts';
import { readSource, type Position, type Source } from './yaml-source.ts';

const MAX_FILE_BYTES = 1024 * 1024;
const MAX_SECRET_BYTES = 64 * 1024;
/** The container image sets it: loopback in a container can be reached by nobody. */
const LISTEN_DEFAULT = 'MRTR_GATEWAY_LISTEN_DEFAULT';

/**
 * Reads where to listen if neither a flag, a variable nor the file says it.
 * @returns an address as written, or `undefined` for the default of the schema
 */
export function listenDefault(env: ReferenceSources['env']): string | undefined {
  return env[LISTEN_DEFAULT] || undefined;
}

/**
 * In: the path of a YAML or JSON file, and the environment for its `${NAME}` references; `file:`
 * references are relative to the file's folder. Out: the finished configuration.
 * @throws ConfigError with one line per problem: `file:line:column field: what was expected, what was found`
 */
export function loadConfig(file: string, env: ReferenceSources['env'] = process.env): Config {
  const folder = dirname(file);
  return parseConfig(readConfigFile(file), file, {
    env,
    readSecret: (path) => readSecretFile(resolve(folder, path), path),
  });
}

/**
 * In: the text of a configuration, the name that its problems are reported under, and where references
 * lead. Out: the finished configuration.
 * @throws ConfigError and nothing else
 */
export function parseConfig(text: string, file: string, sources: ReferenceSources): Config {
  const source = readSource(text);
  if (source.problems.length > 0) {
    throw invalid(
      source.problems.map(({ position, path, text }) => ({ position, line: at(path, text) })),
      file,
    );
  }
  const resolved = resolveReferences(source.data ?? {}, sources);
  if (resolved.problems.length > 0) throw invalid(place(resolved.problems, source), file);
  const data = withListen(resolved.data, listenDefault(sources.env));
  const { config, problems } = validate(data, (path) => {
    const written = resolved.writtenAt(path);
    return written === null ? null : `the value of ${JSON.stringify(written)}`;
  });
  if (problems !== null) throw invalid(place(problems, source), file);
  return config;
}

/** Gives a file without `listen` another default than that of the schema. */
function withListen(data: unknown, listen: string | undefined): unknown {
  const isMap = typeof data === 'object' && data !== null && !Array.isArray(data);
  return isMap && listen !== undefined ? { listen, ...data } : data;
}

interface Placed {
  readonly position: Position;
  readonly line: string;
}

function place(problems: readonly Problem[], source: Source): Placed[] {
  return problems.map(({ path, atKey, text }) => ({
    position: source.positionOf(path, atKey),
    line: at(path, text),
  }));
}

function at(path: Problem['path'], text: string): string {
  const field = formatPath(path);
  return field === '' ? text : `${field}: ${text}`;
}

function invalid(problems: readonly Placed[], file: string): ConfigError {
  const ordered = problems.toSorted(
    ({ position: left }, { position: right }) =>
      left.line - right.line || left.column - right.column,
  );
  const lines = ordered.map(
    ({ position, line }) => `${file}:${position.line}:${position.column} ${line}`,
  );
  return new ConfigError('config_invalid', lines);
}

function readConfigFile(file: string): string {
  try {
    return readBounded(file, MAX_FILE_BYTES);
  } catch (error) {
    throw new ConfigError('config_unreadable', [`${file}: cannot read it: ${reason(error)}`]);
  }
}

function readSecretFile(file: string, written: string): string {
  try {
    return readBounded(file, MAX_SECRET_BYTES);
  } catch (error) {
    throw new Error(`expected a readable file, got ${JSON.stringify(written)}: ${reason(error)}`, {
      cause: error,
    });
  }
}

/** Reads a regular file (never a pipe, which could block for ever) of at most so many bytes. */
function readBounded(file: string, maxBytes: number): string {
  const descriptor = openSync(file, 'r');
  try {
    const stats = fstatSync(descriptor);
    if (!stats.isFile()) throw new Error(stats.isDirectory() ? 'it is a folder' : 'it is no file');
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
