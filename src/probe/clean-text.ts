/** Removes control characters from texts of a server before they reach a terminal. */

/** Control characters, line and paragraph separators, and bidirectional controls. */
const CONTROLS = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]+/g;

/** Cleans a text to one line of at most `maxLength` characters. */
export function clean(text: string, maxLength: number): string {
  const line = text.replace(CONTROLS, ' ').trim();
  return line.length > maxLength ? `${line.slice(0, maxLength - 1)}…` : line;
}

/** Escapes these characters in JSON, without changing its meaning. */
export function escapeJson(json: string): string {
  return json.replace(CONTROLS, (found) =>
    [...found]
      .map((character) =>
        character === '\n'
          ? character
          : `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
      )
      .join(''),
  );
}
