/** Puts an entry into the text of a configuration file. Every byte outside the entry stays as it is. */
import { isDeepStrictEqual } from 'node:util';
import { isJsonObject, type JsonObject } from '../protocol/json.ts';

export interface Entry {
  /** The map that has the servers. */
  readonly servers: string;
  readonly name: string;
  readonly value: JsonObject;
}

/** @returns the new text; `null` if the entry cannot be put into this text safely */
export function withJsonEntry(text: string, entry: Entry): string | null {
  const { servers, name, value } = entry;
  if (text.trim() === '') return `${JSON.stringify({ [servers]: { [name]: value } }, null, 2)}\n`;
  const before = parsed(text);
  if (!isJsonObject(before)) return null;
  const others = before[servers] ?? {};
  if (!isJsonObject(others)) return null;
  const style = styleOf(text);
  const root = /^\s*/.exec(text)?.[0].length ?? 0;
  const map = memberOf(text, root, servers);
  const found = map && memberOf(text, map.valueAt, name);
  let after: string;
  if (found !== undefined && found !== null) {
    after = `${text.slice(0, found.valueAt)}${style.write(value, 2)}${text.slice(found.end)}`;
  } else if (map === null) after = withMember(text, root, servers, { [name]: value }, 1, style);
  else after = withMember(text, map.valueAt, name, value, 2, style);
  // Such as a file that has a key twice.
  const wanted = { ...before, [servers]: { ...others, [name]: value } };
  return isDeepStrictEqual(parsed(after), wanted) ? after : null;
}

/**
 * @param feature a line for the table `features`; `null` if none is needed
 * @returns the new text, which is the old one if all is there already; `null` as above
 */
export function withTomlEntry(text: string, entry: Entry, feature: string | null): string | null {
  const { servers, name } = entry;
  const lines = `\n${text.replaceAll('\r\n', '\n')}\n`;
  const wanted = [tomlText(entry, null), ...(feature === null ? [] : [`${feature}\n`])];
  if (wanted.every((each) => lines.includes(`\n${each}`))) return text;
  // No parser of TOML is here. Tables at the end harm nothing, unless the same ones are there, in whatever form.
  const isThere = new RegExp(`${servers}["']?\\s*(?:=|\\]|\\.\\s*["']?${name}(?![\\w-]))`).test(
    text,
  );
  if (isThere || (feature !== null && /\bfeatures\b/.test(text))) return null;
  const gap = text === '' ? '' : text.endsWith('\n') ? '\n' : '\n\n';
  return `${text}${gap}${tomlText(entry, feature)}`;
}

/** Formats the entry as TOML. A quoted JSON text is one of TOML, too. */
export function tomlText({ servers, name, value }: Entry, feature: string | null): string {
  const lines = Object.entries(value).map(
    ([key, member]) => `${key} = ${JSON.stringify(member)}\n`,
  );
  const features = feature === null ? '' : `\n[features]\n${feature}\n`;
  return `[${servers}.${name}]\n${lines.join('')}${features}`;
}

/** Formats the entry as JSON that a person copies. */
export function jsonText({ servers, name, value }: Entry): string {
  return `${JSON.stringify({ [servers]: { [name]: value } }, null, 2)}\n`;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

interface Style {
  /** Of the new line of a member, and the one after the last member. */
  readonly line: (depth: number) => string;
  readonly write: (value: unknown, depth: number) => string;
}

/** Finds out how the file is indented. A file of one line stays one. */
function styleOf(text: string): Style {
  const [, end, unit = '  '] = /^\s*\{[ \t]*(\r?\n)([ \t]+)"/.exec(text) ?? [];
  if (end === undefined && !text.trim().includes('\n') && text.includes('"')) {
    return { line: () => '', write: (value) => JSON.stringify(value) };
  }
  const line = (depth: number) => `${end ?? '\n'}${unit.repeat(depth)}`;
  return {
    line,
    write: (value, depth) => JSON.stringify(value, null, unit).replaceAll('\n', line(depth)),
  };
}

/** Adds a member at the end of the object that begins at `start`. @param depth of the member */
function withMember(
  text: string,
  start: number,
  name: string,
  value: unknown,
  depth: number,
  { line, write }: Style,
): string {
  const member = `${line(depth)}${JSON.stringify(name)}: ${write(value, depth)}`;
  const last = [...membersOf(text, start)].at(-1);
  if (last !== undefined) return `${text.slice(0, last.end)},${member}${text.slice(last.end)}`;
  const close = text.indexOf('}', start);
  return `${text.slice(0, start + 1)}${member}${line(depth - 1)}${text.slice(close)}`;
}

interface Member {
  readonly name: string;
  readonly valueAt: number;
  readonly end: number;
}

function memberOf(text: string, start: number, name: string): Member | null {
  return [...membersOf(text, start)].find((member) => member.name === name) ?? null;
}

const SPACE = /[\s,:]*/y;
const TEXT = /"(?:[^"\\]|\\.)*"/y;
const WORD = /[^\s,\]}]+/y;

/** Lists the members of the object that begins at `start`. The text is JSON. */
function* membersOf(text: string, start: number): Iterable<Member> {
  let at = endOf(SPACE, text, start + 1);
  while (text[at] === '"') {
    const keyEnd = endOf(TEXT, text, at);
    const valueAt = endOf(SPACE, text, keyEnd);
    const end = endOfValue(text, valueAt);
    yield { name: JSON.parse(text.slice(at, keyEnd)) as string, valueAt, end };
    at = endOf(SPACE, text, end);
  }
}

function endOfValue(text: string, at: number): number {
  const first = text[at];
  if (first === '"') return endOf(TEXT, text, at);
  if (first !== '{' && first !== '[') return endOf(WORD, text, at);
  let next = endOf(SPACE, text, at + 1);
  // Keys are skipped as values are.
  while (text[next] !== '}' && text[next] !== ']') {
    next = endOf(SPACE, text, endOfValue(text, next));
  }
  return next + 1;
}

function endOf(token: RegExp, text: string, at: number): number {
  token.lastIndex = at;
  token.test(text);
  return token.lastIndex;
}
