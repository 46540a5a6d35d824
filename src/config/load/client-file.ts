/**
 * Makes a configuration of the file that people have for their clients: `mcpServers`, or `servers` of VS Code. Each server is a route.
 * What can be a secret becomes a reference to a variable, whose value is kept apart.
 */
import { basename, dirname, resolve } from 'node:path';
import { isJsonObject, type JsonObject } from '../../protocol/json.ts';
import type { Config } from '../schema.ts';
import { readEntry, REFERENCE, VARIABLE, type Entry, type Variables } from './client-entry.ts';
import { readConfigFile } from './load.ts';
import { ConfigError, formatPath, type FieldPath, type Problem } from './problem.ts';
import { resolveReferences, type ReferenceSources } from './references.ts';
import { validate } from './validate.ts';
import { readSource } from './yaml-source.ts';

export interface ClientFile {
  /** What a configuration file says, with references. */
  readonly data: { readonly routes: readonly JsonObject[] };
  /** The variables that it refers to, with the fields of the client's file that each stands for. */
  readonly variables: ReadonlyMap<string, readonly string[]>;
  /** What could not be translated, a line each. */
  readonly notes: readonly string[];
}

/** Keys of the map of servers. */
const KEYS = ['mcpServers', 'servers'] as const;
const TEXT_OR_COMMENT = /"(?:[^"\\]|\\.)*"|\/\/[^\n]*|\/\*[\s\S]*?\*\//g;

/** Reads the file of a client. @throws ConfigError with one line per problem: `file:line:column field: ...` */
export function readClientFile(file: string): ClientFile {
  return read(file, null).found;
}

/**
 * Reads the file of a client as a configuration, with its values.
 * @param env resolves the references of the file
 * @throws ConfigError as above, and for a variable that is not set
 */
export function loadClientFile(
  file: string,
  env: ReferenceSources['env'],
): ClientFile & { readonly config: Config } {
  const { found, config, fail } = read(file, env);
  if (config === null) return fail([{ path: [], text: 'expected valid servers' }]);
  return { ...found, config };
}

/** @param env `null` if no variable needs to be set */
function read(file: string, env: ReferenceSources['env'] | null) {
  // Clients take comments of JavaScript. Blanks in their place keep the positions.
  const text = readConfigFile(file).replace(TEXT_OR_COMMENT, (token) =>
    token.startsWith('"') ? token : token.replace(/[^\n]/g, ' '),
  );
  const source = readSource(text);
  const fail = (problems: readonly Problem[]): never => {
    const lines = problems.map(({ path, atKey, text }) => {
      const { line, column } = source.positionOf(path, atKey);
      return `${file}:${line}:${column} ${path.length === 0 ? '' : `${formatPath(path)}: `}${text}`;
    });
    throw new ConfigError('config_invalid', lines);
  };
  for (const { position, text } of source.problems) {
    const line = `${file}:${position.line}:${position.column} ${text}`;
    throw new ConfigError('config_invalid', [line]);
  }
  const [key, servers] = serversIn(source.data) ?? fail([NO_SERVERS]);
  const variables = new NamedVariables(text);
  const around = { variables, folder: projectOf(file), taken: new Set<string>() };
  const entries = Object.entries(servers).map(([name, value]) =>
    readEntry([key, name], value, around),
  );
  const problems = entries.flatMap((entry) => entry.problems);
  const used = entries.filter(({ route }) => route !== null);
  if (problems.length > 0) fail(problems);
  if (used.length === 0) fail([{ path: [key], text: NONE_USED }]);
  const routes = entries.flatMap(({ route }) => (route === null ? [] : [route]));
  const sources = { env: { ...env, ...variables.values }, readSecret: noFile };
  const resolved = resolveReferences({ routes }, sources);
  const unresolved = resolved.problems.map(({ path }) => path);
  const { config, problems: wrong } = validate(resolved.data, hidden(resolved), unresolved);
  const missing = env === null ? [] : resolved.problems;
  const told = [...missing, ...(wrong ?? [])];
  if (told.length > 0) {
    // The file is that of a client, so its own fields are named.
    fail(told.map((each) => ({ ...each, path: originOf(each.path, used) ?? [key] })));
  }
  const notes = entries.flatMap((entry) => entry.notes);
  return { found: { data: { routes }, variables: variables.fields, notes }, config, fail };
}

const NO_SERVERS: Problem = { path: [], text: `expected a map ${KEYS.join(' or ')}` };
const NONE_USED = 'expected at least one server that is not switched off';

function serversIn(data: unknown): readonly [string, JsonObject] | null {
  if (!isJsonObject(data)) return null;
  for (const key of KEYS) {
    const servers = data[key];
    if (isJsonObject(servers)) return [key, servers];
  }
  return null;
}

function hidden(resolved: ReturnType<typeof resolveReferences>) {
  return (path: FieldPath) =>
    resolved.writtenAt(path) === null ? null : 'a value that is not shown';
}

/** A client does not read files for its servers. */
function noFile(path: string): never {
  throw new Error(`expected a text, got "file:${path}", which no client reads`);
}

/** The folder of a project, which entries refer to. */
function projectOf(file: string): string {
  const folder = dirname(resolve(file));
  return /^\.(?:vscode|cursor)$/.test(basename(folder)) ? dirname(folder) : folder;
}

/** Finds the field of the client's file that a field of the configuration comes from. */
function originOf(path: FieldPath, entries: readonly Entry[]): FieldPath | null {
  const [, index, section, key, ...rest] = path;
  const entry = typeof index === 'number' ? entries[index] : undefined;
  if (entry === undefined) return null;
  if (section !== 'upstream' || key === undefined) return entry.path;
  return [...entry.path, key === 'url' ? entry.urlKey : key, ...rest];
}

/** Names what stands for secrets. Two that are equal share a name. */
class NamedVariables implements Variables {
  readonly values: Record<string, string> = {};
  readonly fields = new Map<string, readonly string[]>();
  /** The names that the file itself refers to. */
  readonly #referred: ReadonlySet<string>;

  constructor(text: string) {
    const inside = [...text.matchAll(REFERENCE)].map(([, name = '']) => name);
    this.#referred = new Set(inside.map((name) => VARIABLE.exec(name)?.[1] ?? ''));
  }

  refer(name: string, field: string): string {
    this.fields.set(name, [...(this.fields.get(name) ?? []), field]);
    return `\${${name}}`;
  }

  standFor(value: string, names: readonly string[], field: string): string {
    const isFree = (name: string) =>
      !this.#referred.has(name) && (this.values[name] ?? value) === value;
    const [first = 'SECRET'] = names.slice(-1);
    let name = names.find(isFree) ?? first;
    for (let number = 2; !isFree(name); number += 1) name = `${first}_${number}`;
    this.values[name] = value;
    return this.refer(name, field);
  }
}
