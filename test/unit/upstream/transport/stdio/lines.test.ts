import fc from 'fast-check';
import { expect, test } from 'vitest';
import { LineReader } from '../../../../../src/upstream/transport/stdio/lines.ts';

function linesOf(chunks: readonly Uint8Array[], maxBytes: number): [string, boolean][] {
  const lines: [string, boolean][] = [];
  const reader = new LineReader(maxBytes, (line, isWhole) => lines.push([line, isWhole]));
  for (const chunk of chunks) reader.push(Buffer.from(chunk));
  reader.end();
  return lines;
}

test('lines are the same however they arrive', () => {
  const written = fc.array(
    fc.string({ unit: 'binary' }).map((text) => text.replace(/[\r\n]/g, '')),
  );
  fc.assert(
    fc.property(written, fc.integer({ min: 1, max: 7 }), (texts, size) => {
      const bytes = Buffer.from(texts.map((text) => `${text}\n`).join(''));
      const chunks = [];
      for (let at = 0; at < bytes.length; at += size) chunks.push(bytes.subarray(at, at + size));
      const expected = texts.map((text) => [Buffer.from(text).toString(), true]);
      expect(linesOf(chunks, 1_000_000)).toEqual(expected);
    }),
  );
});

test('a line that is too long is cut, and its rest is skipped', () => {
  const chunks = ['12345', '6789', '0\nnext\r\n', 'last'].map((text) => Buffer.from(text));
  expect(linesOf(chunks, 8)).toEqual([
    ['12345678', false],
    ['next', true],
    ['last', true],
  ]);
});

test('a line that comes byte by byte is whole', () => {
  const line = 'x'.repeat(5_000);
  expect(
    linesOf(
      [...`${line}\n`].map((byte) => Buffer.from(byte)),
      10_000,
    ),
  ).toEqual([[line, true]]);
});
