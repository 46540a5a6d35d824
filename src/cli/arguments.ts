/** Parses the command line. It reads and prints nothing. */
import {
  fieldInFile,
  OVERRIDES,
  type CommandValues,
  type FlagValues,
  type Overrides,
} from '../config/load/flag-fields.ts';
import { parseDuration } from '../config/units.ts';
import { urlMeant } from '../config/load/problem.ts';
import { CONNECTABLE_NAMES, type ConnectableName } from '../connect/clients.ts';
import type { Environment } from '../lib/program.ts';
import { parseRealCall, type RealCall } from '../probe/named-call.ts';
import {
  ADMIN_URL,
  FLAGS,
  GATEWAY_URL,
  KEY_FORMATS,
  SEAL_KEY_VARIABLE,
  SHELLS,
  type CommandName,
  type KeyFormat,
  type Shell,
} from './flags.ts';
import { describeUnknown, unknownVariables } from './variables.ts';
import {
  commandNamed,
  NO_COMMAND,
  nameOfCommand,
  quote,
  readWords,
  UsageError,
  type Words,
} from './words.ts';

/** What a gateway serves: a configuration file, the servers in the file of a client, or the server of flags. */
export type Served =
  | { readonly kind: 'serve-file'; readonly file: string; readonly overrides: Overrides }
  | { readonly kind: 'serve-from'; readonly file: string; readonly overrides: Overrides }
  | {
      readonly kind: 'serve-upstream';
      readonly values: FlagValues;
      /** The file with the sealing keys, which are not in `values` then. */
      readonly sealKeyFile: string | null;
    };

export type Command =
  | Served
  | { readonly kind: 'check'; readonly file: string }
  | { readonly kind: 'schema' }
  | { readonly kind: 'keygen'; readonly format: KeyFormat }
  | { readonly kind: 'completion'; readonly shell: Shell }
  | {
      readonly kind: 'probe';
      readonly upstream: string | CommandValues;
      readonly headers: Readonly<Record<string, string>>;
      readonly timeoutMs: number;
      readonly call: RealCall | null;
      readonly json: boolean;
    }
  | {
      readonly kind: 'doctor';
      /** What a gateway would serve. */
      readonly serves: Served;
      readonly timeoutMs: number;
      readonly json: boolean;
    }
  | {
      readonly kind: 'connect';
      /** `null` to list clients. */
      readonly client: ConnectableName | null;
      readonly url: string;
      readonly name: string;
      readonly print: boolean;
      readonly yes: boolean;
    }
  | { readonly kind: 'mcp-json'; readonly file: string }
  | { readonly kind: 'top'; readonly url: string; readonly once: boolean }
  | { readonly kind: 'help'; readonly command: CommandName }
  | { readonly kind: 'version' };

export type CommandOf<Kind extends Command['kind']> = Extract<Command, { readonly kind: Kind }>;

/**
 * Parses a command line. It does not throw.
 * @param env provides the values of flags that are not given
 */
export function parseArguments(words: readonly string[], env: Environment): Command | UsageError {
  try {
    return commandOf(words, env);
  } catch (error) {
    if (error instanceof UsageError) return error;
    throw error;
  }
}

/** Finds how a command whose words are wrong is to report that: as text, or as the log of a gateway that does not start. */
export function givenFormat(words: readonly string[], env: Environment): string | undefined {
  if ((commandNamed(words) ?? 'serve') !== 'serve') return 'pretty';
  const [, flag] = /^.* --log-format[= ](json|pretty)(?: |$)/.exec(` ${words.join(' ')}`) ?? [];
  return flag ?? env[variableOf('log-format') ?? ''];
}

function commandOf(words: readonly string[], env: Environment): Command {
  const [first, ...others] = words;
  if (first === 'help') return { kind: 'help', command: nameOfCommand(others) };
  if (first === 'version' && others.length === 0) return { kind: 'version' };
  const name = nameOfCommand(words);
  const read = readWords(words, name);
  const { given, lists, operands } = read;
  if (given.has('help')) return { kind: 'help', command: name };
  if (given.has('version')) return { kind: 'version' };
  switch (name) {
    case 'check':
      return checkCommand(given, operands);
    case 'probe':
      return probeCommand(read, lists.get('header') ?? [], env);
    case 'doctor':
      return {
        kind: 'doctor',
        serves: serveCommand(read, env),
        timeoutMs: timeoutIn(given),
        json: given.has('json'),
      };
    case 'connect':
      return connectCommand(given, operands);
    case 'mcp.json':
      refuseOperands(operands.slice(1));
      if (operands[0] === undefined) {
        throw new UsageError('"mcp.json" needs a file: mrtr-gateway mcp.json FILE');
      }
      return { kind: 'mcp-json', file: operands[0] };
    case 'top':
      return topCommand(given, operands);
    case 'keygen':
      refuseOperands(operands);
      return {
        kind: 'keygen',
        format: oneOf(KEY_FORMATS, given.get('format') ?? 'yaml', '--format'),
      };
    case 'completion':
      refuseOperands(operands.slice(1));
      return { kind: 'completion', shell: oneOf(SHELLS, operands[0], '"completion"') };
    case 'serve':
      return serveCommand(read, env);
  }
}

function oneOf<Choice extends string>(
  choices: readonly Choice[],
  word: string | undefined,
  of: string,
): Choice {
  const choice = choices.find((candidate) => candidate === word);
  if (choice !== undefined) return choice;
  throw new UsageError(
    `${of}: expected one of ${choices.join(', ')}, got ${word === undefined ? 'nothing' : quote(word)}`,
  );
}

/** Reads the server that `--stdio` names; `null` without it. */
function stdioServer({ given, lists, rest }: Words, env: Environment): CommandValues | null {
  const variables = lists.get('env') ?? [];
  if (!given.has('stdio')) {
    if (variables.length > 0) throw new UsageError('--env needs --stdio');
    return null;
  }
  const [command, ...args] = rest ?? [];
  if (command === undefined) throw new UsageError(NO_COMMAND);
  return { command, args, env: Object.fromEntries(variables.map((each) => variableIn(each, env))) };
}

/** Values can be secrets, so no message contains them. */
function variableIn(written: string, env: Environment): readonly [string, string] {
  const [name = ''] = written.split('=', 1);
  if (name !== written) return [name, written.slice(name.length + 1)];
  const value = env[name];
  if (value === undefined) throw new UsageError(`--env ${quote(name)}: the variable is not set`);
  return [name, value];
}

function refuseOperands([first]: readonly string[]): void {
  if (first === undefined) return;
  throw new UsageError(`unexpected argument ${quote(first)}`);
}

function checkCommand(given: Words['given'], operands: readonly string[]): Command {
  const [file, ...others] = operands;
  if (given.has('schema')) {
    refuseOperands(operands);
    return { kind: 'schema' };
  }
  if (file === undefined) throw new UsageError('"check" needs a file: mrtr-gateway check FILE');
  refuseOperands(others);
  return { kind: 'check', file };
}

function topCommand(given: Words['given'], [url, ...others]: readonly string[]): Command {
  refuseOperands(others);
  const address = url ?? ADMIN_URL;
  if (!/^https?:\/\//.test(address) || !URL.canParse(address)) {
    const meant = urlMeant(address);
    const wayOut =
      meant === null
        ? `such as ${ADMIN_URL}`
        : `got ${quote(address)}; did you mean ${quote(meant)}?`;
    throw new UsageError(`"top" needs the URL of an admin listener, ${wayOut}`);
  }
  return { kind: 'top', url: address, once: given.has('once') };
}

function connectCommand(given: Words['given'], [client, ...others]: readonly string[]): Command {
  refuseOperands(others);
  const [flag] = given.keys();
  if (client === undefined && flag !== undefined) {
    throw new UsageError(`--${flag} needs a client: mrtr-gateway connect CLIENT --${flag}`);
  }
  const url = given.get('url') ?? GATEWAY_URL;
  if (!/^https?:\/\//.test(url) || !URL.canParse(url)) {
    throw new UsageError(
      `--url needs the URL of a route, such as ${GATEWAY_URL}, got ${quote(url)}`,
    );
  }
  const name = given.get('name') ?? nameOfRoute(url);
  if (!/^[A-Za-z0-9_-]{1,64}$/.test(name)) {
    throw new UsageError('--name needs letters, digits, "_" and "-", at most 64');
  }
  const known = CONNECTABLE_NAMES;
  return {
    kind: 'connect',
    client: client === undefined ? null : oneOf(known, client, '"connect"'),
    url,
    name,
    print: given.has('print'),
    yes: given.has('yes'),
  };
}

/** Routes that are made from the file of a client are named after its servers: `/github/mcp`. */
function nameOfRoute(url: string): string {
  const [, name] = /\/([A-Za-z0-9_-]{1,64})\/mcp$/.exec(new URL(url).pathname) ?? [];
  return name ?? 'gateway';
}

const PROBE_TIMEOUT_MS = { least: 100, most: 600_000, usual: '10s' };

function probeCommand(words: Words, headerLines: readonly string[], env: Environment): Command {
  const { given } = words;
  const [url, ...others] = words.operands;
  const upstream = stdioServer(words, env) ?? url;
  if (upstream === undefined) throw new UsageError('"probe" needs a URL: mrtr-gateway probe URL');
  if (url !== undefined && url !== upstream)
    throw new UsageError('a URL cannot be combined with --stdio');
  for (const flag of url === undefined ? ['header', 'call'] : []) {
    if (!given.has(flag) && !words.lists.has(flag)) continue;
    throw new UsageError(`--${flag} cannot be combined with --stdio`);
  }
  refuseOperands(others);
  return {
    kind: 'probe',
    upstream,
    headers: headersOf(headerLines, '--header'),
    timeoutMs: timeoutIn(given),
    call: callOf(given.get('call')),
    json: given.has('json'),
  };
}

function timeoutIn(given: Words['given']): number {
  const timeoutMs = parseDuration(given.get('timeout') ?? PROBE_TIMEOUT_MS.usual) ?? 0;
  if (timeoutMs < PROBE_TIMEOUT_MS.least || timeoutMs > PROBE_TIMEOUT_MS.most) {
    throw new UsageError('--timeout needs a duration from 100ms to 10m, such as 30s');
  }
  return timeoutMs;
}

function callOf(given: string | undefined): RealCall | null {
  if (given === undefined) return null;
  const call = parseRealCall(given);
  if (call !== null) return call;
  throw new UsageError('--call needs TOOL or TOOL:JSON, such as --call \'ask:{"name":"Ada"}\'');
}

/** Parses headers. Values can be credentials, so no message contains them. */
function headersOf(lines: readonly string[], flag: string): Record<string, string> {
  const headers = new Map<string, string>();
  for (const line of lines) {
    const colon = line.indexOf(':');
    const name = line.slice(0, Math.max(0, colon)).trim().toLowerCase();
    if (name === '')
      throw new UsageError(`${flag} needs a name and a value: ${flag} "Name: value"`);
    if (headers.has(name)) throw new UsageError(`${flag} ${quote(name)} is given twice`);
    headers.set(name, line.slice(colon + 1).trim());
  }
  return Object.fromEntries(headers);
}

/** Flags that a server over stdio has no use for. */
const OVER_HTTP = ['upstream', 'config', 'transport', 'upstream-header'];

function serveCommand(words: Words, env: Environment): Served {
  const { given, lists } = words;
  const server = stdioServer(words, env);
  refuseOperands(words.operands);
  const isGiven = (name: string) => given.has(name) || lists.has(name);
  for (const other of server === null ? [] : OVER_HTTP) {
    if (isGiven(other)) throw new UsageError(`--stdio cannot be combined with --${other}`);
  }
  const variable = (name: string) => env[variableOf(name) ?? ''] || undefined;
  const value = (name: string) => given.get(name) ?? variable(name);
  type Values<Name extends string> = Record<Name, string | undefined>;
  const valuesOf = <Name extends string>(names: readonly Name[]) =>
    present(Object.fromEntries(names.map((name) => [name, value(name)])) as Values<Name>);
  const overrides = valuesOf(OVERRIDES);
  const from = given.get('from');
  if (from !== undefined) {
    for (const { name } of FLAGS.serve) {
      const isOther = name === 'config' || name === 'stdio' || fieldInFile(name) !== null;
      if (isOther && isGiven(name)) {
        throw new UsageError(`--from cannot be combined with --${name}`);
      }
    }
    return { kind: 'serve-from', file: from, overrides };
  }
  const isUpstreamGiven = server !== null || given.has('upstream');
  const file = given.get('config') ?? (isUpstreamGiven ? undefined : variable('config'));
  if (file !== undefined) {
    refuseBesideFile(isGiven, variable);
    return { kind: 'serve-file', file, overrides };
  }
  const upstream = server ?? value('upstream');
  if (upstream === undefined) throw nothingToServe(env);
  const sealKeyFile = value('seal-key-file') ?? null;
  const overHttp = server === null && {
    transport: value('transport'),
    'upstream-header': upstreamHeaders(lists, variable('upstream-header')),
  };
  const rest = present({
    ...valuesOf(['path', 'public-url', 'max-event', 'session-scope']),
    ...overHttp,
    'seal-key': sealKeyFile === null ? env[SEAL_KEY_VARIABLE] || undefined : undefined,
  });
  return { kind: 'serve-upstream', values: { upstream, ...overrides, ...rest }, sealKeyFile };
}

/** Refuses what a configuration file says by itself. */
function refuseBesideFile(
  isGiven: (flag: string) => boolean,
  variable: (flag: string) => string | undefined,
): void {
  if (isGiven('upstream')) {
    throw new UsageError('--config and --upstream cannot be combined: the file names the upstream');
  }
  if (!isGiven('config') && variable('upstream') !== undefined) {
    throw new UsageError(
      'MRTR_GATEWAY_CONFIG and MRTR_GATEWAY_UPSTREAM cannot be combined: unset one of them',
    );
  }
  for (const { name } of FLAGS.serve) {
    const field = fieldInFile(name);
    if (field !== null && isGiven(name)) {
      throw new UsageError(`--${name} cannot be combined with --config; set ${field}`);
    }
  }
}

function nothingToServe(env: Environment): UsageError {
  const [unknown] = unknownVariables(env, new Set());
  const problem =
    'nothing to serve: give --upstream URL, --stdio -- COMMAND, --config FILE or --from FILE';
  return new UsageError(
    unknown === undefined ? problem : `${problem}; ${describeUnknown(unknown)}`,
  );
}

function upstreamHeaders(
  lists: Words['lists'],
  variable: string | undefined,
): Record<string, string> | undefined {
  const flag = '--upstream-header';
  const given = lists.get('upstream-header');
  if (given !== undefined) return headersOf(given, flag);
  const lines = variable?.split('\n').filter((line) => line.trim() !== '');
  return lines === undefined ? undefined : headersOf(lines, 'MRTR_GATEWAY_UPSTREAM_HEADER');
}

/** Names a value in a message: by its flag or, if that is not given, by its variable. */
export function nameOfValue(words: readonly string[], env: Environment, flag: string): string {
  const isGiven = words.some((word) => word === `--${flag}` || word.startsWith(`--${flag}=`));
  const variable = variableOf(flag);
  return !isGiven && variable !== undefined && env[variable] ? variable : `--${flag}`;
}

function variableOf(flag: string): string | undefined {
  if (flag === 'seal-key') return SEAL_KEY_VARIABLE;
  return FLAGS.serve.find(({ name }) => name === flag)?.env;
}

function present<Values extends Record<string, unknown>>(values: Values) {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as {
    [Name in keyof Values]?: Exclude<Values[Name], undefined>;
  };
}

export type HostEvent =
  'SIGTERM' | 'SIGINT' | 'SIGHUP' | 'uncaughtException' | 'unhandledRejection';

/** The parts of the process that the command uses, so that tests can replace them. */
export interface Host {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stdin?: {
    readonly isTTY?: boolean;
    setRawMode?(isRaw: boolean): unknown;
    on?(event: 'data' | 'end', listener: (keys: unknown) => void): unknown;
  };
  readonly stdout: NodeJS.WritableStream & {
    readonly isTTY?: boolean;
    readonly columns?: number;
    readonly rows?: number;
  };
  readonly stderr: NodeJS.WritableStream & { readonly isTTY?: boolean };
  on(event: HostEvent, listener: (reason: unknown) => void): unknown;
}
