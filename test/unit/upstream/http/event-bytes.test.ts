import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { EventBytes } from '../../../../src/upstream/http/event-bytes.ts';

/** What goes on after each of these chunks, and what is left. */
function taken(chunks: readonly string[], maxDataBytes = 1024 * 1024) {
  const bytes = new EventBytes(maxDataBytes);
  const due = chunks.map((chunk) => bytes.take(Buffer.from(chunk, 'latin1')).toString('latin1'));
  return { due, rest: bytes.rest().toString('latin1'), isTooLarge: bytes.isTooLarge };
}

// Rule limits-3.
describe('the bytes of an event stream', () => {
  test('go on when an event is whole, and those of comments as they come', () => {
    const { due, rest } = taken([
      ': one',
      '\n',
      ': two\ndata: a',
      '\n',
      ': three\n\ndata: b\n\nevent',
      ': x\n',
    ]);
    expect(due).toEqual([': one', '\n', ': two\n', '', 'data: a\n: three\n\ndata: b\n\n', '']);
    expect(rest).toBe('event: x\n');
  });

  test('end an event with each kind of line end, however it is cut', () => {
    for (const end of ['\n', '\r', '\r\n']) {
      const event = `data: a${end}id: b${end}${end}`;
      const { due, rest } = taken([...event, 'data: c']);
      expect(due.join('')).toContain(`data: a${end}id: b${end}`);
      expect(`${due.join('')}${rest}`).toBe(`${event}data: c`);
      expect(rest).toBe('data: c');
    }
  });

  test('are all there, in their order, and the same for every way of cutting them', () => {
    const line = fc.constantFrom('data: x', 'data', ': c', 'id: 1', 'odd: y', '', 'retry: 5', '');
    const end = fc.constantFrom('\n', '\r', '\r\n');
    const stream = fc
      .array(fc.tuple(line, end), { maxLength: 12 })
      .map((lines) => lines.flat().join(''));
    fc.assert(
      fc.property(stream, fc.array(fc.nat(80)), (text, cuts) => {
        const at = [0, ...cuts.map((cut) => cut % (text.length + 1)), text.length].toSorted(
          (one, other) => one - other,
        );
        const chunks = at.slice(1).map((to, index) => text.slice(at[index], to));
        const [cut, whole] = [taken(chunks), taken([text])];
        expect(`${cut.due.join('')}${cut.rest}`).toBe(text);
        // A line feed behind the carriage return that ended an event may come later.
        expect(cut.rest.replace(/^\n/, '')).toBe(whole.rest.replace(/^\n/, ''));
      }),
    );
  });

  test.each([
    ['its data', ['data: ', 'x'.repeat(6_000)]],
    ['its lines', ['data\n'.repeat(100_001)]],
    ['comments in it', ['data: x\n', ':'.repeat(6_000)]],
  ])('are too many of one event with %s', (_what, chunks) => {
    expect(taken(chunks, 1024).isTooLarge).toBe(true);
  });

  test('are counted for each event', () => {
    const { isTooLarge } = taken(
      Array.from({ length: 100 }, () => `data: ${'x'.repeat(1024)}\n\n`),
    );
    expect(isTooLarge).toBe(false);
  });
});
