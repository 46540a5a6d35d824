/** Reads the words of a command line: flags with their values, operands, and a command after `--`. */
import { parseArgs, type ParseArgsConfig } from 'node:util';
import { nearest } from '../config/load/problem.ts';
import { COMMANDS, FLAGS, type CommandName, type Flag } from './flags.ts';

/** Thrown for an invalid command line. `message` is one line. */
export class UsageError extends Error {
  readonly kind = 'usage-error';

  constructor(message: string) {
    super(message);
    this.name = 'UsageError';
  }
}

export interface Words {
  readonly given: ReadonlyMap<string, string>;
  /** All values of the flags that can be given several times. */
  readonly lists: ReadonlyMap<string, readonly string[]>;
  readonly operands: readonly string[];
  /** The command after `--`; `null` without `--stdio`. */
  readonly rest: readonly string[] | null;
}

export const NO_COMMAND = '--stdio needs a command after "--", such as --stdio -- npx -y SERVER';

/** Finds the command that the first word names. @returns `null` if it names none */
export function commandNamed([first]: readonly string[]): CommandName | null {
  return COMMANDS.find((command) => command === first) ?? null;
}

/** Reads the command: the first word, unless it is a flag. */
export function nameOfCommand(words: readonly string[]): CommandName {
  const [first] = words;
  if (first === undefined || first.startsWith('-')) return 'serve';
  const name = commandNamed(words);
  if (name !== null) return name;
  if (/^https?:/i.test(first)) throw new UsageError('unexpected URL; use --upstream URL');
  const meant = nearest(first, COMMANDS);
  throw new UsageError(
    `unknown command ${quote(first)}; ${meant === null ? `expected one of ${COMMANDS.join(', ')}` : `did you mean "${meant}"?`}`,
  );
}

/** Parses leniently and then checks: each error names the flag as it was written, in one line. */
export function readWords(words: readonly string[], command: CommandName): Words {
  const flags = FLAGS[command];
  const options: NonNullable<ParseArgsConfig['options']> = {};
  for (const { name, short, value } of flags) {
    options[name] = {
      type: value === undefined ? 'boolean' : 'string',
      ...(short === undefined ? {} : { short }),
    };
  }
  const { tokens } = parseArgs({
    args: [...words],
    options,
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  const given = new Map<string, string>();
  const lists = new Map<string, string[]>();
  const operands: string[] = [];
  let rest: string[] | null = null;
  for (const token of tokens) {
    if (token.kind === 'option-terminator') rest = [];
    if (token.kind === 'positional') (rest ?? operands).push(token.value);
    if (token.kind !== 'option') continue;
    const flag = flags.find(({ name }) => name === token.name);
    if (flag === undefined) {
      // The flag is one of the command, which was written without "--".
      if (given.has('stdio') && operands.length > 0) throw new UsageError(NO_COMMAND);
      throw unknownFlag(token.rawName, command);
    }
    const value = valueOf(flag, token.rawName, token.value, token.inlineValue === true);
    if (flag.repeatable === true) {
      lists.set(flag.name, [...(lists.get(flag.name) ?? []), value]);
      continue;
    }
    if (given.has(flag.name)) throw new UsageError(`${token.rawName} is given twice`);
    given.set(flag.name, value);
  }
  const named = words[0] === command;
  const own = named ? operands.slice(1) : operands;
  // Without --stdio, "--" only ends the flags.
  if (given.has('stdio')) return { given, lists, operands: own, rest };
  return { given, lists, operands: [...own, ...(rest ?? [])], rest: null };
}

function valueOf(flag: Flag, written: string, value: string | undefined, inline: boolean): string {
  if (flag.value === undefined) {
    if (value !== undefined) throw new UsageError(`${written} takes no value`);
    return '';
  }
  if (value === undefined || value === '' || (!inline && value.startsWith('-'))) {
    throw new UsageError(`${written} needs a value: ${written} ${flag.value}`);
  }
  return value;
}

function unknownFlag(written: string, command: CommandName): UsageError {
  const meant = nearest(
    written.replace(/^-+/, ''),
    FLAGS[command].map(({ name }) => name),
  );
  const elsewhere = COMMANDS.find((other) =>
    FLAGS[other].some(({ name }) => `--${name}` === written),
  );
  if (meant !== null) {
    return new UsageError(`unknown flag ${quote(written)}; did you mean --${meant}?`);
  }
  if (elsewhere !== undefined) {
    return new UsageError(`${written} is a flag of "${elsewhere}", not of "${command}"`);
  }
  return new UsageError(`unknown flag ${quote(written)}`);
}

/** Quotes a word for a message, shortened. */
export function quote(word: string): string {
  return JSON.stringify(word.length > 64 ? `${word.slice(0, 64)}...` : word);
}
