/** Shows what changes in a file, without the values that others wrote there. */
import { asOneLine } from '../lib/shown-text.ts';

const CONTEXT = 2;
const MAX_CHARACTERS = 200;

/**
 * Lists the lines of JSON that an edit changes, with some around them. What was there is masked before the edit: entries of other
 * servers hold credentials.
 */
export function diffOf(before: string, edit: (text: string) => string | null): string[] {
  const text = masked(before);
  const [old, now] = [linesOf(text), linesOf(edit(text) ?? '')];
  const most = Math.min(old.length, now.length);
  let head = 0;
  while (head < most && old[head] === now[head]) head += 1;
  let tail = 0;
  while (tail < most - head && old.at(-1 - tail) === now.at(-1 - tail)) tail += 1;
  return [
    ...shown(' ', old.slice(Math.max(0, head - CONTEXT), head)),
    ...shown('-', old.slice(head, old.length - tail)),
    ...shown('+', now.slice(head, now.length - tail)),
    ...shown(' ', old.slice(old.length - tail, old.length - tail + CONTEXT)),
  ];
}

function linesOf(text: string): readonly string[] {
  return text === '' ? [] : text.replace(/\r?\n$/, '').split(/\r?\n/);
}

function shown(sign: string, lines: readonly string[]): string[] {
  return lines.map((line) => {
    const [indentation = ''] = /^\s*/.exec(line) ?? [];
    return `${sign} ${indentation}${asOneLine(line, MAX_CHARACTERS)}`;
  });
}

/** A text, with the colon if it is a key, or a number. */
const TOKEN = /"(?:[^"\\]|\\.)*"(\s*:)?|-?\d[\d.eE+-]*/g;
const URL_KEYS: ReadonlySet<string> = new Set(['url', 'httpUrl', 'serverUrl']);

/** Masks the values of a text that is JSON, which it stays. */
function masked(text: string): string {
  let key = '';
  return text.replace(TOKEN, (token: string, colon: string | undefined) => {
    if (colon !== undefined) {
      key = JSON.parse(token.slice(0, -colon.length)) as string;
      return token;
    }
    const value: unknown = JSON.parse(token);
    const shownValue = typeof value === 'string' ? withoutCredentials(key, value) : '***';
    // Further values of a list, such as arguments, have no key.
    key = '';
    return JSON.stringify(shownValue);
  });
}

/** Leaves what says which entry it is: the host of a URL, since a path can be a credential, too, and a program without its arguments. */
function withoutCredentials(key: string, value: string): string {
  if (key === 'type' || key === 'command') return value.replace(/\s.*$/s, ' …');
  const url = URL_KEYS.has(key) ? URL.parse(value) : null;
  return url === null ? '***' : `${url.protocol}//${url.host}/…`;
}
