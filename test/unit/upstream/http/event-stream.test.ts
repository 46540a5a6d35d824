import { UNBOUNDED } from '../../../../src/upstream/size-limits.ts';
import { describe, expect, test } from 'vitest';
import { EventStreamBody, type ServerSentEvent } from '../../../../src/upstream/http/bodies.ts';

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
