/** Long texts in pieces: nothing is gone over again for each piece of it. */
import { describe, expect, test } from 'vitest';
import {
  LineAssembler,
  MAX_PIECE_BYTES,
  splitIntoPieces,
} from '../../../../src/fleet/relay/messages.ts';

const MIB = 1024 * 1024;
const NO_LIMIT = Infinity;

/** Runs the work and counts the characters of every text that it splits. */
function charactersSplit(work: () => void): number {
  let characters = 0;
  const { split } = String.prototype;
  const counting = function (this: string, ...args: Parameters<typeof split>) {
    characters += this.length;
    return split.apply(this, args);
  };
  String.prototype.split = counting as typeof split;
  try {
    work();
  } finally {
    String.prototype.split = split;
  }
  return characters;
}

describe('a text in pieces', () => {
  test('is put together to the lines that it had, wherever they are cut', () => {
    const text = ['a'.repeat(300_000), '', '€\u{1f600}'.repeat(100_000), 'last'].join('\n');
    const lines = new LineAssembler(NO_LIMIT);
    const read = [...splitIntoPieces(`${text}\n`)].flatMap(
      (piece) => lines.add(piece) ?? ['too long'],
    );
    expect(read).toEqual(text.split('\n'));
  });

  test('has no piece that takes more bytes than a message may', () => {
    for (const text of ['€', '"', '\\', '\u{1f600}'].map((each) => each.repeat(400_000))) {
      for (const piece of splitIntoPieces(text)) {
        expect(Buffer.byteLength(JSON.stringify(piece))).toBeLessThanOrEqual(MAX_PIECE_BYTES);
      }
    }
  });

  test('reads and writes a long text in work that grows with its length', () => {
    const work = (length: number) => {
      const lines = new LineAssembler(NO_LIMIT);
      const text = `${'x'.repeat(length)}\n`;
      return charactersSplit(() => {
        for (const piece of splitIntoPieces(text)) lines.add(piece);
      });
    };
    expect(work(8 * MIB)).toBeLessThanOrEqual(2 * work(4 * MIB));
  });

  test('is refused when a line of it is too long, before its end has come', () => {
    const lines = new LineAssembler(10);
    expect(lines.add('short\n123456')).toEqual(['short']);
    expect(lines.add('78901')).toBeNull();
  });
});
