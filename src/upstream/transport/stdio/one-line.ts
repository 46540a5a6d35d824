/** Writes messages for servers over stdio. */
import type { JsonObject } from '../../../protocol/json.ts';

/** JSON allows them in texts, and the line reader of Node.js takes each for the end of a line. */
const LINE_SEPARATORS = /[\u2028\u2029]/g;

/** Writes a message as JSON that every server reads as one line. */
export function oneLine(message: JsonObject): string {
  return JSON.stringify(message).replace(LINE_SEPARATORS, (separator) =>
    separator === '\u2028' ? '\\u2028' : '\\u2029',
  );
}
