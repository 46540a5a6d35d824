import { UNBOUNDED } from '../../../../src/upstream/size-limits.ts';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  EventStreamBody,
  type ServerSentEvent,
} from '../../../../src/upstream/http/event-stream.ts';

async function read(chunks: (string | Uint8Array)[], maxEventBytes = 1024) {
  const events: ServerSentEvent[] = [];
  const retries: number[] = [];
  const body = new EventStreamBody(maxEventBytes, UNBOUNDED, {
    event: (event) => void events.push(event),
    retryAfter: (waitMs) => retries.push(waitMs),
  });
  for (const chunk of chunks) body.write(Buffer.from(chunk as string));
  body.end();
  return { events, retries };
}

describe('an event stream', () => {
  // Rule wire-6 (2025-11-25 transports, "Sending Messages to the Server"): Event streams can have LF or CRLF,
  // comments, several `data` lines and a byte order mark. Only `message` events count.
  test('is read with LF, CRLF, comments, several data lines and a byte order mark', async () => {
    const { events } = await read([
      '\uFEFF: hello\n\ndata: one\ndata: two\n\n',
      'event: endpoint\r\ndata: /message\r\n\r\n',
    ]);
    expect(events).toEqual([
      { event: 'message', data: 'one\ntwo', id: undefined },
      { event: 'endpoint', data: '/message', id: undefined },
    ]);
  });

  test('loses one byte order mark, and no second one', async () => {
    const { events } = await read(['\uFEFFdata: one\n\n']);
    expect(events.map(({ data }) => data)).toEqual(['one']);
    // A field that begins with one is unknown.
    expect((await read(['\uFEFF\uFEFFdata: one\n\n'])).events).toEqual([]);
  });

  // Rule wire-6.
  test('is put together when a character is split between chunks', async () => {
    const bytes = Buffer.from('data: "é世"\n\n');
    const { events } = await read([...bytes].map((byte) => Uint8Array.of(byte)));
    expect(events.map((event) => event.data)).toEqual(['"é世"']);
  });

  // Rule wire-6.
  test('gives the id of an event that has no data', async () => {
    const { events } = await read(['id: e1\ndata:\n\n']);
    expect(events).toEqual([{ event: 'message', data: '', id: 'e1' }]);
  });

  // Rule wire-6.
  test('gives the id of an event that has no data line, in its place', async () => {
    const content = 'id: e1\n\nid: e2\n\ndata: x\n\nid: e3\ndata: y\n\nevent: z\nid: e4\n\nid: e5';
    const expected = [
      { event: 'message', data: '', id: 'e1' },
      { event: 'message', data: '', id: 'e2' },
      { event: 'message', data: 'x', id: undefined },
      { event: 'message', data: 'y', id: 'e3' },
      { event: 'message', data: '', id: 'e4' },
    ];
    expect((await read([content])).events).toEqual(expected);
    expect((await read([...content])).events).toEqual(expected);
  });

  // Rule limits-3.
  test('is refused when an event is larger than the limit', async () => {
    const endless = ['data: ', 'x'.repeat(600), 'x'.repeat(600), 'x'.repeat(600)];
    await expect(read(endless)).rejects.toMatchObject({
      code: 'upstream_protocol_error',
      details: { exceeds: 'upstream.maxEvent is 1024 bytes, and it has more' },
    });
  });

  // Rule limits-8.
  test('is refused when an event id is longer than a header may be', async () => {
    const chunks = [`id: ${'i'.repeat(2000)}\ndata: x\n\n`];
    await expect(read(chunks, 10_000)).rejects.toMatchObject({ code: 'upstream_protocol_error' });
  });

  // Rule limits-8 (2025-11-25 transports, "Sending Messages to the Server"): `retry` counts between 100 ms and 7
  // days. An event id of more than 1024 characters ends the stream.
  test('cannot make the gateway wait without end, or not at all', async () => {
    const { retries } = await read([
      'retry: 500\n\n',
      'retry: 3600000\n\n',
      `retry: ${'9'.repeat(400)}\n\n`,
      'retry: 0\n\n',
    ]);
    expect(retries).toEqual([500, 3_600_000, 7 * 24 * 3_600_000, 100]);
  });
});

// Rule limits-3.
describe('the bytes of an event', () => {
  test('are held until it is whole, and those of comments between events are not', () => {
    const held: number[] = [];
    const hold = (bytes: number) => held.push(bytes) > 0;
    const listener = { event: () => {}, retryAfter: () => {} };
    const body = new EventStreamBody(1024, { hold, release: () => {} }, listener);
    const first = [': the first', '\n', ': the next\ndata: abc', '\n', ': the third\ndata: d'];
    const then = ['\n\n: the last', '\n\neve', 'nt: x\n'];
    for (const chunk of [...first, ...then]) body.write(Buffer.from(chunk));
    expect(held).toEqual([0, 0, 3, 3, 5, 0, 3, 1]);
  });

  test('end with each kind of line end, however they are cut', async () => {
    for (const end of ['\n', '\r', '\r\n']) {
      const { events } = await read([...`data: a${end}id: b${end}${end}data: c`]);
      expect(events).toEqual([{ event: 'message', data: 'a', id: 'b' }]);
    }
  });

  test('are read the same for every way of cutting them', async () => {
    const line = fc.constantFrom('data: x', 'data', ': c', 'id: 1', 'odd: y', '', 'retry: 500', '');
    const end = fc.constantFrom('\n', '\r', '\r\n');
    const stream = fc
      .array(fc.tuple(line, end), { maxLength: 12 })
      .map((lines) => lines.flat().join(''));
    const property = fc.asyncProperty(stream, fc.array(fc.nat(80)), async (text, cuts) => {
      const at = [0, ...cuts.map((cut) => cut % (text.length + 1)), text.length].toSorted(
        (one, other) => one - other,
      );
      const chunks = at.slice(1).map((to, index) => text.slice(at[index], to));
      expect(await read(chunks)).toEqual(await read([text]));
    });
    await fc.assert(property);
  });

  test.each([
    ['its data', ['data: ', 'x'.repeat(6_000)]],
    ['its lines', ['data\n'.repeat(100_001)]],
    ['comments in it', ['data: x\n', ':'.repeat(6_000)]],
  ])('are too many with %s', async (_what, chunks) => {
    await expect(read(chunks)).rejects.toMatchObject({ code: 'upstream_protocol_error' });
  });

  test('are counted for each event', async () => {
    const { events } = await read(
      Array.from({ length: 100 }, () => `data: ${'x'.repeat(1024)}\n\n`),
    );
    expect(events).toHaveLength(100);
  });
});
