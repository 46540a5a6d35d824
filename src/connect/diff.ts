/** Shows what changes in a file, without the values that others wrote there. */
import { asOneLine } from '../lib/shown-text.ts';

const CONTEXT = 2;
const MAX_CHARACTERS = 200;

/** Lists the lines of JSON that change, with some around them. What was there is masked: entries of other servers hold credentials. */
export function diffOf(before: string, after: string): string[] {
  const [old, now] = [linesOf(before), linesOf(after)];
  const most = Math.min(old.length, now.length);
  let head = 0;
  while (head < most && old[head] === now[head]) head += 1;
  let tail = 0;
  while (tail < most - head && old.at(-1 - tail) === now.at(-1 - tail)) tail += 1;
  const around = (lines: readonly string[]) => lines.map((line) => `  ${masked(line)}`);
  // All that the change adds to lines of others is a comma.
  const isOld = (line: string) => old.some((each) => each === line || `${each},` === line);
  return [
    ...around(old.slice(Math.max(0, head - CONTEXT), head)),
    ...old.slice(head, old.length - tail).map((line) => `- ${masked(line)}`),
    ...now
      .slice(head, now.length - tail)
      .map((line) => `+ ${isOld(line) ? masked(line) : line.slice(0, MAX_CHARACTERS)}`),
    ...around(old.slice(old.length - tail, old.length - tail + CONTEXT)),
  ];
}

function linesOf(text: string): readonly string[] {
  return text === '' ? [] : text.replace(/\r?\n$/, '').split(/\r?\n/);
}

/** Values that say what an entry is, and hold no secret. */
const SHOWN: ReadonlySet<string> = new Set(['type', 'command', 'url', 'httpUrl', 'serverUrl']);

function masked(line: string): string {
  const [indentation = ''] = /^\s*/.exec(line) ?? [];
  let key = '';
  const shown = line.replace(
    /"((?:[^"\\]|\\.)*)"(\s*:)?/g,
    (whole, text: string, colon: string | undefined) => {
      if (colon !== undefined) {
        key = text;
        return whole;
      }
      // The password and the query of a URL are credentials.
      return SHOWN.has(key) ? `"${text.replace(/\/\/[^/@]*@|\?.*$/g, '…')}"` : '"***"';
    },
  );
  return `${indentation}${asOneLine(shown, MAX_CHARACTERS)}`;
}
