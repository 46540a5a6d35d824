import { UNBOUNDED } from '../../../../src/upstream/size-limits.ts';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { EventStreamBody } from '../../../../src/upstream/http/bodies.ts';

const LIMIT = 1_024;
const LARGE = 'x'.repeat(5_000);
const reply = (id: number, text = LARGE) => `{"jsonrpc":"2.0","id":${id},"result":{"a":"${text}"}}`;
const told = (id: number) => ({ event: 'message', is: { type: 'response', id } });

/** The events of a stream whose reader discards what is too large. */
function read(chunks: readonly (string | Buffer)[]): unknown[] {
  const events: unknown[] = [];
  const body = new EventStreamBody(LIMIT, UNBOUNDED, {
    discardsLarge: true,
    event: ({ event, data, discarded }) =>
      void events.push({ event, ...(discarded ? { is: discarded.read() } : { data }) }),
    retryAfter: () => {},
  });
  for (const chunk of chunks) body.write(Buffer.from(chunk as string));
  body.end();
  return events;
}

// Rule limits-10.
describe('an event that is too large', () => {
  test.each<[string, string, object]>([
    ['in one line', `data: ${reply(1)}`, told(1)],
    ['in one line without a space', `data:${reply(1)}`, told(1)],
    ['with its name in front', `event: message\ndata: ${reply(1)}`, told(1)],
    ['with its name and id behind', `data: ${reply(1)}\nid: 5\nevent:message`, told(1)],
    ['in many lines', `data: ${reply(1).replaceAll(/x{9}/g, '$&\ndata: ')}`, told(1)],
    ['with comments in it', `data: ${reply(1)}\n: ${LARGE}\nodd: ${LARGE}`, told(1)],
    ['just above the limit', `data: ${reply(1, 'x'.repeat(LIMIT - 30))}`, told(1)],
    ['of another name', `event: odd\ndata: ${reply(1)}`, { ...told(1), event: 'odd' }],
    ['that is no message', `data\ndata\n:${LARGE}`, { event: 'message', is: null }],
  ])('%s is told, and the stream goes on', (_title, event, expected) => {
    for (const end of ['\n', '\r', '\r\n']) {
      const stream = `data: a\n\n${event}\n\ndata: b\n\n`.replaceAll('\n', end);
      const [before, after] = [
        { event: 'message', data: 'a' },
        { event: 'message', data: 'b' },
      ];
      expect(read([stream])).toEqual([before, expected, after]);
      expect(read([...stream])).toEqual([before, expected, after]);
    }
  });

  test('is the same wherever it is cut', () => {
    const part = fc.constantFrom('data: ', 'data', 'event: odd', ': c', '', reply(2), 'x', LARGE);
    const end = fc.constantFrom('\n', '\r', '\r\n', '');
    const stream = fc.array(fc.tuple(part, end), { maxLength: 12 });
    fc.assert(
      fc.property(stream, fc.array(fc.nat()), (parts, cuts) => {
        const bytes = Buffer.from(parts.flat().join(''));
        const at = [0, ...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length];
        at.sort((one, other) => one - other);
        const chunks = at.slice(1).map((to, index) => bytes.subarray(at[index], to));
        expect(outcomeOf(chunks)).toEqual(outcomeOf([bytes]));
      }),
    );
  });

  const isRefused = {
    code: 'upstream_protocol_error',
    details: {
      exceeds: expect.stringMatching(/^upstream\.maxEvent is \d+ bytes, and it has more$/),
    },
  };
  test.each<[string, string, number]>([
    ['is no object', 'data: [', 2],
    ['has 64 times the size', 'data: {"a":"', 70],
    ['has so much in other fields', 'data: {}\nodd: ', 70],
    ['has so much in its name', 'event: ', 70],
    ['has so much in many lines', 'data: {}\n', 70],
  ])('ends the stream if it %s', (_title, beginning, times) => {
    const more = beginning.endsWith('\n')
      ? 'odd: odd odd odd\n'.repeat(LIMIT / 16)
      : 'x'.repeat(LIMIT);
    const chunks = Array.from({ length: times }, () => more);
    const caught = thrownBy(() => read([beginning, ...chunks]));
    expect(caught).toMatchObject(isRefused);
    if (times > 2) expect(read([beginning, ...chunks.slice(0, 50)])).toEqual([]);
  });
});

function outcomeOf(chunks: readonly Buffer[]): unknown {
  let outcome: unknown;
  const caught = thrownBy(() => (outcome = read(chunks)));
  return caught === null ? outcome : 'refused';
}

function thrownBy(action: () => unknown): unknown {
  try {
    action();
    return null;
  } catch (error) {
    return error;
  }
}
