import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
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

// Rule limits-10.
describe('a line that is too long, where such lines are discarded', () => {
  const large = 'ü"x\\'.repeat(9_000);
  const reply = (id: number) => JSON.stringify({ result: { a: large }, jsonrpc: '2.0', id });

  function toldOf(chunks: readonly Uint8Array[]): unknown[] {
    const told: unknown[] = [];
    const reader = new LineReader(
      1_024,
      (line) => told.push(line),
      (line) => told.push(line.read()),
    );
    for (const chunk of chunks) reader.push(Buffer.from(chunk));
    reader.end();
    return told;
  }

  test('is told when it has ended, however it arrives', () => {
    const bytes = Buffer.from(`first\n${reply(1)}\r\n${reply(2)}\nnext\n${reply(3)}`);
    const told = (id: number) => ({ type: 'response', id });
    for (const size of [1, 7, 4_096, 17_949, bytes.length]) {
      const chunks = [];
      for (let at = 0; at < bytes.length; at += size) chunks.push(bytes.subarray(at, at + size));
      expect(toldOf(chunks)).toEqual(['first', told(1), told(2), 'next', told(3)]);
    }
  });

  test('is told at once if it is no message, or does not end', () => {
    const x = Buffer.alloc(1_024, 'x');
    expect(toldOf([x, x])).toEqual([null]);
    const endless = Array.from({ length: 64 }, () => x);
    expect(toldOf([Buffer.from('{"id":1,"a":"'), ...endless, Buffer.from('\nnext')])).toEqual([
      null,
      'next',
    ]);
  });
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
