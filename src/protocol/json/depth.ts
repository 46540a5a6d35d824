/** How JSON is nested, found out before anything that recurses or keeps it touches it. */

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/**
 * The most objects and arrays in one message: each takes up to 170 bytes of memory for three of text, where
 * everything else in JSON takes a small multiple of its text.
 */
export const MAX_CONTAINERS = 131_072;

/**
 * Tells what there is too much of: `depth` when objects and arrays stand in each other more than `maxDepth`
 * deep, `containers` when there are more than `MAX_CONTAINERS` of them. One pass, no recursion.
 */
export function excessOf(text: string, maxDepth: number): 'depth' | 'containers' | null {
  // Too short to hold that many brackets, as almost every message is.
  if (text.length <= maxDepth) return null;
  let [depth, containers] = [0, 0];
  for (let at = 0; at < text.length; at += 1) {
    switch (text.charCodeAt(at)) {
      case 0x7b: // {
      case 0x5b: // [
        depth += 1;
        containers += 1;
        if (depth > maxDepth) return 'depth';
        if (containers > MAX_CONTAINERS) return 'containers';
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
  return null;
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
