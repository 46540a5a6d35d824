/** Texts of others as people are shown them, in a log or on a terminal. */

/** Controls, line and paragraph separators, and characters of formats, which are invisible or change the direction of text. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u;
const EACH_UNSEEN = new RegExp(UNSEEN, 'gu');
const SPACE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu;

/** Tells whether every character of a text is seen where it stands. */
export function isPlainText(text: string): boolean {
  return !UNSEEN.test(text);
}

/** Writes each such character as JSON escapes it. @param kept one that stays as it is */
export function escapeUnseen(text: string, kept = ''): string {
  return text.replace(EACH_UNSEEN, (character) =>
    character === kept ? character : character.split('').map(escaped).join(''),
  );
}

function escaped(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

/** Returns the beginning of a text as one line. */
export function asOneLine(text: string, maxCharacters: number): string {
  const line = text.replace(SPACE, ' ').trim();
  return line.length > maxCharacters ? `${line.slice(0, maxCharacters - 1)}…` : line;
}

/** Returns what an error says, whatever was thrown. */
export function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { code } = error as NodeJS.ErrnoException;
  return error.message || (code ?? error.name);
}

/** Formats a value as JSON that people read, with a new line at its end. */
export function shownJson(value: unknown): string {
  return `${escapeUnseen(JSON.stringify(value, null, 2), '\n')}\n`;
}

/**
 * Lists what has to be masked so that secrets are not shown: each value, its lines, and how JSON writes it.
 * @returns the longest first, since a value can begin with another one
 */
export function spellingsOf(values: readonly string[], minCharacters: number): readonly string[] {
  const spellings = values
    .flatMap((value) => [value, ...value.split(/[\r\n]+/)])
    .flatMap((value) => [value, JSON.stringify(value).slice(1, -1)])
    .filter(({ length }) => length >= minCharacters);
  return [...new Set(spellings)].sort((a, b) => b.length - a.length);
}
