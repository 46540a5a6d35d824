/** Texts of a server made harmless for a terminal, which obeys some characters instead of showing them. */

/** Controls, line and paragraph separators, and what turns the direction of writing around. */
const OBEYED = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]+/g;

/** One line of at most `maxLength` characters. */
export function clean(text: string, maxLength: number): string {
  const line = text.replace(OBEYED, ' ').trim();
  return line.length > maxLength ? `${line.slice(0, maxLength - 1)}…` : line;
}

/** JSON that means the same, with those characters escaped. */
export function escapeJson(json: string): string {
  return json.replace(OBEYED, (found) =>
    [...found]
      .map((character) =>
        character === '\n'
          ? character
          : `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
      )
      .join(''),
  );
}
