/** Suggestions for misspelt keys. */

const MAX_LENGTH = 64;

/** Finds the known word that is most similar to the written one. @returns `null` if none is similar enough */
export function nearest(written: string, known: readonly string[]): string | null {
  if (written.length > MAX_LENGTH) return null;
  const wanted = written.toLowerCase();
  let best: { word: string; distance: number } | null = null;
  for (const word of known) {
    const distance = editDistance(wanted, word.toLowerCase());
    if (best === null || distance < best.distance) best = { word, distance };
  }
  if (best === null) return null;
  const allowed = Math.max(1, Math.floor(Math.max(wanted.length, best.word.length) / 3));
  return best.distance <= allowed ? best.word : null;
}

/** Computes the optimal string alignment distance: insertions, deletions, substitutions and adjacent swaps. */
function editDistance(left: string, right: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: right.length + 1 }, (_, column) => column);
  for (let row = 1; row <= left.length; row += 1) {
    const current = [row];
    for (let column = 1; column <= right.length; column += 1) {
      const same = left[row - 1] === right[column - 1];
      const swapped =
        row > 1 &&
        column > 1 &&
        left[row - 1] === right[column - 2] &&
        left[row - 2] === right[column - 1];
      current[column] = Math.min(
        at(last, column) + 1,
        at(current, column - 1) + 1,
        at(last, column - 1) + (same ? 0 : 1),
        swapped ? at(beforeLast, column - 2) + 1 : Infinity,
      );
    }
    beforeLast = last;
    last = current;
  }
  return at(last, right.length);
}

function at(row: readonly number[], column: number): number {
  return row[column] ?? Infinity;
}
