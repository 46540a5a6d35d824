/** How deep JSON is nested, found out before anything that recurses touches it. */

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** True when objects and arrays stand in each other more than `maxDepth` deep. One pass, no recursion. */
export function isNestedDeeper(text: string, maxDepth: number): boolean {
  // Too short to hold that many brackets, as almost every message is.
  if (text.length <= maxDepth) return false;
  let depth = 0;
  for (let at = 0; at < text.length; at += 1) {
    switch (text.charCodeAt(at)) {
      case 0x7b: // {
      case 0x5b: // [
        depth += 1;
        if (depth > maxDepth) return true;
        break;
      case 0x7d: // }
      case 0x5d: // ]
        depth -= 1;
        break;
      case QUOTE:
        at = endOfString(text, at);
        break;
    }
  }
  return false;
}

/** The index of the closing quote of the string that begins at `start`, or the length when there is none. */
export function endOfString(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === BACKSLASH) at += 1;
    else if (code === QUOTE) return at;
  }
  return text.length;
}
